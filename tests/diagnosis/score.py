"""How well a diagnosis finds what is wrong in the labelled jobs.

``python -m tests.diagnosis.score`` scores `hta_widgets.diagnose`; ``--only TEXT`` takes the jobs
with this in their names, ``--misses`` prints each answer that is not right.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Protocol

from tests.diagnosis.labelled import Kind, Label, LabelledJob, labelled_jobs

TOP = 3
BIG_LOSS_PERCENT = 15.0
HARDWARE = frozenset({"slow_gpu", "gpu_throttling", "slow_link"})


class Finding(Protocol):
    """What a diagnosis returns, first the most expensive one."""

    @property
    def cause(self) -> str:
        """A word of the vocabulary."""

    @property
    def ranks(self) -> Sequence[int]:
        """Who is to blame."""

    @property
    def recoverable_ms(self) -> float:
        """What it costs per step."""

    @property
    def sentence(self) -> str:
        """What is wrong, with numbers."""


Diagnose = Callable[[Path], Sequence[Finding]]


@dataclass(frozen=True)
class Answer:
    """What was said of a job. ``error`` is the exception, if it raised one."""

    job: LabelledJob
    label: Label
    findings: Sequence[Finding] = ()
    error: str = ""

    @property
    def accusations(self) -> Sequence[Finding]:
        """The findings that claim something, without those that say what was not recorded."""
        return [f for f in self.findings if getattr(f, "confidence", "") != "inconclusive"]

    @property
    def hit(self) -> Finding | None:
        """The finding among the first three that names the cause and the ranks."""
        for finding in self.findings[:TOP]:
            if self._names_cause(finding) and frozenset(finding.ranks) in self.label.ranks:
                return finding
        return None

    @property
    def names_only_cause(self) -> bool:
        """Whether the cause is named, but not the ranks."""
        return not self.hit and any(map(self._names_cause, self.findings[:TOP]))

    @property
    def is_false_alarm(self) -> bool:
        """Whether it accuses where nothing is wrong."""
        harmless = self.job.kind in {Kind.HEALTHY, Kind.TRAP}
        return harmless and any(not self._names_cause(each) for each in self.accusations)

    @property
    def is_silent(self) -> bool:
        """Whether it says nothing where much is lost and can be told."""
        is_big = self.label.percent >= BIG_LOSS_PERCENT
        return self.job.kind is Kind.CAUSE and is_big and not self.findings

    @property
    def blames_hardware(self) -> bool:
        """Whether it blames hardware where none is to blame."""
        blamed = {finding.cause for finding in self.accusations} & HARDWARE
        return bool(blamed) and not HARDWARE & set(self.label.causes)

    @property
    def is_well_estimated(self) -> bool:
        """Whether the cost is right within a factor of two."""
        hit = self.hit
        return hit is not None and 0.5 <= hit.recoverable_ms / self.label.loss_ms <= 2

    @property
    def is_right(self) -> bool:
        """Whether it is what was asked for."""
        if self.error or self.blames_hardware or self.is_false_alarm:
            return False
        return self.job.kind is not Kind.CAUSE or bool(self.hit)

    @property
    def has_flaw_of_form(self) -> bool:
        """Whether a sentence has no number, or the order is not that of the cost."""
        costs = [finding.recoverable_ms for finding in self.findings]
        unordered = any(first < then for first, then in pairwise(costs))
        return unordered or not all(re.search(r"\d", f.sentence) for f in self.accusations)

    def _names_cause(self, finding: Finding) -> bool:
        return finding.cause in self.label.causes


@dataclass(frozen=True)
class Score:
    """All answers, and what they come to."""

    answers: Sequence[Answer] = field(default_factory=list)

    @property
    def asked(self) -> list[Answer]:
        """The answers on jobs whose cause can be told."""
        return [answer for answer in self.answers if answer.job.kind is Kind.CAUSE]

    @property
    def hits(self) -> list[Answer]:
        """The answers that name cause and ranks."""
        return [answer for answer in self.asked if answer.hit]

    def report(self) -> str:
        """Return the numbers, and a table by cause and by layout."""
        quiet = [a for a in self.answers if a.job.kind in {Kind.HEALTHY, Kind.TRAP}]
        estimated = [answer for answer in self.hits if answer.is_well_estimated]
        numbers = {
            f"cause and ranks in the first {TOP}": f"{len(self.hits)} of {len(self.asked)}",
            "cause without the ranks": _count(a.names_only_cause for a in self.asked),
            "false alarms": f"{_count(a.is_false_alarm for a in quiet)} of {len(quiet)}",
            f"silent, loss of {BIG_LOSS_PERCENT:g} % or more": _count(
                a.is_silent for a in self.answers
            ),
            "hardware blamed for software": _count(a.blames_hardware for a in self.answers),
            "cost within a factor of two": f"{len(estimated)} of {len(self.hits)}",
            "jobs with further findings": _count(len(a.accusations) > 1 for a in self.asked),
            "flaws of form": _count(a.has_flaw_of_form for a in self.answers),
            "errors": _count(bool(a.error) for a in self.answers),
        }
        lines = [f"{name:34s}{number}" for name, number in numbers.items()]
        for heading, group in _GROUPS.items():
            lines += ["", f"{heading:26s}{'hits':>10s}{'costs':>8s}"]
            lines += self._table(group)
        return "\n".join(lines)

    def _table(self, group: Callable[[LabelledJob], str]) -> Iterable[str]:
        for name in dict.fromkeys(group(answer.job) for answer in self.asked):
            asked = [answer for answer in self.asked if group(answer.job) == name]
            hits = [answer for answer in asked if answer.hit]
            estimated = _count(answer.is_well_estimated for answer in hits)
            yield f"{name:26s}{f'{len(hits)}/{len(asked)}':>10s}{f'{estimated}/{len(hits)}':>8s}"

    def misses(self) -> str:
        """Return what was said where it is not right, or its cost is wrong."""
        lines = []
        for answer in self.answers:
            if answer.is_right and (answer.is_well_estimated or not answer.hit):
                continue
            label = answer.label
            asked = " or ".join(str(sorted(ranks)) for ranks in label.ranks)
            lines.append(f"{answer.job.name}: {label.causes} {asked} {label.loss_ms:.2f} ms")
            lines += [f"    {answer.error}"] if answer.error else []
            lines += [
                f"    {each.cause} {list(each.ranks)} {each.recoverable_ms:.2f} ms: {each.sentence}"
                for each in answer.findings
            ]
        return "\n".join(lines)


_GROUPS: dict[str, Callable[[LabelledJob], str]] = {
    "cause": lambda job: job.causes[0],
    "layout": lambda job: job.layout,
    "recording": lambda job: job.recording,
}


def score(diagnose: Diagnose, jobs: Iterable[LabelledJob]) -> Score:
    """Write each job, diagnose it, and compare."""
    answers = []
    with TemporaryDirectory() as scratch:
        for number, job in enumerate(jobs):
            folder = job.write(Path(scratch) / f"job-{number}")
            answers.append(_answer(diagnose, job, folder))
            rmtree(folder)
    return Score(answers)


def _answer(diagnose: Diagnose, job: LabelledJob, folder: Path) -> Answer:
    try:
        findings = list(diagnose(folder))
    except Exception as error:  # noqa: BLE001
        return Answer(job, job.label, error=f"{type(error).__name__}: {error}")
    return Answer(job, job.label, findings)


def _count(truths: Iterable[bool]) -> int:
    return sum(map(bool, truths))


def main() -> None:
    """Score the diagnosis of the package."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="take the jobs with this text in their names")
    parser.add_argument(
        "--misses", action="store_true", help="print the answers that are not right"
    )
    options = parser.parse_args()
    from hta_widgets import diagnose  # noqa: PLC0415

    result = score(diagnose, [job for job in labelled_jobs() if options.only in job.name])
    sys.stdout.write(result.report() + "\n")
    if options.misses:
        sys.stdout.write("\n" + result.misses() + "\n")


if __name__ == "__main__":
    main()
