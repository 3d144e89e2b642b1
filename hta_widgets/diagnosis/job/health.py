"""Whether the recordings of a job can be believed, and what of them no rule may count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hta_widgets.diagnosis.job.foreign_ranks import ForeignRanks
from hta_widgets.diagnosis.job.steps import Steps
from hta_widgets.errors import number_ranges
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.health.rank_health import RankHealth
from hta_widgets.trace.ranks.facts import health_of


@dataclass(frozen=True, kw_only=True)
class JobHealth:
    """What the recorders of a job got wrong, and what that does to a diagnosis.

    Attributes
    ----------
    ranks : mapping of int to RankHealth
        Of all ranks that were opened.
    foreign : ForeignRanks
        Ranks that do not belong to the others.
    left_out_steps : tuple of int
        Analysed steps that no rule counts, as they lack GPU work of a rank.
    doubts : tuple of str
        Why no finding is measured; empty where what is wrong could be left out.
    """

    ranks: Mapping[int, RankHealth] = field(default_factory=dict)
    foreign: ForeignRanks = field(default_factory=ForeignRanks)
    left_out_steps: tuple[int, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether no recorder got anything wrong, and all ranks belong together."""
        is_apart = bool(self.doubts or self.foreign.by_rank)
        return not is_apart and all(each.is_sound for each in self.ranks.values())

    @property
    def notices(self) -> tuple[str, ...]:
        """What follows for the diagnosis; what is wrong is among the notices of the job."""
        doubts = (f"no finding is measured: {doubt}" for doubt in self.doubts)
        found = [*self.foreign.notices, *doubts]
        if self.left_out_steps:
            is_one = len(self.left_out_steps) == 1
            which = f"{'step' if is_one else 'steps'} {number_ranges(self.left_out_steps)}"
            found.append(
                f"{which} {'lacks' if is_one else 'lack'} GPU work that was launched in "
                f"{'it' if is_one else 'them'}: causes are looked for in the others only"
            )
        return tuple(found)


def job_health(job: Job, foreign: ForeignRanks, steps: Steps) -> JobHealth:
    """Ask all ranks of a job, and find out what of the diagnosed ones cannot be counted.

    Parameters
    ----------
    job : Job
        With the foreign ranks.
    foreign : ForeignRanks
    steps : Steps
        Those of the diagnosed ranks.
    """
    ranks = job.reduce(health_of, job.ranks)
    diagnosed = [ranks[rank] for rank in steps.ranks]
    touched = {step for each in diagnosed for step in each.lost.steps} & {*steps.numbers}
    doubts = []
    if steps.are_recorded and len(touched) == len(steps.numbers):
        touched, doubts = set(), [_LOST_IN_ALL]
    elif not steps.are_recorded and any(each.lost.matters for each in diagnosed):
        doubts = [_LOST]
    doubts += [doubt for doubt, is_wrong in _DOUBTS.items() if any(map(is_wrong, diagnosed))]
    return JobHealth(
        ranks=ranks,
        foreign=foreign,
        left_out_steps=tuple(sorted(touched)),
        doubts=tuple(doubts),
    )


_LOST_IN_ALL = "all steps lack GPU work that was launched in them"
_LOST = "GPU work that was launched is not in the traces"
_DOUBTS: Final[Mapping[str, Callable[[RankHealth], bool]]] = {
    "a file is cut, and what its end held is not known": lambda rank: rank.faults.is_cut,
    "the clocks of host and GPU are apart": lambda rank: rank.times.clocks_contradict,
    "launches are not known, as several have one correlation id": lambda rank: rank.lacks_launches,
    "operators are recorded for a part of the time only": lambda rank: rank.operators.outside > 0,
    "kernels overlap on their streams": lambda rank: rank.times.kernels_overlap,
    "a clock may have been set": lambda rank: rank.times.standstill_ns > 0,
}
"""Why nothing is measured where this is true of a rank."""
