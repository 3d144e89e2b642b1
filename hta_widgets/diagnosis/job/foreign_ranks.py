"""Ranks whose traces do not belong to the others, though they are in one folder.

Beside the trace of another run, everybody waits for nothing; beside a copy, a slow GPU is two. What
tells: when a recording began, and whether its collectives end with those of the others; equal
times; the size of the job and the GPUs that the traces state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np

from hta_widgets.analyses.clocks.aligned import job_clocks
from hta_widgets.analyses.clocks.alignment import ALIGNED
from hta_widgets.quantities import counted, duration
from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.clock import origin_of
from hta_widgets.trace.ranks.facts import world_size_of
from hta_widgets.trace.ranks.identity import identity_of

APART_NS: Final = 60_000_000_000
"""The ranks of a job begin to record in the same step, and not minutes apart."""

MOST_DRIFT: Final = 1e-3
"""Clocks of computers differ by less than 100 ppm; collectives that end together only on clocks of
which one is slower than that are not the same ones."""

Value = TypeVar("Value", bound=Hashable)


@dataclass(frozen=True)
class ForeignRanks:
    """Ranks that do not belong to the others, and why, in words.

    Attributes
    ----------
    left_out : mapping of int to str
        Those that did not run with the others: nothing of them counts.
    not_compared : mapping of int to str
        Those that did, on another kind of GPU, or as if in another job: the others wait for them.
    """

    left_out: Mapping[int, str] = field(default_factory=dict)
    not_compared: Mapping[int, str] = field(default_factory=dict)

    @property
    def by_rank(self) -> dict[int, str]:
        """What is said of each, without its rank."""
        left_out = {rank: f"{why}: it is left out" for rank, why in self.left_out.items()}
        apart = {rank: f"{why}: it is not compared" for rank, why in self.not_compared.items()}
        return {**left_out, **apart}

    @property
    def notices(self) -> tuple[str, ...]:
        """A sentence on each."""
        return tuple(f"rank {rank} {words}" for rank, words in self.by_rank.items())


def foreign_ranks(job: Job) -> ForeignRanks:
    """Find the ranks that do not belong to most others."""
    left_out = _copies(job)
    ranks = _of_most_kinds(job, [rank for rank in job.ranks if rank not in left_out])
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


def job_of(job: Job, ranks: tuple[int, ...]) -> Job:
    """The job of these ranks only, so that `Job.remember` knows it."""
    return job.only(ranks)


def _of_most_kinds(job: Job, ranks: Sequence[int]) -> list[int]:
    """Those with the most common kind of recording: a server beside training is another job."""
    kinds = {rank: job.kinds[rank].name for rank in ranks}
    most = _most_common(kinds)
    return [rank for rank, kind in kinds.items() if kind == most]


def _copies(job: Job) -> dict[int, str]:
    first: dict[str, int] = {}
    found = {}
    for rank, identity in job.reduce(identity_of, job.ranks).items():
        same = first.setdefault(identity.times, rank) if identity.times else rank
        if same != rank:
            found[rank] = f"has the same times as rank {same}, to the ns, so that one is a copy"
    return found


def _late(job: Job, ranks: Sequence[int]) -> dict[int, str]:
    """Those that began long before or after most others."""
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
    """The value of most ranks, of the first rank if several are; None without ranks."""
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
