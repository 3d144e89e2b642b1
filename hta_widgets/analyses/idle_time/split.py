"""Idle intervals of streams and devices, split by what the host and the GPU did."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.idle_time.gaps import (
    Order,
    devices_in_order,
    operations_between,
    streams_in_order,
    time_inside,
)
from hta_widgets.analyses.time.causes import are_of_one_graph, split_by_launch
from hta_widgets.analyses.time.selection import TimeSelection
from hta_widgets.arrays import Int64Array
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.ranks.rank import Rank

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
class SplitGaps:
    """Idle time of streams or devices by part; what a delay decides is kept sorted by length."""

    device: Int64Array
    stream: Int64Array
    span_ns: Times
    """First start to last end of each stream or device."""
    fixed_ns: Times
    """For each stream or device in turn, time of each part, without the intervals whose launch call
    began in time."""
    fixed_count: Int64Array
    """Number of intervals with such time, likewise."""
    in_time_edges: Int64Array
    """Group ``g`` has the intervals ``in_time_edges[g]:in_time_edges[g + 1]`` whose launch call
    began in time, shortest first."""
    length_ns: Times
    """Length of each of these."""
    rest_ns: Times
    """Before each of them: time after the launch call had returned; one longer than `length_ns`."""
    rest_count: Int64Array
    """Number of intervals with such time, likewise."""

    def by_part(self, delay_ns: int) -> tuple[Times, Int64Array]:
        """Time, and intervals with such time, by part: one row per stream or device.

        Parameters
        ----------
        delay_ns : int
            Shorter intervals whose launch call began in time are between kernels.
        """
        shorter = np.array(
            [
                first + int(np.searchsorted(self.length_ns[first:last], delay_ns))
                for first, last in pairwise(self.in_time_edges.tolist())
            ],
            dtype=np.int64,
        )
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
    if selection is not None:
        return _split(rank, streams_in_order(rank), selection)
    return SplitGaps(**rank.derive(_split_streams))


def split_device_gaps(rank: Rank, selection: TimeSelection | None = None) -> SplitGaps:
    """Idle time of each device by part."""
    if selection is not None:
        return _split(rank, devices_in_order(rank), selection)
    return SplitGaps(**rank.derive(_split_devices))


def _split_streams(rank: Rank) -> Columns:
    return vars(_split(rank, streams_in_order(rank)))


def _split_devices(rank: Rank) -> Columns:
    return vars(_split(rank, devices_in_order(rank)))


class _GroupSplit(NamedTuple):
    """The idle time of one stream or device."""

    span_ns: int
    fixed_ns: Times
    fixed_count: Int64Array
    length_ns: Times
    rest_ns: Times


def _split(rank: Rank, order: Order, selection: TimeSelection | None = None) -> SplitGaps:
    groups = [_split_group(rank, *part) for part in order.with_time(rank, selection)]
    none = np.zeros(0, dtype=np.int64)
    rest_ns = np.concatenate([none, *(group.rest_ns for group in groups)])
    return SplitGaps(
        device=order.device,
        stream=order.stream,
        span_ns=np.array([group.span_ns for group in groups], dtype=np.int64),
        fixed_ns=np.concatenate([none, *(group.fixed_ns for group in groups)]),
        fixed_count=np.concatenate([none, *(group.fixed_count for group in groups)]),
        in_time_edges=np.cumsum([0, *(group.length_ns.size for group in groups)], dtype=np.int64),
        length_ns=np.concatenate([none, *(group.length_ns for group in groups)]),
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
