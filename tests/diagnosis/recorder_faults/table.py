"""The table fault × number of jobs, in the docs and with its details beside this file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.diagnosis.recorder_faults.effects import Effect
from tests.diagnosis.recorder_faults.faults import FAULTS

EFFECTS: Final = Path(__file__).with_name("effects.json")
PAGE: Final = Path(__file__).parents[3] / "docs" / "recorder-faults.md"
ROWS: Final = re.compile(r"^\| fault \|.*?(?=\n\n)", re.MULTILINE | re.DOTALL)
COLUMNS: Final = (
    "fault",
    "seen in the field",
    "jobs",
    "reported",
    "false or higher",
    "unreported",
    "lost",
    "unreported",
)


class Counts(NamedTuple):
    """Number of jobs.

    Attributes
    ----------
    jobs : int
        That have a place for the fault.
    told : int
        With a notice that the sound recording does not have.
    false : int
        With a measured finding that the sound recording does not have, or a higher price.
    false_untold : int
        Those of them without a notice.
    lost : int
        That lose a measured finding.
    lost_untold : int
        Those of them without a notice.
    """

    jobs: int
    told: int
    false: int
    false_untold: int
    lost: int
    lost_untold: int


class Table(NamedTuple):
    """By fault and job, `Effect.to_json`."""

    effects: Mapping[str, Mapping[str, Mapping[str, Any]]]

    @classmethod
    def read(cls) -> Table:
        """As it was written last."""
        return cls(json.loads(EFFECTS.read_text(encoding="utf-8")))

    def with_jobs(self, by_job: Mapping[str, Mapping[str, Effect]]) -> Table:
        """The same with other numbers of some jobs."""
        known = {fault.name: dict(self.effects.get(fault.name, {})) for fault in FAULTS}
        for job, of_faults in by_job.items():
            for fault, of_job in known.items():
                of_job.pop(job, None)
                if fault in of_faults:
                    of_job[job] = of_faults[fault].to_json()
        return Table({fault: dict(sorted(of_job.items())) for fault, of_job in known.items()})

    def counts(self, fault: str) -> Counts:
        found = self.effects[fault].values()
        untold = [each for each in found if not each["told"]]
        return Counts(
            jobs=len(found),
            told=len(found) - len(untold),
            false=sum("false" in each for each in found),
            false_untold=sum("false" in each for each in untold),
            lost=sum("lost" in each for each in found),
            lost_untold=sum("lost" in each for each in untold),
        )

    def text(self) -> str:
        """As a table of Markdown."""
        counts = {fault: self.counts(fault.name) for fault in FAULTS}
        rows = [(fault.name, fault.seen, *each) for fault, each in counts.items()]
        sums = tuple(sum(column) for column in zip(*counts.values(), strict=True))
        rows.append(("all", "", *sums))
        lines = [COLUMNS, ("---", "---", *["---:"] * len(Counts._fields)), *rows]
        return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"

    def in_page(self, page: str) -> str:
        """The page of the docs with this table in place of the one that it has."""
        return ROWS.sub(lambda _: self.text().rstrip("\n"), page)

    def write(self) -> None:
        """Write the details, and the page."""
        lines = []
        for fault, by_job in self.effects.items():
            jobs = ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in by_job.items())
            lines.append(f"  {json.dumps(fault)}: {{\n{jobs}\n  }}")
        EFFECTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        self.write_page()

    def write_page(self) -> None:
        """Write the table into the docs."""
        PAGE.write_text(self.in_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
