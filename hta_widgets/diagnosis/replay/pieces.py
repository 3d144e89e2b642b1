"""The critical path in pieces, each with a class: backwards from an end along what came last.

The path moves to another host, stream or rank if what came last is there::

    host        [ work ]-- launch --.                            .-- return --[ work ]
    stream                          |=== kernel ===|--|= kernel =|
                                                   start

    rank 0      |=== collective                 =========|
    rank 1      [ work ]-- launch --|==== collective ====|       its arrival, then the transfer

Pieces follow each other without gaps or overlaps, so they add up to the time of the path.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.arrays import Float64Array, Int8Array, Int32Array, Int64Array, Mask
from hta_widgets.diagnosis.replay.binding import Edge, Solution
from hta_widgets.diagnosis.replay.host_work import HOST_WORK, NEITHER
from hta_widgets.diagnosis.replay.operations import NONE
from hta_widgets.diagnosis.replay.starts import GAP_NS, LATENCY_NS
from hta_widgets.grouping import counted_up
from hta_widgets.intervals import Times, distinct_times
from hta_widgets.trace.model.kernels import KernelType

OPERATION_CLASSES: Final = {
    KernelType.COMPUTATION: "compute",
    KernelType.COMMUNICATION: "communication",
    KernelType.MEMORY: "copies",
    KernelType.CUDA_GRAPH: "graph",
    KernelType.OTHER: "other GPU work",
}

CLASSES: Final = (
    *OPERATION_CLASSES.values(),
    "transfer",
    "kernel start",
    "dependency",
    "launch latency",
    "return from a sync",
    "room on the GPU",
    "unexplained",
    "before the recording",
    "host",
    *HOST_WORK,
)
"""What a piece of the path is. "transfer" is a collective from the arrival of its last rank to its
end; "kernel start" is the few µs between two operations of a stream, and "launch latency" those
from a launch to its operation. Any time beyond these is "unexplained", or "room on the GPU" if
kernels of other streams run meanwhile."""

_CODE: Final = {name: code for code, name in enumerate(CLASSES)}
_LIMIT_NS: Final = {
    Edge.STREAM: (GAP_NS, "kernel start"),
    Edge.LAUNCH: (LATENCY_NS, "launch latency"),
}


AT_ONCE: Final = 2**16
"""Number of edges of a path to turn into pieces together: 240,000 at once take 80 MB."""


class Pieces(NamedTuple):
    """Pieces of a path in order of time; each starts where the one before ends."""

    start_ns: Times
    end_ns: Times
    """Times on the common clock."""
    of: Int8Array
    """Class of each piece, by position in `CLASSES`."""
    rank: Int32Array
    """Position of the rank among those of the job."""
    operation: Int32Array
    """Operation of the job that each piece is, or that waits or is waited for; -1 for the host."""
    point: Int32Array
    """Point of the job before which the host works, or that launches or waits; -1 on a stream."""

    @classmethod
    def nothing(cls) -> Pieces:
        """An empty path."""
        none, nobody = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
        return cls(none, none, none.astype(np.int8), nobody, nobody, nobody)

    @property
    def length_ns(self) -> Times:
        """Length of each piece."""
        return self.end_ns - self.start_ns

    def cut(self, times: Times) -> Pieces:
        """Cut pieces at some times (ascending) that are inside them."""
        if not self.end_ns.size:
            return self
        inside = times[(times > self.start_ns[0]) & (times < self.end_ns[-1])]
        ends = distinct_times(self.end_ns, inside)
        source = np.searchsorted(self.end_ns, ends)
        starts = np.concatenate((self.start_ns[:1], ends[:-1]))
        return self.take(source)._replace(start_ns=starts, end_ns=ends)

    def take(self, chosen: Mask | Int64Array) -> Pieces:
        """Take some of the pieces, which may leave out time between them."""
        if chosen.dtype == np.bool_ and chosen.all():  # usual
            return self
        return Pieces._make(column[chosen] for column in self)


def pieces(solution: Solution, end: int, begin_ns: float) -> Pieces:
    """The path to the end of an operation, cut off at ``begin_ns``."""
    ends = zip(*reversed([*_ends(solution, end, begin_ns)]), strict=True)
    every = Pieces(*map(np.concatenate, ends))
    start = np.concatenate(([round(begin_ns)], every.end_ns[:-1])).astype(np.int64)
    return every._replace(start_ns=start).take(every.end_ns > start)


def _ends(solution: Solution, end: int, begin_ns: float) -> Iterator[Pieces]:
    """Ends of the pieces, one part of the path after another, the last part first."""
    job = solution.network.job
    path, kind = _path(solution, solution.first_operation + end, begin_ns)
    end_ns = float(solution.times.end[end])
    for last in range(path.size, 0, -AT_ONCE):
        rows = _Rows.of(solution, path, kind, np.arange(max(last - AT_ONCE, 0), last))
        # what starts before the end of what it waits for, such as a copy in parts, cuts that short
        until = np.minimum.accumulate(np.append(rows.until_ns, end_ns)[::-1])[::-1]
        end_ns = float(until[0])
        until = np.rint(np.maximum(until[:-1], begin_ns)).astype(np.int64)
        of_operation = np.append(job.operation_rank, 0)[rows.operation]
        of_point = np.append(job.point_rank, 0)[rows.point]
        rank = np.where(rows.operation != NONE, of_operation, of_point).astype(np.int32)
        part = Pieces(until, until, rows.of_class, rank, rows.operation, rows.point)
        yield part.take(np.diff(until, prepend=round(begin_ns) - 1) > 0)


def _path(solution: Solution, node: int, begin_ns: float) -> tuple[Int64Array, Int8Array]:
    """Numbers of points, operations and meetings on the path to one of them.

    And the kind of edge that leads to each, -1 for the first.
    """
    binding, time_ns = solution.binding(), solution.time_ns
    first, last = [], []
    while True:
        head = int(binding.head[binding.run[node]])
        first.append(head)
        last.append(node + 1)
        if binding.kind[head] == NONE or time_ns[head] <= begin_ns:
            break
        node = int(binding.source[head])
    path = counted_up(np.array(first[::-1]), np.array(last[::-1]))
    kind = binding.kind[path]
    kind[0] = NONE
    return path, kind


class _Rows(NamedTuple):
    """Pieces before the start of the path is cut off; some have no length."""

    until_ns: Float64Array
    of_class: Int8Array
    operation: Int32Array
    point: Int32Array

    @classmethod
    def of(cls, solution: Solution, path: Int64Array, kind: Int8Array, edges: Int64Array) -> _Rows:
        """Turn consecutive edges of a path into one or several pieces each."""
        of_edges = kind[edges]
        is_host, is_arrival = of_edges == Edge.HOST, of_edges == Edge.ARRIVAL
        begins = of_edges == NONE
        parts = [
            cls._on_host(solution, path, edges[is_host]),
            cls._on_gpu(solution, path, kind, edges[~(begins | is_host | is_arrival)]),
        ]
        if begins.any():
            parts.append(cls._beginning(solution, path))
        order = np.argsort(np.concatenate([places for places, _ in parts]), kind="stable")
        columns = zip(*(rows for _, rows in parts), strict=True)
        until_ns, of_class, *of = (np.concatenate(column)[order] for column in columns)
        return cls(until_ns, of_class, *(each.astype(np.int32) for each in of))

    @classmethod
    def _beginning(cls, solution: Solution, path: Int64Array) -> tuple[Int64Array, _Rows]:
        """The piece before the first number of a path, of which nothing is recorded."""
        at = path[:1]
        is_point, is_operation = at < solution.first_operation, at < solution.first_meeting
        operation = np.where(~is_point & is_operation, at - solution.first_operation, NONE)
        before = np.full(1, _CODE["before the recording"], dtype=np.int8)
        return np.zeros(1, dtype=np.int64), cls(
            solution.time_ns[at], before, operation, np.where(is_point, at, NONE)
        )

    @classmethod
    def _on_host(
        cls, solution: Solution, path: Int64Array, edges: Int64Array
    ) -> tuple[Int64Array, _Rows]:
        """Pieces of the host, from one point to the next.

        It is not known when between two points the host does what. Time without a class comes
        first, as only time inside the steps has one, and the first piece may start before them.
        """
        host_work = solution.weights.host_work[:NEITHER]
        worked = np.flatnonzero(host_work.any(axis=0))
        points, with_class = path[edges], solution.network.job.host_points[worked]
        end_ns = solution.times.point[points]
        has_class = np.isin(points, with_class)
        plain, mixed = np.flatnonzero(~has_class), np.flatnonzero(has_class)
        count = len(HOST_WORK) + 1
        shares = host_work[:, worked[np.searchsorted(with_class, points[mixed])]][::-1]
        until = np.vstack((np.zeros((1, mixed.size)), np.cumsum(shares, axis=0)))[::-1]
        until = np.minimum(until, solution.weights.own[points[mixed]])
        codes = _CODE["host"] + np.arange(count)
        return (
            np.concatenate((edges[plain], np.repeat(edges[mixed], count))),
            cls(
                np.concatenate((end_ns[plain], (end_ns[mixed] - until).T.ravel())),
                np.concatenate(
                    (np.full(plain.size, _CODE["host"]), np.tile(codes, mixed.size))
                ).astype(np.int8),
                np.full(plain.size + count * mixed.size, NONE),
                np.concatenate((points[plain], np.repeat(points[mixed], count))),
            ),
        )

    @classmethod
    def _on_gpu(
        cls, solution: Solution, path: Int64Array, kind: Int8Array, edges: Int64Array
    ) -> tuple[Int64Array, _Rows]:
        """Three pieces: the usual time before an operation, the rest of it, and the operation.

        The return from a sync is one piece, and so is a transfer.
        """
        job, base = solution.network.job, solution.first_operation
        kind, before, node = kind[edges], path[edges - 1], path[edges]
        waits = kind == Edge.WAIT
        operation = np.where(waits, before, node) - base
        end_ns = solution.time_ns[node]
        duration = np.where(waits, 0, solution.weights.duration[operation])
        start_ns, before_ns = end_ns - duration, solution.time_ns[before]
        first = np.full(edges.size, _CODE["return from a sync"], dtype=np.int8)
        usual_ns = start_ns.copy()
        first[kind == Edge.DEPENDENCY] = _CODE["dependency"]
        first[kind == Edge.TRANSFER] = _CODE["transfer"]
        alone = np.zeros(job.stream.size, dtype=np.bool_)
        alone[job.finish[job.is_alone]] = True
        first[(kind == Edge.TRANSFER) & alone[operation]] = _CODE["communication"]
        for of_kind, (limit_ns, name) in _LIMIT_NS.items():
            first[kind == of_kind] = _CODE[name]
            usual_ns[kind == of_kind] = (before_ns + limit_ns)[kind == of_kind]
        from_origin = (kind == Edge.LAUNCH) & np.isin(before, job.origins)
        first[from_origin] = _CODE["before the recording"]
        usual_ns[from_origin] = start_ns[from_origin]
        own = np.array([_CODE[OPERATION_CLASSES[each]] for each in KernelType], dtype=np.int8)
        waits_for_room = job.waits_for_room[operation]
        rest = np.where(waits_for_room, _CODE["room on the GPU"], _CODE["unexplained"])
        rest = rest.astype(np.int8)
        own_code = np.where(job.is_finish[operation] | waits, first, own[job.type[operation]])
        point = np.where(waits, node, np.where(kind == Edge.LAUNCH, before, NONE))
        columns = (
            np.stack((np.minimum(usual_ns, start_ns), start_ns, end_ns), axis=1),
            np.stack((first, rest, own_code), axis=1),
        )
        until, codes = (each.ravel() for each in columns)
        return np.repeat(edges, 3), cls(until, codes, np.repeat(operation, 3), np.repeat(point, 3))
