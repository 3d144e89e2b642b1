"""What shows a cause on one rank: idle time, GPU work, or what a replay without it removes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np

from hta_widgets.analyses.budget.classes import BUDGET
from hta_widgets.analyses.budget.device_steps import GAP, GAPS, DeviceSteps
from hta_widgets.analyses.communication.partition import PARTS
from hta_widgets.analyses.roofline.counted import counted_kernels
from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.arrays import Float64Array, Int64Array, Mask
from hta_widgets.diagnosis.facts.host_facts import exposed_copies
from hta_widgets.diagnosis.facts.kernel_facts import computing_kernels
from hta_widgets.diagnosis.limits import TrialLimits
from hta_widgets.diagnosis.rank_answers import RankFacts, replay_of_ranks
from hta_widgets.diagnosis.replay.edits import Edit
from hta_widgets.diagnosis.replay.recorded_job import Weights
from hta_widgets.diagnosis.replay.replay import Replay
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.trace.ranks.replayed_calls import with_replayed_calls


class Stretches(NamedTuple):
    """Intervals of one rank."""

    start_ns: Times
    end_ns: Times
    """Kernels that run at the same time are one interval each, so intervals may overlap."""

    @classmethod
    def nothing(cls) -> Stretches:
        """No intervals."""
        return cls(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))

    @classmethod
    def covered(cls, intervals: Intervals) -> Stretches:
        """Disjoint intervals."""
        return cls(intervals.starts, intervals.ends)

    @classmethod
    def of_work(cls, work: GpuWork) -> Stretches:
        """One interval for each piece of GPU work."""
        return cls(work.start_ns, work.end_ns)

    def inside(self, bounds: Intervals) -> Stretches:
        """The parts of the intervals inside some bounds, in order of time."""
        parts = [
            (np.maximum(self.start_ns, start), np.minimum(self.end_ns, end))
            for start, end in zip(bounds.starts.tolist(), bounds.ends.tolist(), strict=True)
        ]
        if not parts:
            return self.nothing()
        start_ns, end_ns = (np.concatenate(each) for each in zip(*parts, strict=True))
        lasting = np.flatnonzero(end_ns > start_ns)
        lasting = lasting[np.argsort(start_ns[lasting], kind="stable")]
        return Stretches(start_ns[lasting], end_ns[lasting])


@dataclass(frozen=True)
class Removed:
    """Time that would not pass without a cause: what its price consists of, wherever it is.

    A host that is late once makes everything after it late; only the replay shows which idle time
    this is.
    """

    edits: tuple[Edit, ...]
    """What is different without the cause."""
    after: tuple[Edit, ...]
    """Changes made first, as they have a price of their own."""
    ranks: tuple[int, ...]
    steps: tuple[int, ...]
    """Ranks and steps that count in the replay."""

    def of(self, job: Job, limits: TrialLimits, ranks: Sequence[int]) -> dict[int, Stretches]:
        """When this time is, on some ranks, on the common clock."""
        replay = job.remember(replay_of_ranks, limits, self.ranks, self.steps)
        with_cause = replay.weights(self.after)
        without = replay.weights((*self.after, *self.edits))
        times = [_starts_and_ends(replay, each) for each in (with_cause, without)]
        return {rank: _on_rank(replay, replay.job.ranks.index(rank), *times) for rank in ranks}


_ROUNDED_NS: Final = 1
"""Time between kernels that run back to back, which nobody would look at: 536 of 560 intervals on
an MI210 whose host is late with seven kernels."""


def _starts_and_ends(replay: Replay, weights: Weights) -> Float64Array:
    """Starts of all operations, then their ends."""
    end_ns = replay.network.solve(weights).end
    return np.concatenate((end_ns - weights.duration, end_ns))


def _on_rank(
    replay: Replay, place: int, with_cause: Float64Array, without: Float64Array
) -> Stretches:
    """How much shorter the time from one start or end to the next is, placed at its end.

    Before the first of these, the host launches what it waits for (0.4 of 4.4 ms on an H100). Time
    that is lost again within a step is not saved. If operations change their order, a time counts
    once all times before it are reached.
    """
    job = replay.job
    recorded_ns = np.concatenate((job.end_ns - job.weights.duration, job.end_ns))
    own = np.flatnonzero(np.tile(job.operation_rank == place, 2))
    own = own[np.argsort(recorded_ns[own], kind="stable")]
    later_ns = np.subtract(*(np.maximum.accumulate(each[own]) for each in (with_cause, without)))
    is_own = job.operation_rank[job.last] == place
    ends_ns = np.full(len(job.steps), -np.inf)
    np.maximum.at(ends_ns, job.last_step[is_own], job.end_ns[job.last[is_own]])
    ends_ns = np.maximum.accumulate(ends_ns)
    steps = np.split(later_ns, np.searchsorted(recorded_ns[own], ends_ns, side="right"))
    shorter_ns = np.rint(np.diff(_kept_to_the_end(steps), prepend=0.0)).astype(np.int64)
    at_ns = np.rint(recorded_ns[own]).astype(np.int64)
    shorter_ns[1:] = np.minimum(shorter_ns[1:], np.diff(at_ns))
    gone = np.flatnonzero(shorter_ns > _ROUNDED_NS)
    return Stretches(at_ns[gone] - shorter_ns[gone], at_ns[gone])


def _kept_to_the_end(steps: Sequence[Float64Array]) -> Float64Array:
    """How much of the gain is left when its step ends: the least value from each time on.

    After one wait less, the next one is longer. What runs next to another kernel may be earlier
    without a gain: on a server, 54 µs of a kernel were highlighted as time to save.
    """
    kept, before = [], -np.inf
    for each in filter(len, steps):
        least = np.minimum.accumulate(each[::-1])[::-1]
        kept.append(np.maximum(least, before))
        before = each[-1]
    return np.concatenate([*kept, np.zeros(0)])


class What(Protocol):
    """Something that lasts for some time, on one rank."""

    def on(self, rank: Rank, steps: DeviceSteps, facts: RankFacts) -> Stretches:
        """When this is, on the rank's own clock, in any of its steps."""
        ...


@dataclass(frozen=True)
class Idle:
    """Idle time of the GPU."""

    kinds: tuple[str, ...]
    """Kinds from `GAPS`."""

    def on(self, rank: Rank, steps: DeviceSteps, facts: RankFacts) -> Stretches:
        return _idle(steps, np.isin(steps.gaps.kind, [GAP[name] for name in self.kinds]))


@dataclass(frozen=True)
class LateHost:
    """Idle time of the GPU for which the trace shows a late host, whatever the host does."""

    explained: tuple[str, ...] = ()
    """Kinds of it that have findings of their own; they are left out, unless there is no other."""

    def on(self, rank: Rank, steps: DeviceSteps, facts: RankFacts) -> Stretches:
        gaps = steps.gaps
        late = (gaps.kind != GAP["gap_depend"]) | gaps.unattributed
        left = late & ~np.isin(gaps.kind, [GAP[name] for name in self.explained])
        return _idle(steps, left if left.any() else late)


def _idle(steps: DeviceSteps, chosen: Mask) -> Stretches:
    segments = steps.gaps.segments.take(np.flatnonzero(chosen))
    return Stretches.covered(Intervals.union(segments.start_ns, segments.end_ns))


@dataclass(frozen=True)
class Busy:
    """Time of the GPU by what it does, each instant counted once."""

    parts: tuple[str, ...]
    """Names from `PARTS`."""

    def on(self, rank: Rank, steps: DeviceSteps, facts: RankFacts) -> Stretches:
        covers = steps.busy.covers
        found = Intervals.union([], [])
        for place, name in enumerate(PARTS[: len(covers)]):
            if name in self.parts:
                found |= covers[place] - covers[place - 1] if place else covers[place]
        return Stretches.covered(found)


@dataclass(frozen=True)
class ComputingKernels:
    """All kernels that compute."""

    def on(self, rank: Rank, steps: DeviceSteps, facts: RankFacts) -> Stretches:
        return Stretches.of_work(computing_kernels(rank))


@dataclass(frozen=True)
class Saving:
    """Kernels that could take less time."""

    columns: tuple[str, ...]
    """Columns of `Savings`."""

    def on(self, rank: Rank, steps: DeviceSteps, facts: RankFacts) -> Stretches:
        savings, work = facts.compute.savings, computing_kernels(rank)
        saved = sum(savings.of_rows(column, work.rows) for column in self.columns)
        return Stretches.of_work(work.take(np.flatnonzero(saved)))


@dataclass(frozen=True)
class ExposedCopies:
    """Copies between host and device during which no kernel runs."""

    def on(self, rank: Rank, steps: DeviceSteps, facts: RankFacts) -> Stretches:
        chosen, beside = exposed_copies(steps.work)
        copies = Intervals.union(steps.work.start_ns[chosen], steps.work.end_ns[chosen])
        return Stretches.covered(copies - beside)


@dataclass(frozen=True)
class Work:
    """Some of the GPU work."""

    rows: frozenset[tuple[int, int]]
    """Rank of each piece of work, and its row in the events of the rank."""

    def on(self, rank: Rank, steps: DeviceSteps, facts: RankFacts) -> Stretches:
        number = rank.trace.rank
        own = [row for of, row in self.rows if of == number]
        return Stretches.of_work(steps.work.take(np.flatnonzero(np.isin(steps.work.rows, own))))


@dataclass(frozen=True)
class NamedKernels:
    """Kernels that have one of some names, or count for some operators (see `roofline`)."""

    names: frozenset[str] = frozenset()
    operators: frozenset[str] = frozenset()

    def on(self, rank: Rank, steps: DeviceSteps, facts: RankFacts) -> Stretches:
        work = rank.gpu_work
        chosen = work.named(self.names.__contains__)
        if self.operators:  # not the innermost: attention calls another operator, which launches
            counted = counted_kernels(with_replayed_calls(rank))
            chosen |= np.isin(work.rows, counted.rows_of(self.operators))
        return Stretches.of_work(work.take(np.flatnonzero(chosen)))


@dataclass(frozen=True)
class WholeSteps:
    """All of the steps, each from its start to its end."""

    def on(self, rank: Rank, steps: DeviceSteps, facts: RankFacts) -> Stretches:
        return Stretches(steps.edges[:-1], steps.edges[1:])


@dataclass(frozen=True)
class Trials:
    """From the first to the last trial of each series of an autotuner, if no step is marked."""

    def on(self, rank: Rank, steps: DeviceSteps, facts: RankFacts) -> Stretches:
        spans = () if facts.host is None else facts.host.trials.spans_ns
        return Stretches(*np.array(spans, dtype=np.int64).reshape(-1, 2).T)


_OF_OTHERS: Final = "waiting"
"""Class of the budget that the ranks causing it do not lose: what they do meanwhile counts."""


def what_of_class(name: str) -> What:
    """What shows the time of a class of `BUDGET`."""
    if name == _OF_OTHERS:
        return ComputingKernels()
    columns = next(each.columns for each in BUDGET if each.name == name)
    kinds = tuple(column.removesuffix("_ns") for column in columns)
    return Idle(kinds) if {*kinds} <= {*GAPS} else Busy(kinds)


class Seen(NamedTuple):
    """What shows the cause of a finding, and where."""

    what: What | Removed
    ranks: tuple[int, ...]
    steps: tuple[int, ...]
    """Numbers of the ProfilerSteps that its price is found in; (-1,) if none are recorded."""
    limits: TrialLimits
    """Limits with which the facts about its ranks were found."""
    region: str = ""
    """Region before whose launches most is lost, as the sentence says: it is shown first."""

    def is_in(self, steps: Int64Array) -> Mask:
        """Which of some steps to look for it in: all if none are recorded."""
        return np.isin(steps, self.steps) | (NO_STEP in self.steps)
