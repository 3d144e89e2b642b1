"""Measure a diagnosis: CPU time beside that of loading, and the memory of many ranks.

    python -m benchmarks.diagnose [--tiny]

Each run is a process of its own, with the cache off, and measures loading and diagnosing, so that
their ratio holds on a machine of any speed. The jobs are sample jobs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.children import Child, Outcome, middle
from benchmarks.environments import machine, revision, today
from benchmarks.table import quantity
from benchmarks.traces import run_apart, sample_command

RANKS = 8
EVENTS = {4_000: 1.0, 200_000: 5.0}
"""Events of each rank, and the CPU time (s) that a diagnosis may take."""

TINY = {400: 1.0}
MANY = (64, 256)
FEW = (9, 12)
"""As few ranks as are not all held."""

EVENTS_OF_MANY = 4_000
MEMORY_GROWS_BY = 1.5
"""The peak of four times as many ranks is at most this many times as high."""

HEADINGS = ("job", "load, CPU", "diagnose, CPU", "ratio", "peak memory", "target", "met")


EVENTS_COMPARED = 1_000_000
"""Of each of two ranks, in two jobs."""

COMPARED_S, BASELINE_BYTES = 3.0, 200_000
"""CPU time to explain a change after loading, and the most that is kept of a job."""


@dataclass(frozen=True)
class Sample:
    """A sample job, written when it is first needed."""

    work: Path
    ranks: int
    events: int

    def folder(self) -> Path:
        """Where its traces are."""
        folder = self.work / f"{self.ranks}_ranks_{self.events}_events"
        done = folder.with_suffix(".written")
        if not done.exists():
            run_apart(sample_command(folder, self.ranks, self.events))
            done.touch()
        return folder

    def files(self) -> dict[int, str]:
        """Its traces by rank."""
        return {rank: str(self.folder() / f"rank-{rank}.json.gz") for rank in range(self.ranks)}

    def measured(self, task: str, repeats: int) -> list[Outcome]:
        """Load and diagnose it some times."""
        child = Child(Path(sys.executable), "diagnosing")
        runs = [
            child.run(task, folder=str(self.folder()), sample_tree=task == "on_demand")
            for _ in range(repeats)
        ]
        return [run for run in runs if run is not None]


def rows(work: Path, repeats: int, *, tiny: bool) -> Iterator[Sequence[str]]:
    """Cells of the table."""
    for events, limit_s in (TINY if tiny else EVENTS).items():
        outcomes = Sample(work, RANKS, events).measured("held", repeats)
        spent = _median(outcomes, "diagnose")
        target = (f"≤ {quantity(limit_s, 's')}", _met(spent is not None and spent <= limit_s))
        yield _row(f"{RANKS} ranks of {events:,} events", outcomes, *target)
    first_mb = None
    for ranks in FEW if tiny else MANY:
        job = Sample(work, ranks, next(iter(TINY)) if tiny else EVENTS_OF_MANY)
        outcomes = job.measured("on_demand", 1)
        peak_mb = _peak_mb(outcomes)
        target = ("", "")
        if first_mb and peak_mb:
            most_mb = MEMORY_GROWS_BY * first_mb
            target = (f"≤ {quantity(most_mb, 'MB')}", _met(peak_mb <= most_mb))
        yield _row(f"{ranks} ranks of {job.events:,} events, 8 held", outcomes, *target)
        first_mb = peak_mb
    yield _compared(Sample(work, 2, next(iter(TINY)) if tiny else EVENTS_COMPARED), repeats)


def _compared(job: Sample, repeats: int) -> Sequence[str]:
    """Two jobs, explained after loading; the size of a baseline stands beside what it is of."""
    outcomes = job.measured("compared", repeats)
    spent = _median(outcomes, "diagnose")
    size = max((each.answer["baseline_bytes"] for each in outcomes), default=0)
    what = f"2 × {job.ranks} ranks of {job.events:,} events compared ({size / 1000:.0f} kB kept)"
    is_met = spent is not None and spent <= COMPARED_S and size <= BASELINE_BYTES
    return _row(what, outcomes, f"≤ {quantity(COMPARED_S, 's')}, 200 kB", _met(is_met))


def _row(what: str, outcomes: list[Outcome], target: str, met: str) -> Sequence[str]:
    load, spent = _median(outcomes, "load"), _median(outcomes, "diagnose")
    ratio = f"{spent / load:.2f}" if spent and load else ""
    peak_mb = _peak_mb(outcomes)
    cost = quantity(load, "s"), quantity(spent, "s"), ratio, quantity(peak_mb, "MB")
    return what, *cost, target, met


def _peak_mb(outcomes: list[Outcome]) -> float | None:
    return max((max(each.tree_mb, each.peak_mb) for each in outcomes), default=None)


def _median(outcomes: list[Outcome], phase: str) -> float | None:
    return middle(outcomes, lambda outcome: float(outcome.answer[phase]["cpu_s"]))


def _met(is_met: bool) -> str:  # noqa: FBT001
    return "yes" if is_met else "**no**"


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.diagnose", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="runs of each (%(default)s)")
    parser.add_argument("--tiny", action="store_true", help="jobs of 400 events, to try it")
    parser.add_argument(
        "--work",
        type=Path,
        default=Path(tempfile.gettempdir()) / "hta_widgets_benchmarks" / "diagnose",
        help="folder for the jobs, kept (%(default)s)",
    )
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    print(f"{today()}, {machine()}, {revision()}. Medians of {given.repeats} runs.\n")
    for cells in (HEADINGS, ("---", *["---:"] * 5, "---")):
        print(f"| {' | '.join(cells)} |")
    for cells in rows(given.work, given.repeats, tiny=given.tiny):
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
