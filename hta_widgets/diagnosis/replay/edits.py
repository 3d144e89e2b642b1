"""Changes to a recorded job: what should be different when it is replayed.

Each takes weights and returns new ones, so that several can be applied one after another.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from hta_widgets.arrays import Float64Array, Mask
from hta_widgets.diagnosis.replay.host_work import HOST_WORK
from hta_widgets.diagnosis.replay.recorded_job import RecordedJob, Weights
from hta_widgets.diagnosis.replay.waiting_calls import Wait
from hta_widgets.errors import ParameterError, UnknownRankError, check_choice
from hta_widgets.intervals import Intervals

START_NS: Final = 4_000
"""Longest time between two operations of a stream that counts as the start of the second."""

_PAIR: Final = 2


class Edit(Protocol):
    """A change to a recorded job."""

    def apply(self, job: RecordedJob, weights: Weights) -> Weights:
        """Return the weights after this change."""
        ...


@dataclass(frozen=True)
class WithoutHostWork:
    """The host does not do some of its work other than launching."""

    classes: tuple[str, ...]
    """Classes of `HOST_WORK` to remove."""
    ranks: tuple[int, ...] = ()
    """Ranks whose host changes; empty for all."""

    def __post_init__(self) -> None:
        """Check the classes."""
        for name in self.classes:
            check_choice("a class of WithoutHostWork", name, HOST_WORK)

    def apply(self, job: RecordedJob, weights: Weights) -> Weights:
        places = sorted({HOST_WORK.index(name) for name in self.classes})
        chosen = _of_ranks(job, self.ranks)[job.point_rank[job.host_points]]
        less = (weights.host_work[places] * chosen).sum(axis=0)
        left = weights.host_work.copy()
        left[places] *= ~chosen
        return weights.changed(own=_less_before(job, weights.own, less), host_work=left)


def is_covered(edit: Edit, others: Sequence[Edit]) -> bool:
    """Whether one of some edits removes all that this one does."""
    if not isinstance(edit, WithoutHostWork):
        return edit in others
    return any(
        isinstance(each, WithoutHostWork)
        and each.ranks == edit.ranks
        and {*edit.classes} <= {*each.classes}
        for each in others
    )


@dataclass(frozen=True)
class HostSpeed:
    """The host is faster at launching, and at all else that is no class of `HOST_WORK`."""

    factor: float
    """How many times as fast; may be infinite."""
    ranks: tuple[int, ...] = ()
    """Ranks whose host changes; empty for all."""

    def __post_init__(self) -> None:
        """Check the factor."""
        if not self.factor > 0:
            msg = f"the factor of HostSpeed must be more than 0, got {self.factor}"
            raise ParameterError(msg)

    def apply(self, job: RecordedJob, weights: Weights) -> Weights:
        launching = _less_before(job, weights.own, weights.host_work.sum(axis=0))
        less = launching * (1 - 1 / self.factor) * _of_ranks(job, self.ranks)[job.point_rank]
        return weights.changed(own=np.maximum(weights.own - less, 0))


@dataclass(frozen=True, eq=False)
class WithoutSpans:
    """Some spans of time take no time, and nothing waits in them."""

    spans: Mapping[int, Intervals]
    """Spans of each rank, on its own clock."""

    def apply(self, job: RecordedJob, weights: Weights) -> Weights:
        own, duration, gap = (each.copy() for each in (weights.own, weights.duration, weights.gap))
        returning = weights.returning.copy()
        times_ns = map(job.of_parts, ("line.time_ns", "start_ns"))
        for place, (rank, *times) in enumerate(zip(job.ranks, *times_ns, strict=True)):
            if rank in self.spans:
                points, starts = (self.spans[rank].covers(each) for each in times)
                own[job.point_rank == place] *= ~points
                gone = np.flatnonzero(job.operation_rank == place)
                gone = gone[starts[job.operation[gone]]]
                duration[gone] = gap[gone] = 0
                returning[np.isin(job.awaited, gone)] = -np.inf
        return weights.changed(own=own, duration=duration, gap=gap, returning=returning)


@dataclass(frozen=True)
class WithoutStarts:
    """The few µs between two operations of a stream take no time.

    Inside a CUDA graph they stay, as nothing starts its kernels faster.
    """

    def apply(self, job: RecordedJob, weights: Weights) -> Weights:
        is_start = (weights.gap >= 0) & (weights.gap <= START_NS) & ~job.is_finish & ~job.in_graph
        return weights.changed(gap=np.where(is_start, 0, weights.gap))


@dataclass(frozen=True)
class WithoutWaits:
    """Calls do not wait for the GPU, unless what follows depends on it."""

    kinds: tuple[Wait, ...]
    """Kinds of calls that do not wait."""
    of_allocator: bool = False
    """Whether only calls count that free memory, or come just before a call of the allocator."""
    drains: bool = False
    """Whether only calls count that wait for work other than copies of the host."""

    def apply(self, job: RecordedJob, weights: Weights) -> Weights:
        gone = np.isin(job.wait_kind, self.kinds) & ~job.is_needed
        if self.of_allocator:
            gone &= job.waits_to_allocate
        if self.drains:
            gone &= job.drains
        return weights.changed(returning=np.where(gone, -np.inf, weights.returning))


@dataclass(frozen=True)
class WithoutCopies:
    """Copies between host and device take no time, and nothing waits for them."""

    ranks: tuple[int, ...] = ()
    """Ranks whose copies change; empty for all."""
    left: float = 0.0
    """Part of their time that they still take; if any, what waits for them still waits."""

    def apply(self, job: RecordedJob, weights: Weights) -> Weights:
        gone = job.is_host_copy & _of_ranks(job, self.ranks)[job.operation_rank]
        if self.left:
            factor = np.where(gone, self.left, 1.0)
            return weights.changed(duration=weights.duration * factor)
        waits = gone[job.awaited] & np.isin(job.wait_kind, (Wait.COPY, Wait.COPY_TO_DEVICE))
        waits &= ~job.is_needed  # a host that samples from the logits of a step waits for them
        return weights.changed(
            duration=np.where(gone, 0, weights.duration),
            returning=np.where(waits, -np.inf, weights.returning),
        )


@dataclass(frozen=True, eq=False)
class ShorterOperations:
    """Some operations take less time."""

    less_ns: Float64Array
    """How much less, for each operation of the job."""

    def apply(self, job: RecordedJob, weights: Weights) -> Weights:
        return weights.changed(duration=np.maximum(weights.duration - self.less_ns, 0))


@dataclass(frozen=True, eq=False)
class Computing:
    """Ranks compute faster or more slowly in some steps."""

    factor: Float64Array
    """How many times as long the kernels take that a rank launches in a step: (ranks, steps)."""

    def apply(self, job: RecordedJob, weights: Weights) -> Weights:
        known = (job.step >= 0) & job.is_computing
        step = np.maximum(job.step, 0)
        factor = np.where(known, self.factor[job.operation_rank, step], 1)
        return weights.changed(duration=weights.duration * factor)


@dataclass(frozen=True, eq=False)
class ComputingLess:
    """Ranks compute less in some steps, starting with what their kernels take longer than usual.

    The median over ranks is the usual time, see `EqualWork`. If kernels take no longer, all kernels
    of a step shrink by the same share. Without steps, this keeps a slowness that comes and goes
    from being taken off the whole recording.
    """

    less_ns: Float64Array

    def apply(self, job: RecordedJob, weights: Weights) -> Weights:
        chosen = np.flatnonzero(job.is_computing & (job.step >= 0))
        duration = weights.duration[chosen]
        more = np.maximum(duration - _equal_ns(job, weights.duration, "median")[chosen], 0)
        cell = job.operation_rank[chosen] * len(job.steps) + job.step[chosen]

        def whole(ns: Float64Array) -> Float64Array:
            return np.asarray(np.bincount(cell, ns, minlength=self.less_ns.size), np.float64)

        less, longer = self.less_ns.ravel(), whole(more)
        of_longer = np.minimum(less / np.maximum(longer, 1), 1)
        of_rest = np.maximum(less - longer, 0) / np.maximum(whole(duration) - longer, 1)
        gone = of_longer[cell] * more + np.minimum(of_rest[cell], 1) * (duration - more)
        shorter = weights.duration.copy()
        shorter[chosen] = duration - gone
        return weights.changed(duration=shorter)


@dataclass(frozen=True)
class EqualWork:
    """All ranks take as long for a kernel as their mean or median.

    Kernels of the ranks match if they are the n-th of their name in a step.
    """

    of_ranks: str = "mean"
    """The mean moves work between ranks; with the median, more work vanishes."""
    only_slower: bool = False
    """Whether only the ranks that take longer change."""

    def __post_init__(self) -> None:
        """Check the choice of `of_ranks`."""
        check_choice("of_ranks of EqualWork", self.of_ranks, ("mean", "median"))

    def apply(self, job: RecordedJob, weights: Weights) -> Weights:
        equal = _equal_ns(job, weights.duration, self.of_ranks)
        longest = weights.duration if self.only_slower else np.inf
        return weights.changed(duration=np.minimum(equal, longest))


@dataclass(frozen=True)
class CommunicationHidden:
    """Communication takes less time; ranks still wait for those that come late."""

    share: float = 1.0
    """Share of it that is gone, from 0 to 1."""

    def __post_init__(self) -> None:
        """Check the share."""
        if not 0 <= self.share <= 1:
            msg = f"the share of CommunicationHidden must be from 0 to 1, got {self.share}"
            raise ParameterError(msg)

    def apply(self, job: RecordedJob, weights: Weights) -> Weights:
        remains = np.isfinite(weights.transfer)  # nothing is left to hide after `WithoutMeetings`
        less = np.where(remains, weights.transfer, 0) * self.share
        return weights.changed(transfer=weights.transfer - less)


@dataclass(frozen=True, eq=False)
class FasterLinks:
    """Some transfers take less time."""

    factor: Float64Array
    """How many times as long each member of a meeting takes."""

    def apply(self, job: RecordedJob, weights: Weights) -> Weights:
        return weights.changed(transfer=weights.transfer * self.factor)


@dataclass(frozen=True, eq=False)
class WithoutMeetings:
    """Some communication neither waits for others nor takes time."""

    members: Mask
    """Members of meetings that do not meet."""

    def apply(self, job: RecordedJob, weights: Weights) -> Weights:
        return weights.changed(transfer=np.where(self.members, -np.inf, weights.transfer))


@dataclass(frozen=True)
class PeersFixed:
    """Communication whose partners are not recorded ends no earlier than it did.

    Without this, the partners are assumed to change as their rank does.
    """

    def apply(self, job: RecordedJob, weights: Weights) -> Weights:
        earliest = weights.earliest.copy()
        alone = np.flatnonzero(job.is_alone)
        earliest[job.meeting[alone]] = job.end_ns[job.arrival[alone]]
        return weights.changed(earliest=earliest)


@dataclass(frozen=True)
class KernelsFaster:
    """Kernels of some names take a fraction of their time."""

    names: Collection[str]
    factor: float
    """How many times as long they take."""

    def __post_init__(self) -> None:
        """Check the factor, and keep the names as a set."""
        if not 0 <= self.factor < np.inf:
            msg = f"the factor of KernelsFaster must be 0 or more, got {self.factor}"
            raise ParameterError(msg)
        names = (self.names,) if isinstance(self.names, str) else self.names
        object.__setattr__(self, "names", frozenset(names))

    def apply(self, job: RecordedJob, weights: Weights) -> Weights:
        names, code = job.names
        if unknown := sorted({*self.names} - {*names}):
            msg = f"no kernel of critical_path().by_kernel has the name {unknown[0]!r}"
            raise ParameterError(msg)
        chosen = np.array([name in self.names for name in names] or [False])[code]
        met = chosen[job.finish]  # the time of a collective once all ranks have arrived
        return weights.changed(
            duration=np.where(chosen, weights.duration * self.factor, weights.duration),
            transfer=np.where(met, weights.transfer * self.factor, weights.transfer),
        )


def applied(job: RecordedJob, edits: Sequence[Edit]) -> Weights:
    """The recorded weights after several changes."""
    weights = job.weights
    for edit in edits:
        weights = edit.apply(job, weights)
    return weights


def _of_ranks(job: RecordedJob, ranks: Collection[int]) -> Mask:
    """Which ranks of the job are chosen: all if none are named."""
    if not {*ranks} <= {*job.ranks}:
        raise UnknownRankError.from_ranks(ranks, job.ranks)
    return np.array([not ranks or rank in ranks for rank in job.ranks], dtype=np.bool_)


def _less_before(job: RecordedJob, own: Float64Array, less: Float64Array) -> Float64Array:
    """Host time before each point, with less of it at the points with `HOST_WORK`."""
    left = own.copy()
    left[job.host_points] = np.maximum(own[job.host_points] - less, 0)
    return left


def _equal_ns(job: RecordedJob, duration: Float64Array, of_ranks: str) -> Float64Array:
    """Duration of each operation if all ranks take as long as their mean or median."""
    found = duration.copy()
    for members in job.alike:
        ascending, ranks = np.sort(duration[members], axis=1), members.shape[1]
        lower, upper = ascending[:, (ranks - 1) // 2], ascending[:, ranks // 2]
        if of_ranks == "mean":
            usual = ascending.mean(axis=1)
        else:
            usual = lower if ranks == _PAIR else (lower + upper) / 2
        found[members] = usual[:, np.newaxis]
    return found
