"""The critical path of one rank as HTA's graph, whose nodes are starts and ends of events.

The edges of the path form a chain. The other edges come from the replay, together with everything
else that the events of the window wait for.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.diagnosis.replay.binding import Edge
from hta_widgets.diagnosis.replay.operations import NONE
from hta_widgets.diagnosis.replay.window_path import Mark, WindowPath
from hta_widgets.hta_tables.critical_path_stretches import (
    BOUND_BETWEEN,
    BoundType,
    CPEdgeType,
    EventEnd,
    Stretch,
    bound_of_operation,
    stretches,
)
from hta_widgets.trace.model.events import GPU_WORK, KindSet
from hta_widgets.trace.ranks.rank import Rank

_ON_GPU: Final = KindSet(GPU_WORK)
_TYPES: Final = {
    Edge.HOST: CPEdgeType.DEPENDENCY,
    Edge.STREAM: CPEdgeType.KERNEL_KERNEL_DELAY,
    Edge.LAUNCH: CPEdgeType.KERNEL_LAUNCH_DELAY,
    Edge.DEPENDENCY: CPEdgeType.SYNC_DEPENDENCY,
    Edge.WAIT: CPEdgeType.SYNC_DEPENDENCY,
}


class GraphNode(NamedTuple):
    """The start or the end of an event, or a point inside it where the path is cut."""

    event: int
    """Position in the source."""
    time_ns: int
    """Time on the rank's clock."""
    is_start: bool
    is_blocking: bool
    """Whether it belongs to a call that may wait for the GPU."""


class GraphEdge(NamedTuple):
    """A connection from one node to another."""

    begin: int
    end: int
    """Numbers of its two nodes."""
    type: CPEdgeType
    weight_ns: int
    event: int
    """Position in the source of the operation or call whose time it is; -1 for none."""
    bound_by: BoundType
    slack_ns: float | None
    """How much longer it could be without effect; None if the end does not wait for it."""
    drag_ns: float | None
    """Time saved if the operation took no time; None for other edges."""


class Graph(NamedTuple):
    """The graph of what a mark covers; at most one edge leads from one node to another."""

    nodes: list[GraphNode]
    edges: list[GraphEdge]
    critical: int
    """Number of edges on the path; these come first, in time order."""


def critical_path_graph(
    rank: Rank, mark: Mark, found: WindowPath | None, data_load_events: Sequence[str] = ()
) -> Graph:
    """The graph of what a mark covers; without a path if only the host works.

    `data_load_events` are regular expressions for events that load data, besides the known ones.
    """
    graph = _Graph(rank, mark, found)
    graph.walk(stretches(rank, mark, found, data_load_events))
    critical = len(graph.edges)
    if found is not None:
        graph.add_others(found)
    return Graph(graph.nodes, graph.edges, critical)


class _Graph:
    def __init__(self, rank: Rank, mark: Mark, found: WindowPath | None) -> None:
        self.events, self.mark = rank.trace.events, mark
        self.blocking = (
            set() if found is None else set(found.job.parts[0].column("waits.row").tolist())
        )
        self.nodes: list[GraphNode] = []
        self.edges: list[GraphEdge] = []
        self.number: dict[EventEnd, int] = {}
        self.known: set[tuple[int, int]] = set()
        self.window_ns = mark.start_ns, mark.end_ns
        if found is not None:
            self.window_ns = int(found.path.edges_ns[0]), int(found.path.edges_ns[-1])

    def node(self, at: EventEnd) -> int:
        """Node number of the start or the end of an event."""
        if at not in self.number:
            time_ns = int(self.events.start_ns[at.row])
            length_ns = 0 if at.is_start else int(self.events.duration_ns[at.row])
            self.number[at] = self._new(at, time_ns + length_ns)
        return self.number[at]

    def _new(self, at: EventEnd, time_ns: int) -> int:
        event = int(self.events.index[at.row])
        self.nodes.append(GraphNode(event, time_ns, at.is_start, at.row in self.blocking))
        return len(self.nodes) - 1

    def _add(self, edge: GraphEdge) -> None:
        """Add an edge, unless its nodes are already connected."""
        if (edge.begin, edge.end) not in self.known and edge.begin != edge.end:
            self.known.add((edge.begin, edge.end))
            is_finite = edge.slack_ns is None or isfinite(edge.slack_ns)
            self.edges.append(edge if is_finite else edge._replace(slack_ns=None))

    def walk(self, path: Sequence[Stretch]) -> None:
        """Add the path, from an event that starts with the mark, or from the mark's start."""
        at = path[0].begins or EventEnd(self.mark.first, is_start=True)
        number = self.node(at)
        for each in path:
            if each.begins is not None and self.node(each.begins) != number:
                number, at = self._bridge(number, at, each.begins), each.begins
            at = each.ends or EventEnd(at.row if each.row == NONE else each.row, is_start=False)
            target = self.node(at) if each.ends is not None else self._new(at, each.end_ns)
            row = NONE if each.row == NONE else int(self.events.index[each.row])
            length_ns = each.end_ns - each.start_ns
            rest = (each.type, length_ns, row, each.bound_by, each.slack_ns, each.drag_ns)
            self._add(GraphEdge(number, target, *rest))
            number = target

    def _bridge(self, number: int, at: EventEnd, target: EventEnd) -> int:
        """Add an edge of zero length between two simultaneous ends of events."""
        from_gpu, to_gpu = _ON_GPU.among(self.events.kind[[at.row, target.row]]).tolist()
        stream = [self.events.stream[each.row] for each in (at, target)]
        kind = CPEdgeType.DEPENDENCY
        if from_gpu:
            is_next = to_gpu and stream[0] == stream[1]
            kind = CPEdgeType.KERNEL_KERNEL_DELAY if is_next else CPEdgeType.SYNC_DEPENDENCY
        elif to_gpu:
            kind = CPEdgeType.KERNEL_LAUNCH_DELAY
        bound = BOUND_BETWEEN[kind] if to_gpu else BoundType.CPU_BOUND
        found = self.node(target)
        self._add(GraphEdge(number, found, kind, 0, NONE, bound, 0.0, None))
        return found

    def add_others(self, found: WindowPath) -> None:
        """Add what is inside the window but not on the path."""
        job, path = found.job, found.path
        solution, points, parts = path.slack.solution, job.line.size, path.parts
        late_ns = np.concatenate(path.slack.latest)
        waited = job.parts[0].column("line.wait") >= 0
        row = np.concatenate((found.point_row, found.row))
        as_source = np.append(~waited, np.zeros(found.row.size, dtype=np.bool_))
        as_target = np.append(~waited, np.ones(found.row.size, dtype=np.bool_))
        as_target[-1] = False  # the end of the mark
        length_ns = np.append(np.zeros(points), solution.weights.duration)
        of_host = parts.operation == NONE
        on_path = np.zeros(row.size, dtype=np.bool_)
        on_path[parts.point[of_host & (parts.point != NONE)]] = True
        on_path[-1] = (parts.operation == found.end_of_mark).any()
        self._add_operations(found)
        for edges in solution.edges:
            if edges.kind not in _TYPES:
                continue
            source, target = edges.source, edges.target
            kept = self._is_inside(row[source], as_source[source])
            kept &= self._is_inside(row[target], as_target[target])
            kept &= row[source] != row[target]
            to_end = target == row.size - 1
            kept &= ~(on_path[target] & (to_end | (edges.kind == Edge.HOST)))
            source, target = source[kept], target[kept]
            at_ns = edges.at_ns[kept]
            weight_ns = np.rint(at_ns - solution.time_ns[source] - length_ns[target])
            columns = (
                row[source],
                as_source[source],
                row[target],
                as_target[target],
                weight_ns.astype(np.int64),
                np.maximum(late_ns[target] - at_ns, 0),
                to_end[kept],
                (target < points) | to_end[kept],
            )
            for begin, is_start, end, to_start, weight, slack_ns, is_end, to_host in zip(
                *(column.tolist() for column in columns), strict=True
            ):
                kind = CPEdgeType.DEPENDENCY if is_end else _TYPES[edges.kind]
                bound = BoundType.CPU_BOUND if to_host else BOUND_BETWEEN[kind]
                nodes = self.node(EventEnd(begin, is_start)), self.node(EventEnd(end, to_start))
                self._add(GraphEdge(*nodes, kind, weight, NONE, bound, slack_ns, None))

    def _add_operations(self, found: WindowPath) -> None:
        """Add the time of each operation."""
        job, slack = found.job, found.path.slack
        chosen = np.setdiff1d(np.arange(job.stream.size - 1), job.arrival)
        row, is_start = found.row, np.ones(found.row.size, dtype=np.bool_)
        inside = self._is_inside(row, is_start) & self._is_inside(row, ~is_start)
        chosen = chosen[inside[chosen]]
        duration_ns = np.rint(job.recorded_duration).astype(np.int64)
        columns = (row, duration_ns, job.type, np.maximum(slack.operations_ns, 0), slack.drag_ns)
        for work, length_ns, kernel_type, slack_ns, drag_ns in zip(
            *(column[chosen].tolist() for column in columns), strict=True
        ):
            begin, end = (self.node(EventEnd(work, is_start=each)) for each in (True, False))
            kind, bound = CPEdgeType.OPERATOR_KERNEL, bound_of_operation(kernel_type)
            event = int(self.events.index[work])
            self._add(GraphEdge(begin, end, kind, length_ns, event, bound, slack_ns, drag_ns))

    def _is_inside(self, row: Int64Array, is_start: Mask) -> Mask:
        """Which starts and ends of events are in the window; rows that are -1 are not."""
        time_ns = self.events.start_ns[row] + np.where(is_start, 0, self.events.duration_ns[row])
        inside = (time_ns >= self.window_ns[0]) & (time_ns <= self.window_ns[1])
        return np.asarray(inside & (row != NONE))
