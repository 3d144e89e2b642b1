"""Idle intervals of streams and devices, sorted so that each cause is one run of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.time.causes import are_of_one_graph, split_by_launch
from hta_widgets.analyses.time.selection import TimeSelection
from hta_widgets.arrays import Int64Array
from hta_widgets.grouping import Groups, grouped
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import NEVER, Rank

NO_STREAM = -1

IDLE_SPLIT: Final = (
    "host",
    "launch_call",
    "between_kernels",
    "inside_graph",
    "dependency",
    "launch_not_recorded",
)
"""Parts of idle time, in the order in which they are listed and drawn."""

_BETWEEN, _DEPENDENCY = IDLE_SPLIT.index("between_kernels"), IDLE_SPLIT.index("dependency")


@dataclass(frozen=True, eq=False)
class Gaps:
    """Intervals sorted by group (a stream or a device), then late launches first, then length."""

    device: Int64Array
    """Device of each group."""
    stream: Int64Array
    """Stream of each group; `NO_STREAM` if groups are devices."""
    span_ns: Times
    """First start to last end of each group."""
    edges: Int64Array
    """Group `g` has its late launches in ``edges[2 * g]:edges[2 * g + 1]`` and its other intervals
    from there to ``edges[2 * g + 2]``."""
    length_ns: Times
    """Length of each interval."""
    total_ns: Times
    """Time before each interval; one longer than `length_ns`."""
    unknown_edges: Int64Array
    """Bounds of each group in `unknown_ns`."""
    unknown_ns: Times
    """Lengths of the intervals of each group whose launch is not in the trace, ascending:
    ``unknown_ns[unknown_edges[g]:unknown_edges[g + 1]]``. None of these is a late launch."""

    def category_edges(self, delay_ns: int) -> Int64Array:
        """Bounds of the late, shorter and other intervals of each group, run after run."""
        middle = self.edges[1::2]
        shorter = middle + _shorter(self.length_ns, middle, self.edges[2::2], delay_ns)
        return np.append(np.stack([self.edges[:-1:2], middle, shorter], axis=1), self.edges[-1])

    def unknown_launches(self, delay_ns: int) -> Int64Array:
        """Number of intervals whose launch is not in the trace, by group: late, shorter, other."""
        count = np.diff(self.unknown_edges)
        first, last = self.unknown_edges[:-1], self.unknown_edges[1:]
        shorter = _shorter(self.unknown_ns, first, last, delay_ns)
        return np.stack([np.zeros_like(count), shorter, count - shorter], axis=1).ravel()


def stream_gaps(rank: Rank, selection: TimeSelection | None = None) -> Gaps:
    """Idle intervals of each stream; streams of a device are in order of occurrence in the file."""
    return _gaps(rank, streams_in_order(rank), selection)


def device_gaps(rank: Rank, selection: TimeSelection | None = None) -> Gaps:
    """Intervals of each device in which none of its streams is busy."""
    return _gaps(rank, devices_in_order(rank), selection)


class Order(NamedTuple):
    """Streams or devices in the order of the result."""

    groups: Groups
    """Groups of the GPU work."""
    by_place: Int64Array
    """The groups in the order of the result."""
    device: Int64Array
    """Device of each, in the order of the result."""
    stream: Int64Array
    """Stream of each, likewise; `NO_STREAM` if groups are devices."""

    @property
    def parts(self) -> list[Int64Array]:
        """Positions of the work of each, in the order of the result."""
        parts = self.groups.parts
        return [parts[group] for group in self.by_place.tolist()]

    def with_time(
        self, rank: Rank, selection: TimeSelection | None
    ) -> Iterator[tuple[Int64Array, Intervals | None]]:
        """Positions of the work of each, and the time that counts; None for all of it."""
        for part, device in zip(self.parts, self.device.tolist(), strict=True):
            yield part, None if selection is None else selection.time(rank, device)


def streams_in_order(rank: Rank) -> Order:
    """The streams of each device in order of occurrence in the file."""
    work, streams = rank.gpu_work, rank.gpu_work.streams
    place = streams.reduce(np.minimum, rank.trace.events.index[work.rows])
    device, stream = (ids[streams.first].astype(np.int64) for ids in (work.device, work.stream))
    order = np.lexsort((place, device))
    return Order(streams, order, device[order], stream[order])


def devices_in_order(rank: Rank) -> Order:
    """The devices, ascending."""
    work = rank.gpu_work
    devices = grouped(work.device)
    order = np.arange(devices.first.size)
    device = work.device[devices.first].astype(np.int64)
    return Order(devices, order, device, np.full_like(device, NO_STREAM))


def _gaps(rank: Rank, order: Order, selection: TimeSelection | None) -> Gaps:
    """Measure from the running maximum of ends, so that overlapping operations leave no gap."""
    lengths = [
        _of_group(rank.gpu_work, rank.launched_ns, *part)
        for part in order.with_time(rank, selection)
    ]
    runs = [run for late, in_time, _, _ in lengths for run in (late, in_time)]
    unknown = [each for _, _, each, _ in lengths]
    length_ns = _joined(runs)
    return Gaps(
        device=order.device,
        stream=order.stream,
        span_ns=np.array([span_ns for *_, span_ns in lengths], dtype=np.int64),
        edges=_edges(runs),
        length_ns=length_ns,
        total_ns=np.concatenate(([0], np.cumsum(length_ns))),
        unknown_edges=_edges(unknown),
        unknown_ns=_joined(unknown),
    )


def _of_group(
    work: GpuWork, launch_ns: Times, positions: Int64Array, counted: Intervals | None
) -> tuple[Times, Times, Times, int]:
    """Ascending lengths of late, other and unknown gaps, and the span of the group."""
    between = operations_between(work, launch_ns, positions)
    launch_ns, length_ns = launch_ns[between.after], between.length_ns
    unknown = launch_ns == NEVER
    late = (launch_ns > between.start_ns) & ~unknown
    gap = length_ns >= 0
    if counted is not None:
        end_ns = between.start_ns + length_ns
        inside_ns = time_inside(counted, between.start_ns, end_ns)
        gap &= np.where(length_ns > 0, inside_ns > 0, counted.covers(between.start_ns))
        length_ns = inside_ns
    return (
        np.sort(length_ns[late & gap]),
        np.sort(length_ns[~late & gap]),
        np.sort(length_ns[unknown & gap]),
        between.span_inside(counted),
    )


def time_inside(counted: Intervals | None, start_ns: Times, end_ns: Times) -> Times:
    """How much of each interval counts; all of it if `counted` is None."""
    if counted is None:
        return end_ns - start_ns
    return counted.covered_until(end_ns) - counted.covered_until(start_ns)


class Between(NamedTuple):
    """What lies between the operations of a stream or device; negative where they overlap."""

    start_ns: Times
    """End of all earlier operations."""
    length_ns: Times
    """From there to the start of the next one."""
    before: Int64Array
    """Position of the earlier operation that ends last."""
    after: Int64Array
    """Position of the next one."""
    first_ns: int
    """First start."""
    last_ns: int
    """Last end."""

    def span_inside(self, counted: Intervals | None) -> int:
        """First start to last end, or the part of it that counts."""
        edges = np.array([self.first_ns]), np.array([self.last_ns])
        return int(time_inside(counted, *edges)[0])


def operations_between(work: GpuWork, launch_ns: Times, positions: Int64Array) -> Between:
    """Find the intervals between some operations of `work`, of which there is at least one.

    ::

        earlier operations  |====|
                              |======|  <- reached
        next operation                ···gap···|====|
        its launch                        ^ after `reached`: late; before: in time
    """
    start_ns = work.start_ns[positions]
    positions = _first_launched_first(work, start_ns, launch_ns, positions)
    end_ns = work.end_ns[positions]
    reached_ns = np.maximum.accumulate(end_ns)
    reaching = np.where(end_ns == reached_ns, np.arange(positions.size), 0)
    return Between(
        start_ns=reached_ns[:-1],
        length_ns=start_ns[1:] - reached_ns[:-1],
        before=positions[np.maximum.accumulate(reaching)[:-1]],
        after=positions[1:],
        first_ns=int(start_ns[0]),
        last_ns=int(reached_ns[-1]),
    )


def _first_launched_first(
    work: GpuWork, start_ns: Times, launch_ns: Times, positions: Int64Array
) -> Int64Array:
    """Order ascending work that starts at once by launch, then by end: the first ends the gap."""
    same = np.flatnonzero(start_ns[1:] == start_ns[:-1])
    if not same.size:
        return positions
    tied = np.union1d(same, same + 1)
    among = positions[tied]
    keys = (work.end_ns[among], launch_ns[among], start_ns[tied])
    ordered = positions.copy()
    ordered[tied] = among[np.lexsort(keys)]
    return ordered


def _shorter(lengths: Times, first: Int64Array, last: Int64Array, delay_ns: int) -> Int64Array:
    """How many lengths of each ascending run are below a delay."""
    runs = zip(first.tolist(), last.tolist(), strict=True)
    counts = [int(np.searchsorted(lengths[start:end], delay_ns)) for start, end in runs]
    return np.array(counts, dtype=np.int64)


def _edges(runs: list[Times]) -> Int64Array:
    return np.cumsum([0, *(run.size for run in runs)], dtype=np.int64)


def _joined(runs: list[Times]) -> Times:
    return np.concatenate([np.zeros(0, dtype=np.int64), *runs])


@dataclass(frozen=True, eq=False)
class SplitGaps:
    """Idle time of streams or devices by part; intervals that a delay decides stay sorted."""

    device: Int64Array
    stream: Int64Array
    span_ns: Times
    """First start to last end of each stream or device."""
    fixed_ns: Times
    """For each stream or device in turn, time of each part that no delay changes."""
    fixed_count: Int64Array
    """Number of intervals with such time, likewise."""
    in_time_edges: Int64Array
    """Group ``g`` has the intervals ``in_time_edges[g]:in_time_edges[g + 1]`` whose launch call
    started in time, shortest first."""
    length_ns: Times
    """Length of each of these intervals."""
    rest_ns: Times
    """Sum, before each of them, of the time after the launch call had returned; one longer than
    `length_ns`."""
    rest_count: Int64Array
    """Number of intervals with such time before each of them, likewise."""

    def by_part(self, delay_ns: int) -> tuple[Times, Int64Array]:
        """Time, and intervals with such time, by part: one row per stream or device.

        Intervals shorter than `delay_ns` whose launch call started in time are between kernels.
        """
        first, last = self.in_time_edges[:-1], self.in_time_edges[1:]
        shorter = first + _shorter(self.length_ns, first, last, delay_ns)
        return (
            self._with_rest(self.fixed_ns, self.rest_ns, shorter),
            self._with_rest(self.fixed_count, self.rest_count, shorter),
        )

    def _with_rest(self, fixed: Int64Array, before: Int64Array, shorter: Int64Array) -> Int64Array:
        table = fixed.reshape(-1, len(IDLE_SPLIT)).copy()
        table[:, _BETWEEN] += before[shorter] - before[self.in_time_edges[:-1]]
        table[:, _DEPENDENCY] += before[self.in_time_edges[1:]] - before[shorter]
        return table


def split_stream_gaps(rank: Rank, selection: TimeSelection | None = None) -> SplitGaps:
    """Idle time of each stream by part."""
    return _split(rank, streams_in_order(rank), selection)


def split_device_gaps(rank: Rank, selection: TimeSelection | None = None) -> SplitGaps:
    """Idle time of each device by part."""
    return _split(rank, devices_in_order(rank), selection)


class _GroupSplit(NamedTuple):
    """The idle time of one stream or device."""

    span_ns: int
    fixed_ns: Times
    fixed_count: Int64Array
    length_ns: Times
    rest_ns: Times


def _split(rank: Rank, order: Order, selection: TimeSelection | None) -> SplitGaps:
    groups = [_split_group(rank, *part) for part in order.with_time(rank, selection)]
    rest_ns = _joined([group.rest_ns for group in groups])
    return SplitGaps(
        device=order.device,
        stream=order.stream,
        span_ns=np.array([group.span_ns for group in groups], dtype=np.int64),
        fixed_ns=_joined([group.fixed_ns for group in groups]),
        fixed_count=_joined([group.fixed_count for group in groups]),
        in_time_edges=_edges([group.length_ns for group in groups]),
        length_ns=_joined([group.length_ns for group in groups]),
        rest_ns=np.concatenate(([0], np.cumsum(rest_ns))),
        rest_count=np.concatenate(([0], np.cumsum(rest_ns > 0))),
    )


def _split_group(rank: Rank, positions: Int64Array, counted: Intervals | None) -> _GroupSplit:
    work, events = rank.gpu_work, rank.trace.events
    between = operations_between(work, rank.launched_ns, positions)
    gap = between.length_ns > 0
    start_ns, end_ns = between.start_ns[gap], (between.start_ns + between.length_ns)[gap]
    launch = work.launch[between.after[gap]]
    in_graph = are_of_one_graph(work.launch[between.before[gap]], launch, events)
    split = split_by_launch(start_ns, end_ns, launch, events)
    blamed = (launch >= 0) & ~in_graph
    length_ns = time_inside(counted, start_ns, end_ns)
    rest_ns = time_inside(counted, split.call_until_ns, end_ns)
    in_time = np.flatnonzero(blamed & ~split.late & (length_ns > 0))
    parts = [
        np.where(blamed, time_inside(counted, start_ns, split.host_until_ns), 0),
        np.where(blamed, time_inside(counted, split.host_until_ns, split.call_until_ns), 0),
        np.zeros_like(length_ns),
        np.where(in_graph, length_ns, 0),
        np.where(blamed & split.late, rest_ns, 0),
        np.where(launch < 0, length_ns, 0),
    ]
    shortest_first = in_time[np.argsort(length_ns[in_time], kind="stable")]
    return _GroupSplit(
        span_ns=between.span_inside(counted),
        fixed_ns=np.array([part.sum() for part in parts], dtype=np.int64),
        fixed_count=np.array([np.count_nonzero(part) for part in parts], dtype=np.int64),
        length_ns=length_ns[shortest_first],
        rest_ns=rest_ns[shortest_first],
    )
