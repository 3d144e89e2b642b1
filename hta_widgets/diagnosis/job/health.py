"""Whether the recordings of a job can be trusted, and what in them no rule may count.

If one trace is of another run, all ranks seem to wait for nothing; if one is a copy, a slow GPU
counts twice. This shows in when a recording starts and whether its collectives end with those of
the others, in equal times, and in the job size and GPUs that the traces state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np

from hta_widgets.analyses.clocks.aligned import job_clocks
from hta_widgets.analyses.clocks.alignment import ALIGNED
from hta_widgets.diagnosis.job.steps import Steps
from hta_widgets.quantities import counted, duration, named_numbers, percent
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.health.rank_health import RankHealth
from hta_widgets.trace.model.health.wrong_times import WrongTimes
from hta_widgets.trace.ranks.clock import origin_of
from hta_widgets.trace.ranks.facts import MOST_RANKS, health_of, world_size_among, world_size_of
from hta_widgets.trace.ranks.identity import identity_of

HALF = 0.5


def missing_of(job: Job) -> tuple[int, ...]:
    """Ranks without a trace, if at least half of the job, and more than one rank, has one.

    Ranks that have a trace but were not opened are not missing.
    """
    world = world_size_among(job.reduce(world_size_of, job.ranks))
    present = job.recorded_ranks
    if len(present) < 2 or world > MOST_RANKS or max(present) >= world:  # noqa: PLR2004
        return ()
    return tuple(sorted({*range(world)} - {*present})) if len(present) >= HALF * world else ()


APART_NS: Final = 60_000_000_000
"""The ranks of a job start to record in the same step, not minutes apart."""

MOST_DRIFT: Final = 1e-3
"""Clocks of computers differ by less than 100 ppm. Collectives that end together only if one clock
differs by more than this are not the same collectives."""

Value = TypeVar("Value", bound=Hashable)


@dataclass(frozen=True)
class ForeignRanks:
    """Ranks that do not belong to the others, and why, in words."""

    left_out: Mapping[int, str] = field(default_factory=dict)
    """Ranks that did not run with the others: nothing in them counts."""
    not_compared: Mapping[int, str] = field(default_factory=dict)
    """Ranks that did, but on another kind of GPU, or in a job of another size by their traces. The
    others wait for them."""

    @property
    def by_rank(self) -> dict[int, str]:
        """What is reported about each, without its rank."""
        left_out = {rank: f"{why}: it is left out" for rank, why in self.left_out.items()}
        apart = {rank: f"{why}: it is not compared" for rank, why in self.not_compared.items()}
        return {**left_out, **apart}

    @property
    def notices(self) -> tuple[str, ...]:
        """A sentence about each."""
        return tuple(f"rank {rank} {words}" for rank, words in self.by_rank.items())


def foreign_ranks(job: Job) -> ForeignRanks:
    """Find the ranks that do not belong to the majority."""
    left_out = _copies(job)
    kinds = {rank: job.kinds[rank].name for rank in job.ranks if rank not in left_out}
    # a server among training ranks is another job; without calls and marks, any kind is possible
    usual = (_most_common(kinds), "unknown")
    ranks = [rank for rank, kind in kinds.items() if kind in usual]
    late, sizes = _late(job, ranks), _of_other_sizes(job, ranks)
    others = [rank for rank in ranks if rank not in late and rank not in sizes]
    not_compared = {}
    for rank in sorted({*late, *sizes}):
        if not _ran_together(job, others, rank):
            left_out[rank] = late.get(rank) or sizes[rank]
        elif rank in sizes:
            not_compared[rank] = sizes[rank]
    gpus = _on_other_gpus(job, [rank for rank in ranks if rank not in left_out])
    return ForeignRanks(left_out, {**gpus, **not_compared})


def _copies(job: Job) -> dict[int, str]:
    first: dict[str, int] = {}
    found = {}
    for rank, identity in job.reduce(identity_of, job.ranks).items():
        same = first.setdefault(identity.times, rank) if identity.times else rank
        if same != rank:
            found[rank] = f"has the same times as rank {same}, to the ns, so that one is a copy"
    return found


def _late(job: Job, ranks: Sequence[int]) -> dict[int, str]:
    """Ranks that started long before or after most others."""
    origins = job.reduce(origin_of, ranks)
    known = [rank for rank in ranks if origins[rank].has_events]
    starts = job.offsets_ns(known)
    known.sort(key=lambda rank: starts[rank])
    begins = np.diff([starts[rank] for rank in known], prepend=-2 * APART_NS) > APART_NS
    groups = dict(zip(known, np.cumsum(begins).tolist(), strict=True))
    most = _most_common({rank: groups[rank] for rank in sorted(known)})
    usual = [starts[rank] for rank in known if groups[rank] == most]
    found = {}
    for rank in known:
        apart_ns = starts[rank] - usual[0]
        if groups[rank] != most:
            when = "after" if apart_ns > 0 else "before"
            found[rank] = (
                f"began {duration(abs(apart_ns))} {when} the others, and no collective of it ends "
                "with theirs, so that it is of another run"
            )
    return found


def _of_other_sizes(job: Job, ranks: Sequence[int]) -> dict[int, str]:
    sizes = {rank: size for rank, size in job.reduce(world_size_of, ranks).items() if size}
    most = _most_common(sizes)
    return {
        rank: f"is of a job of {counted(size, 'rank')}, the others of one of {most:,}"
        for rank, size in sizes.items()
        if size != most
    }


def _on_other_gpus(job: Job, ranks: Sequence[int]) -> dict[int, str]:
    every = {rank: each.gpus for rank, each in job.reduce(identity_of, ranks).items() if each.gpus}
    most = _most_common(every)
    return {
        rank: f"runs on {', '.join(gpus)}, most others on {', '.join(most or ())}"
        for rank, gpus in every.items()
        if gpus != most
    }


def _most_common(values: Mapping[int, Value]) -> Value | None:
    """The most common value; if several are, the one of the first rank; None without ranks."""
    count = Counter(values.values())
    return max(values.values(), key=lambda value: count[value], default=None)


def _ran_together(job: Job, others: Sequence[int], rank: int) -> bool:
    """Whether collectives of a rank end with those of the others, whatever their clocks say."""
    if not others:
        return False
    clocks = job_clocks(job.only([*others, rank]))
    place = clocks.ranks.index(rank)
    judged, drift = clocks.judged_at(place), clocks.alignment.drift
    is_one_clock = abs(float(drift[place] - np.median(drift))) < MOST_DRIFT
    return judged is not None and judged.state == ALIGNED and is_one_clock


@dataclass(frozen=True, kw_only=True)
class JobHealth:
    """What the recorders of a job got wrong, and what that means for a diagnosis."""

    ranks: Mapping[int, RankHealth] = field(default_factory=dict)
    """Health of all ranks that were opened."""
    foreign: ForeignRanks = field(default_factory=ForeignRanks)
    """Ranks that do not belong to the others."""
    left_out_steps: tuple[int, ...] = ()
    """Analysed steps that no rule counts, because GPU work of a rank is missing in them."""
    doubts: tuple[str, ...] = ()
    """Why findings are inconclusive (see `doubts_of`); empty if what is wrong could be left out."""
    clocks: WrongTimes = field(default_factory=WrongTimes)
    """Times of the rank whose clocks of host and GPU differ most, if any differ too much."""
    do_instead: str = ""
    """What to open instead of a trace that is not what was recorded on one rank, as most was taken
    out of it, or it is of several ranks; else empty."""
    lacks_waits: bool = False
    """Whether calls that wait for the GPU are not recorded, so that nothing shows whether a host
    that launches late is slow or waits."""

    @property
    def is_sound(self) -> bool:
        """Whether no recorder got anything wrong, and all ranks belong together."""
        is_apart = bool(self.doubts or self.foreign.by_rank)
        return not is_apart and all(each.is_sound for each in self.ranks.values())

    @property
    def is_no_recording(self) -> bool:
        """Whether a trace is not what was recorded on one rank."""
        return bool(self.do_instead)

    @property
    def lost_most(self) -> bool:
        """Whether so much is missing that what looks idle was probably busy."""
        return _MOST_LOST in self.doubts or self.is_no_recording

    def doubts_of(self, price_percent: float) -> tuple[str, ...]:
        """Why a finding with a price, in percent of a step, is inconclusive; empty if it is not.

        In four ranks of torchrec, kernels started up to 79 µs before their launches. That makes
        idle times of some µs meaningless, but not the 127 ms of each step in ``cudaFree``.
        """
        is_certain = price_percent > self._certain_percent
        return tuple(each for each in self.doubts if each != CLOCKS_APART or not is_certain)

    @property
    def _certain_percent(self) -> float:
        return CERTAIN * self.clocks.apart_percent

    @property
    def notices(self) -> tuple[str, ...]:
        """What this means for the diagnosis; what is wrong is among the notices of the job."""
        told = () if self.lost_most else self.doubts
        found = [*self.foreign.notices, *map(self._notice, told)]
        if self.left_out_steps:
            is_one = len(self.left_out_steps) == 1
            found.append(
                f"{named_numbers('step', self.left_out_steps)} {'lacks' if is_one else 'lack'} "
                "GPU work that was launched in "
                f"{'it' if is_one else 'them'}: causes are looked for in the others only"
            )
        return tuple(found)

    def _notice(self, doubt: str) -> str:
        """Say which findings are inconclusive, and why."""
        if doubt != CLOCKS_APART:
            return f"all findings are inconclusive: {doubt}"
        least, whole = self._certain_percent, 100
        which = f"findings of less than {percent(least)}" if least < whole else "all findings"
        return f"{which} are inconclusive: {doubt} by up to {duration(self.clocks.apart_ns)}"


def job_health(job: Job, foreign: ForeignRanks, steps: Steps) -> JobHealth:
    """Ask all ranks of a job, also foreign ones, what in the diagnosed steps cannot be counted."""
    ranks = job.reduce(health_of, job.ranks)
    diagnosed = [ranks[rank] for rank in steps.ranks]
    touched = {step for each in diagnosed for step in each.lost.steps} & {*steps.numbers}
    doubts = []
    if steps.are_recorded and len(touched) == len(steps.numbers):
        touched, doubts = set(), [_LOST_IN_ALL]
    elif not steps.are_recorded and any(each.lost.matters for each in diagnosed):
        doubts = [_LOST]
    if doubts and any(each.lost.lost > HALF * each.lost.launches for each in diagnosed):
        doubts = [_MOST_LOST]
    do_instead = _OPEN_RANKS if any(each.is_merged for each in diagnosed) else ""
    if left := sum(each.taken_out.left for each in diagnosed):
        there_were = sum(each.taken_out.there_were for each in diagnosed)
        touched, doubts = set(), [_TAKEN_OUT.format(left, there_were)]
        do_instead = _OPEN_ORIGINALS
    doubts += [doubt for doubt, is_wrong in _DOUBTS.items() if any(map(is_wrong, diagnosed))]
    return JobHealth(
        ranks=ranks,
        foreign=foreign,
        left_out_steps=tuple(sorted(touched)),
        doubts=tuple(doubts),
        clocks=max(
            (each.times for each in diagnosed if each.times.clocks_contradict),
            key=lambda times: times.apart_percent,
            default=WrongTimes(),
        ),
        do_instead=do_instead,
        lacks_waits=any(each.waits.matter for each in diagnosed),
    )


CLOCKS_APART: Final = "the clocks of host and GPU differ"
"""What the GPU waited for is then unknown; how long a step takes is known from the GPU's clock."""

CERTAIN: Final = 2.0
"""How many times as much as the clocks may falsify a finding must cost to be certain."""

_LOST_IN_ALL = "all steps lack GPU work that was launched in them"
_LOST = "GPU work that was launched is not in the traces"
_MOST_LOST = (
    "most GPU work that was launched is not in the traces, so what looks idle may have been busy"
)
_TAKEN_OUT = (
    "most events were taken out of the traces (by their numbers, {:,} of {:,} CUDA API "
    "calls are left), so what looks idle may have been busy"
)
_OPEN_ORIGINALS = "Open the original traces."
_OPEN_RANKS = "Open the traces of the ranks instead."

_DOUBTS: Final[Mapping[str, Callable[[RankHealth], bool]]] = {
    "a file is merged from several ranks": lambda rank: rank.is_merged,
    "a file is truncated or damaged, and part of it lost": lambda rank: rank.faults.is_cut,
    CLOCKS_APART: lambda rank: rank.times.clocks_contradict,
    "launches are not known, as several have one correlation id": lambda rank: rank.lacks_launches,
    "operators are recorded for a part of the time only": lambda rank: rank.operators.outside > 0,
    "kernels overlap on their streams": lambda rank: rank.times.kernels_overlap,
    "a clock may have been set": lambda rank: rank.times.standstill_ns > 0,
}
"""Why all findings are inconclusive, if this is true of a rank."""
