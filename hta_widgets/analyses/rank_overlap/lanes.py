"""Ranks, devices or streams as lanes: what each one computes and communicates over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hta_widgets.analyses.clocks.aligned import common_offsets_ns
from hta_widgets.arrays import Int64Array, IntArray, narrowed
from hta_widgets.grouping import distinct, grouped
from hta_widgets.intervals import Intervals, Times, edges_of_parts, sweep
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.gpu_work import NO_DEVICE, GpuWork
from hta_widgets.trace.ranks.rank import Rank

RANK, DEVICE, STREAM = "rank", "device", "stream"
LEVELS = (RANK, DEVICE, STREAM)
NO_STREAM = -1

RankOffsets = tuple[tuple[int, int], ...]
"""Ranks, each with the time (ns) to add to its own times to align it with the others."""

_SUFFIXES = (".gz", ".xz", ".zst", ".json", ".sqlite", ".sqlite3", ".db", ".parquet", "_pqtdir")
_RECIPE_PREFIX = "type_"
_TYPES = (KernelType.COMPUTATION, KernelType.COMMUNICATION, KernelType.CUDA_GRAPH)

ACTIVITIES = ("compute", "communicate", "overlap", "graph", "empty")
"""Only computation, only communication, both, a CUDA graph recorded as a whole, none of these; in
the order that every table uses."""

GRAPH = ACTIVITIES.index("graph")
_TIME, _ACTIVITY, _BEFORE = 0, 1, 2
_NOTHING = 0
_BUSY = len(ACTIVITIES) - 1

_ACTIVITY_OF = np.array([_NOTHING, 1, 2, 3, 1 + GRAPH, 1 + GRAPH, 1 + GRAPH, 3])
"""What happens, by what runs (bit 0: computation, bit 1: communication, bit 2: a graph). A running
graph may compute and communicate, so only `overlap` is certain then."""


class Lane(NamedTuple):
    """A rank, a device or a stream, on the rank's own clock."""

    rank: int
    device: int
    stream: int
    kernels: int
    """Number of kernels and whole CUDA graphs counted."""
    devices: int
    """Number of devices that the kernels ran on."""
    start_ns: int
    """First kernel start."""
    end_ns: int
    """Last kernel end."""
    busy_ns: tuple[int, ...]
    """Total time of compute, communicate, overlap and graph."""


@dataclass(frozen=True, eq=False)
class Lanes:
    """The lanes of some ranks on the aligned clock of the job (`clocks`)."""

    lanes: list[Lane]
    offset_ns: Times
    """Offset that turns each lane's own times into times since the first event of all ranks."""

    @classmethod
    def of(cls, job: Job, ranks: Iterable[int], by: str) -> Lanes:
        """Collect the lanes of the given ranks; a rank without kernels has one empty lane."""
        chosen = tuple(ranks)
        offsets = common_offsets_ns(job)
        by_rank = job.reduce(_lanes_of, chosen, by).values()
        lanes = [lane for of_rank in by_rank for lane in of_rank]
        return cls(lanes, np.array([offsets[lane.rank] for lane in lanes], dtype=np.int64))

    @cached_property
    def extents(self) -> dict[int, tuple[int, int]]:
        """First kernel start and last kernel end of each rank with kernels, since the origin."""
        extents: dict[int, tuple[int, int]] = {}
        for lane, offset in zip(self.lanes, self.offset_ns.tolist(), strict=True):
            own = lane.start_ns + offset, lane.end_ns + offset
            start_ns, end_ns = extents.get(lane.rank, own)
            if lane.kernels:
                extents[lane.rank] = min(start_ns, own[0]), max(end_ns, own[1])
        return extents

    @cached_property
    def extent_of_lanes(self) -> tuple[Times, Times]:
        """First kernel start and last kernel end of each lane; ns since the first event of all."""
        own = np.array([(lane.start_ns, lane.end_ns) for lane in self.lanes], dtype=np.int64)
        starts, ends = own.T + self.offset_ns
        return starts, ends

    @property
    def window(self) -> tuple[int, int]:
        """First kernel start and last kernel end of all; ns since the first event of all."""
        starts, ends = zip(*(self.extents.values() or [(0, 0)]), strict=True)
        return min(starts), max(ends)


def source_label(job: Job, rank: int) -> str:
    """Name of a rank's file without the suffixes and prefixes of the formats."""
    name = job.sources[rank].path.name
    while suffix := next((each for each in _SUFFIXES if name.endswith(each)), ""):
        name = name.removesuffix(suffix)
    return name.removeprefix(_RECIPE_PREFIX)


def lane_slices(job: Job, ranks: Iterable[int], by: str, source: Lanes, edges: Times) -> Int64Array:
    """Time (ns) of each of the `ACTIVITIES` in slices of all lanes, shape (5, lanes, slices)."""
    window = (int(edges[0]), int(edges[-1]), edges.size - 1)
    offsets = tuple(common_offsets_ns(job).items())
    by_rank = job.reduce(_at_edges, ranks, by, *window, offsets)
    at = np.concatenate(list(by_rank.values()))
    return time_in_slices(at, edges, *source.extent_of_lanes)


def busy_devices(rank: Rank) -> int:
    """How many devices of a rank compute or communicate."""
    work = rank.gpu_work
    return distinct(work.device[np.isin(work.type, _TYPES)]).size


def _lanes_of(rank: Rank, by: str) -> list[Lane]:
    return [lane for lane, _ in _timed_lanes(rank, by)]


def _at_edges(  # noqa: PLR0917  # the arguments of a task are positional
    rank: Rank, by: str, start_ns: int, end_ns: int, slices: int, offsets: RankOffsets
) -> Int64Array:
    timelines = [timeline for _, timeline in _timed_lanes(rank, by)]
    offset_ns = dict(offsets)[rank.trace.rank]
    return at_edges(timelines, edges_of_parts(start_ns - offset_ns, end_ns - offset_ns, slices))


@asked_once
def _timed_lanes(rank: Rank, by: str) -> list[tuple[Lane, ActivityTimeline]]:
    devices = rank.gpu_work.devices
    if by == DEVICE and len(devices) == 1:
        return [_on_device(devices[0], *each) for each in _timed_lanes(rank, RANK)]
    number, work = rank.trace.rank, rank.gpu_work
    kernels = np.flatnonzero(np.isin(work.type, _TYPES))
    if by == RANK or not kernels.size:
        return [_lane((number, NO_DEVICE, NO_STREAM), work)]
    columns = (work.device, work.stream) if by == STREAM else (work.device,)
    lanes = []
    for places in grouped(*(column[kernels] for column in columns)).parts:
        of_lane = work.take(kernels[places])
        stream = int(of_lane.stream[0]) if by == STREAM else NO_STREAM
        lanes.append(_lane((number, int(of_lane.device[0]), stream), of_lane))
    return lanes


def _on_device(
    device: int, lane: Lane, timeline: ActivityTimeline
) -> tuple[Lane, ActivityTimeline]:
    """Lane of the only device of a rank, made from the lane of the rank."""
    return lane._replace(device=device if lane.kernels else NO_DEVICE), timeline


def _lane(key: tuple[int, int, int], work: GpuWork) -> tuple[Lane, ActivityTimeline]:
    is_kernel = np.isin(work.type, _TYPES)
    count = int(is_kernel.sum())
    start_ns = int(work.start_ns[is_kernel].min()) if count else 0
    end_ns = int(work.end_ns[is_kernel].max()) if count else 0
    timeline = ActivityTimeline.of([work.busy_by_type[each] for each in _TYPES], start_ns, end_ns)
    lane = Lane(
        *key,
        kernels=count,
        devices=distinct(work.device[is_kernel]).size,
        start_ns=start_ns,
        end_ns=end_ns,
        busy_ns=tuple(timeline.busy_ns.tolist()),
    )
    return lane, timeline


@dataclass(frozen=True, eq=False)
class ActivityTimeline:
    """Start and end of each activity, with running sums so that it can be cut anywhere."""

    changes: IntArray
    """Times of the changes (ns, ascending); what happens from then on (0: nothing, 1 + position in
    `ACTIVITIES`); and the time (ns) of compute, communicate, overlap and graph before. Shape (6,
    changes)."""

    @classmethod
    def of(cls, running: Sequence[Intervals], start_ns: int, end_ns: int) -> ActivityTimeline:
        """Build the timeline of what runs between two times; nothing runs before or after."""
        # computation     |-----|    |---|
        # communication      |----|
        # activity      0  1   3  2 0  1   0     from the first edge to the last: `sweep`
        edges, covering = sweep(running)
        times = np.concatenate(([start_ns], edges, [end_ns]))
        changes = np.empty((_BEFORE + _BUSY, times.size), dtype=np.int64)
        changes[_TIME], changes[_ACTIVITY] = times, _NOTHING
        changes[_ACTIVITY, 1:-2] = _ACTIVITY_OF[covering]
        length, activity = np.diff(times), changes[_ACTIVITY, :-1].astype(np.int8)
        for place in range(_BUSY):
            before = changes[_BEFORE + place]
            before[0] = 0
            np.cumsum(length * (activity == place + 1), out=before[1:])
        return cls(narrowed(changes))

    @property
    def busy_ns(self) -> IntArray:
        """Total time (ns) of compute, communicate, overlap and graph."""
        return self.changes[_BEFORE:, -1]


def at_edges(timelines: Sequence[ActivityTimeline], edges: Times) -> Int64Array:
    """Look up timelines at edges (ns) on their clock, ascending.

    Shape (timelines, 6, edges): time (ns) from the last change to the edge; what happens then; and
    the time (ns) of compute, communicate, overlap and graph before this change.
    """
    at = np.empty((len(timelines), _BEFORE + _BUSY, edges.size), dtype=np.int64)
    for timeline, found in zip(timelines, at, strict=True):
        latest = timeline.changes[_TIME].searchsorted(edges, "right") - 1
        found[:] = timeline.changes.take(latest, axis=1, mode="clip")
    at[:, _TIME] = edges - at[:, _TIME]
    return at


def time_in_slices(at: Int64Array, edges: Times, start_ns: Times, end_ns: Times) -> Int64Array:
    """Time (ns) of each of the `ACTIVITIES` between edges, given what `at_edges` found there.

    Shape (5, timelines, slices). Edges, starts and ends of the timelines are on one clock; there is
    no time before and after a timeline.
    """
    # Time before an edge: the time before the last change, and, for what has been going on since,
    # the time since. A slice has the difference between its two edges.
    #   change   change      edge
    #   |--------|···since···|
    since = np.maximum(at[:, _TIME], 0)
    before = np.empty((len(ACTIVITIES), len(at), edges.size), dtype=np.int64)
    for place in range(_BUSY):
        before[place] = at[:, _BEFORE + place] + since * (at[:, _ACTIVITY] == place + 1)
    starts, ends = start_ns[:, np.newaxis], end_ns[:, np.newaxis]
    before[_BUSY] = np.clip(edges, starts, ends) - starts - before[:_BUSY].sum(axis=0)
    return np.diff(before, axis=2)
