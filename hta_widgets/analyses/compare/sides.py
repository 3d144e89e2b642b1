"""The two jobs that are compared, and the ranks of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from hta_widgets.analyses.compare.times import Recording, recording
from hta_widgets.quantities import counted, duration
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded


@dataclass(frozen=True)
class Side:
    """One of the two jobs."""

    job: Job
    ranks: tuple[int, ...]
    """Those that are compared."""
    name: str
    """Tells the jobs apart."""

    @property
    def recording(self) -> Recording:
        """What its ranks recorded."""
        return recording(self.job, self.ranks)

    @property
    def lacks_kernels(self) -> tuple[str, ...]:
        """Notices on ranks whose format has no kernels."""
        return self.job.lacking(self.ranks, Recorded.KERNELS)

    def recorded(self) -> dict[str, object]:
        """Its row of `Compare.recorded`."""
        recorded = self.recording
        return {
            "job": self.name,
            "ranks": recorded.ranks,
            "steps": recorded.steps / recorded.ranks,
            "span_ns": recorded.times_ns["span"] / recorded.ranks,
        }

    def notices(self) -> list[str]:
        """How much was recorded, and what was left out."""
        recorded = self.recording
        amount = (
            f"{_number_of(recorded.ranks, 'rank')} with "
            f"{_number_of(recorded.steps / recorded.ranks, 'ProfilerStep')} and "
            f"{duration(recorded.times_ns['span'] / recorded.ranks)} from the first to the last "
            f"GPU operation{' each' if recorded.ranks > 1 else ''}"
        )
        said = (amount, *self.job.notices_for(self.ranks), *self.lacks_kernels)
        return [f"{self.name}: {notice}" for notice in said]


Sides: TypeAlias = tuple[Side, Side]


def _number_of(count: float, noun: str) -> str:
    return counted(count, noun) if count else f"no {noun}s"


def sides_of(first: Job, second: Job, ranks: Iterable[int] | None) -> Sides:
    """The ranks of both jobs that are compared.

    Raises
    ------
    UnknownRankError
        If a job lacks a rank.
    """
    wanted = tuple(ranks) if ranks is not None else None
    names = job_names(first, second)
    return (
        Side(first, first.select_ranks(wanted), names[0]),
        Side(second, second.select_ranks(wanted), names[1]),
    )


def job_names(first: Job, second: Job) -> tuple[str, str]:
    """Names of two jobs, made different if they are equal.

    Examples
    --------
    >>> from hta_widgets.trace.job import Job
    >>> job_names(Job({}, name="run"), Job({}, name="run"))
    ('run (first)', 'run (second)')
    """
    if first.name != second.name:
        return first.name, second.name
    return f"{first.name} (first)", f"{second.name} (second)"


def steps_differ(first: Job, second: Job) -> bool:
    """Whether all ranks of both jobs have ProfilerSteps, but different numbers of them."""
    steps = [recording(job, job.ranks) for job in (first, second)]
    per_rank = {each.steps / each.ranks for each in steps}
    return all(each.all_have_steps for each in steps) and len(per_rank) > 1
