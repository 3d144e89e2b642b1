"""How well changes are explained: ``python -m tests.diagnosis.change.score [--seeds N]``.

Each cause of the simulator is planted in a job whose noise is another than that of its healthy
twin, and two healthy jobs are compared with each other. A hit is a first line that names the cause
of a regression, or of one that only some of the steps show; an alarm is anything but noise of two
healthy jobs.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hta_widgets.diagnosis.change.explain_change import Change, explain_change
from hta_widgets.trace.opening.open import open_trace
from tests.simulator import CAUSES, write_job

STEPS = 7
"""Of which the last is not analysed."""

OTHER_NOISE = 12
"""Seeds that differ by this plan the same job, which has other noise."""

NOT_IN_A_STEP = frozenset({"warm_up", "autotuning", "missing_rank"})
"""Not in the steps that are compared, or not in their times."""


VERDICTS = {"profiler_overhead": ("method changed",)}
"""Recorded with stacks, and before without."""

SEEN_AS = {"slow_link": "exposed_communication"}
"""In a ring of all ranks no link can be compared with another: the transfers are seen."""


class Pair(NamedTuple):
    """Two jobs that were compared."""

    cause: str
    seed: int
    planted: bool
    change: Change

    @property
    def is_right(self) -> bool:
        """Whether the answer is right."""
        if not self.planted:
            return self.change.verdict == "noise"
        wanted = VERDICTS.get(self.cause, ("regression", "cannot tell"))
        cause = SEEN_AS.get(self.cause, self.cause)
        named = re.search(rf"Cause by replay: {cause}( on [^:]*)?: ", self.change.finding)
        return self.change.verdict in wanted and bool(named)


def pairs(causes: list[str], seeds: int, *, ranks: int = 4) -> Iterator[Pair]:
    """Compare a healthy job with a sick one, and with another healthy one."""
    for cause in causes:
        for seed in range(seeds):
            with TemporaryDirectory() as folder:
                jobs = {}
                for name, healthy, noise in (
                    ("before", True, seed),
                    ("again", True, seed + OTHER_NOISE),
                    ("after", False, seed + OTHER_NOISE),
                ):
                    path = Path(folder) / name
                    write_job(path, cause, healthy=healthy, ranks=ranks, steps=STEPS, seed=noise)
                    jobs[name] = open_trace(path, progress=False)
                for name in ("again", "after"):
                    change = explain_change(jobs["before"], jobs[name])
                    yield Pair(cause, seed, name == "after", change)


def main() -> None:
    """Print each answer, and how many are right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", default="", help="causes with this in their names")
    options = parser.parse_args()
    causes = [each for each in CAUSES if options.only in each and each not in NOT_IN_A_STEP]
    found = []
    for pair in pairs(causes, options.seeds):
        found.append(pair)
        kind = "planted" if pair.planted else "A/A"
        right = "right" if pair.is_right else "WRONG"
        sys.stdout.write(f"{right} {kind} {pair.cause} {pair.seed}: {pair.change.finding}\n")
        if not pair.is_right:
            sys.stdout.write(f"      {[each.words for each in pair.change.causes]}\n")
            sys.stdout.write(f"      {pair.change.step} {pair.change.notices}\n")
    for planted, kind in ((True, "planted"), (False, "A/A")):
        own = [each for each in found if each.planted == planted]
        sys.stdout.write(f"{kind}: {sum(each.is_right for each in own)} of {len(own)} right\n")


if __name__ == "__main__":
    main()
