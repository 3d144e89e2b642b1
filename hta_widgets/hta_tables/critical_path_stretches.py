"""The critical path of one rank in HTA's terms: stretches between starts and ends of events.

Each stretch starts where the previous one ends, so that they add up to the time of the path::

    [ operator      [cudaLaunchKernel]                     [ operator
    |-- operator -->|-- launch delay -->|== kernel ==>|-- sync -->|
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

import numpy as np

from hta_widgets.analyses.budget.device_steps import loading_calls
from hta_widgets.analyses.budget.idle_segments import NOBODY, joined
from hta_widgets.analyses.time.calls import calls_of, nearest_at_or_above
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.diagnosis.replay.operations import NONE
from hta_widgets.diagnosis.replay.path_operators import RankPieces, on_threads
from hta_widgets.diagnosis.replay.pieces import CLASSES, OPERATION_CLASSES
from hta_widgets.diagnosis.replay.window_path import Mark, WindowPath, thread_of_event
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.rank import Rank


class CPEdgeType(Enum):
    """Type of an edge of HTA's graph."""

    OPERATOR_KERNEL = "critical_path_operator"
    """Time of a GPU operation, or of the innermost call on the host."""
    DEPENDENCY = "critical_path_dependency"
    """Host time between outermost calls."""
    KERNEL_LAUNCH_DELAY = "critical_path_kernel_launch_delay"
    """From the start of a call to the start of the operation that it launches."""
    KERNEL_KERNEL_DELAY = "critical_path_kernel_kernel_delay"
    """From the end of an operation to the start of the next one on its stream."""
    SYNC_DEPENDENCY = "critical_path_sync_dependency"
    """From the end of an operation to what waits for it on another stream or on the host."""


class BoundType(Enum):
    """What bounds the time of an edge of HTA's graph."""

    GPU_KERNEL_KERNEL_OVERHEAD = "gpu_kernel_kernel_overhead"
    GPU_KERNEL_LAUNCH_OVERHEAD = "gpu_kernel_launch_overhead"
    DATA_LOADING = "data_loading"
    CPU_BOUND = "cpu_bound"
    GPU_COMPUTE_BOUND = "gpu_compute_bound"
    GPU_COMMUNICATION_BOUND = "gpu_communication_bound"


class EventEnd(NamedTuple):
    """The start or the end of the event at a row."""

    row: int
    is_start: bool


class Stretch(NamedTuple):
    """A stretch of the path."""

    start_ns: int
    end_ns: int
    """Time on the rank's clock."""
    type: CPEdgeType
    bound_by: BoundType
    row: int
    """Row of the operation or call whose time it is; -1 for none."""
    begins: EventEnd | None
    ends: EventEnd | None
    """Events at its start and its end; None where no event starts or ends."""
    slack_ns: float
    """How much later the event at its end could be without effect."""
    drag_ns: float | None
    """Time saved if the operation took no time; None for other stretches."""


_OPERATIONS: Final = {*OPERATION_CLASSES.values(), "transfer"}
_TYPES: Final = {
    **dict.fromkeys(_OPERATIONS, CPEdgeType.OPERATOR_KERNEL),
    "kernel start": CPEdgeType.KERNEL_KERNEL_DELAY,
    "launch latency": CPEdgeType.KERNEL_LAUNCH_DELAY,
    "before the recording": CPEdgeType.KERNEL_LAUNCH_DELAY,
    "dependency": CPEdgeType.SYNC_DEPENDENCY,
    "return from a sync": CPEdgeType.SYNC_DEPENDENCY,
}
_EDGE_TYPES: Final = (*CPEdgeType,)
_TYPE_OF_CLASS: Final = np.array(
    [_EDGE_TYPES.index(_TYPES.get(name, CPEdgeType.DEPENDENCY)) for name in CLASSES]
)
_LATE: Final = (CLASSES.index("unexplained"), CLASSES.index("room on the GPU"))
_BEFORE: Final = CLASSES.index("before the recording")
_LAUNCH: Final = _EDGE_TYPES.index(CPEdgeType.KERNEL_LAUNCH_DELAY)
_GAP: Final = _EDGE_TYPES.index(CPEdgeType.KERNEL_KERNEL_DELAY)
_WORK: Final = _EDGE_TYPES.index(CPEdgeType.OPERATOR_KERNEL)

BOUND_BETWEEN: Final = {
    CPEdgeType.KERNEL_LAUNCH_DELAY: BoundType.GPU_KERNEL_LAUNCH_OVERHEAD,
    CPEdgeType.KERNEL_KERNEL_DELAY: BoundType.GPU_KERNEL_KERNEL_OVERHEAD,
    CPEdgeType.SYNC_DEPENDENCY: BoundType.GPU_KERNEL_KERNEL_OVERHEAD,
}
"""What bounds the time before an operation."""


def bound_of_operation(kernel_type: int) -> BoundType:
    """What bounds the time of an operation."""
    communicates = kernel_type == KernelType.COMMUNICATION
    return BoundType.GPU_COMMUNICATION_BOUND if communicates else BoundType.GPU_COMPUTE_BOUND


def stretches(
    rank: Rank, mark: Mark, found: WindowPath | None, data_load_events: Sequence[str]
) -> list[Stretch]:
    """The path of what a mark covers; there is none if only the host works.

    `data_load_events` are regular expressions for events that load data, besides the known ones.
    """
    pieces = _host_alone(mark) if found is None else _pieces(found)
    return [*_Stretches(rank, mark, found, data_load_events).of(pieces)]


class _Pieces(NamedTuple):
    """Pieces of the path in time order, as columns; pieces of the host are not cut yet.

    ``point`` is where a piece of the host ends, where an operation was launched, or where the host
    waited; -1 for none. ``is_tail`` marks the piece from the last point to the end of the mark.
    """

    start_ns: Times
    end_ns: Times
    type: Int64Array
    operation: Int64Array
    point: Int64Array
    is_host: Mask
    is_tail: Mask

    def take(self, chosen: Int64Array) -> _Pieces:
        columns: Iterator[Any] = (column[chosen] for column in self)
        return _Pieces(*columns)


def _host_alone(mark: Mark) -> _Pieces:
    nothing, all_of_it = np.full(1, NONE), np.ones(1, dtype=np.bool_)
    times = np.array([mark.start_ns]), np.array([mark.end_ns])
    return _Pieces(*times, nothing, nothing, nothing, all_of_it, all_of_it)


def _pieces(found: WindowPath) -> _Pieces:
    """Merge consecutive pieces of one kind, such as launching and the late part of it."""
    parts, job = found.path.parts, found.job
    of, operation, point = (
        each.astype(np.int64) for each in (parts.of, parts.operation, parts.point)
    )
    kind = _TYPE_OF_CLASS[of]
    is_late = np.isin(of, _LATE)
    kind[is_late] = np.where(point == NONE, _GAP, _LAUNCH)[is_late]
    # the host also works before the first point of its line
    begins = (
        (of == _BEFORE)
        & (operation == NONE)
        & (np.append(job.line, NONE)[point + 1] == job.line[point])
    )
    point[begins] += 1
    is_tail = operation == found.end_of_mark
    operation[is_tail] = NONE
    is_host = operation == NONE
    found_pieces = _Pieces(
        parts.start_ns.copy(), parts.end_ns.copy(), kind, operation, point, is_host, is_tail
    )
    if ((of == _BEFORE) & ~is_host & (point == NONE))[:1].any():
        # an operation that waits for nothing, including the time before it
        begun_ns = round(job.end_ns[operation[0]] - job.recorded_duration[operation[0]])
        twice = found_pieces.take(np.append(0, np.arange(of.size)))
        twice.end_ns[0] = twice.start_ns[1] = np.clip(begun_ns, twice.start_ns[0], twice.end_ns[1])
        twice.type[1] = _WORK
        found_pieces = twice.take(np.flatnonzero(twice.end_ns > twice.start_ns))
    kind = np.where(found_pieces.is_host, NONE, found_pieces.type)
    columns = (kind, *found_pieces[3:])
    changes = [np.diff(column.astype(np.int64), prepend=NONE - 1) != 0 for column in columns]
    first = np.flatnonzero(np.logical_or.reduce(changes))
    ends_ns = np.append(found_pieces.start_ns[first[1:]], found_pieces.end_ns[-1])
    return found_pieces.take(first)._replace(end_ns=ends_ns)


class _Stretches:
    """Pieces as stretches, with the events at their ends."""

    def __init__(
        self, rank: Rank, mark: Mark, found: WindowPath | None, data_load_events: Sequence[str]
    ) -> None:
        self.events, self.mark, self.found = rank.trace.events, mark, found
        self.calls = calls = calls_of(rank)
        number = thread_of_event(calls, mark.last)
        busiest = max(calls.threads, key=lambda each: each.last - each.first, default=None)
        thread = busiest if number == NONE else calls.threads[number]
        self.on_thread = NONE if thread is None else int(calls.forest.rows[thread.first])
        """Row of a call on the thread on which the mark ends; -1 without calls."""
        names_load = [re.compile(each).search for each in data_load_events]
        loads = loading_calls(rank)
        loads |= calls.named(lambda name: any(fits(name) for fits in names_load))
        forest = calls.forest
        self.loads = np.append(nearest_at_or_above(forest, loads) != NOBODY, [False])
        is_work = calls.kind != Kind.ANNOTATION
        self.working = np.append(nearest_at_or_above(forest, is_work), NOBODY)
        self.point_row = np.full(1, NONE)
        self.waits = np.zeros(1, dtype=np.bool_)
        if found is not None:
            self.point_row = np.append(found.point_row, NONE)
            self.waits = np.append(found.job.parts[0].column("line.wait") >= 0, [False])

    def of(self, pieces: _Pieces) -> Iterator[Stretch]:
        """All stretches in time order."""
        on_host = self._on_host(pieces)
        before = NONE
        for start_ns, end_ns, kind, operation, point, is_host, _ in zip(
            *(column.tolist() for column in pieces), strict=True
        ):
            if is_host:
                yield from next(on_host)
                before = NONE
                continue
            stretch = self._on_gpu(start_ns, end_ns, _EDGE_TYPES[kind], operation, point)
            if stretch.type is CPEdgeType.KERNEL_KERNEL_DELAY:
                stretch = stretch._replace(row=before)  # as HTA does
            before = stretch.row
            yield stretch

    def _on_gpu(
        self, start_ns: int, end_ns: int, kind: CPEdgeType, operation: int, point: int
    ) -> Stretch:
        assert self.found is not None  # noqa: S101, there are no operations without
        slack, work = self.found.path.slack, int(self.found.row[operation])
        called = int(self.point_row[point])
        slack_ns, drag_ns = slack.operations_ns[operation], None
        row, begins, ends = NONE, None, EventEnd(work, is_start=True)
        bound = BOUND_BETWEEN.get(kind, BoundType.CPU_BOUND)
        if kind is CPEdgeType.OPERATOR_KERNEL:
            row, drag_ns = work, float(slack.drag_ns[operation])
            begins, ends = (
                self._event(work, start_ns, is_start=True),
                EventEnd(work, is_start=False),
            )
            bound = bound_of_operation(int(self.found.job.type[operation]))
        elif kind is CPEdgeType.KERNEL_LAUNCH_DELAY:
            begins = self._event(called, start_ns, is_start=True)
        elif point != NONE:
            slack_ns, bound = slack.points_ns[point], BoundType.CPU_BOUND
            ends = EventEnd(called, is_start=False)
        slack_ns = max(float(slack_ns), 0.0)
        return Stretch(start_ns, end_ns, kind, bound, row, begins, ends, slack_ns, drag_ns)

    def _on_host(self, pieces: _Pieces) -> Iterator[list[Stretch]]:
        """Stretches of each piece of the host, which is cut at the innermost calls."""
        host = pieces.take(np.flatnonzero(pieces.is_host))
        after, before = self.point_row[host.point], self._before(host)
        nothing = np.zeros(0, dtype=np.int64)
        parts = on_threads(
            self.calls,
            RankPieces(
                host.start_ns,
                host.end_ns,
                np.where(host.is_tail | (after == NONE), self.on_thread, after),
                before,
                nothing,
                nothing,
            ),
        )
        cut = joined([*parts])
        cut = cut.take(np.argsort(cut.start_ns, kind="stable"))
        owner, loads = self.working[cut.owner], self.loads[cut.owner]
        same = (np.diff(cut.gap) == 0) & (np.diff(owner) == 0) & (np.diff(loads) == 0)
        cut = cut.take(np.append(True, ~same))
        owner, loads = self.working[cut.owner], self.loads[cut.owner]
        first = np.searchsorted(cut.gap, np.arange(host.start_ns.size + 1))
        rows = np.append(self.calls.forest.rows, NONE)[owner].tolist()
        starts = cut.start_ns.tolist()
        for place in range(host.start_ns.size):
            inside = range(int(first[place]), int(first[place + 1]))
            begins, ends = self._ends_of(host, place, int(before[place]))
            found: list[Stretch] = []
            for at in inside:
                is_last = at == inside[-1]
                until = int(host.end_ns[place]) if is_last else starts[at + 1]
                row = rows[at]
                here = ends if is_last else self._change(row, rows[at + 1], until)
                kind = CPEdgeType.DEPENDENCY if row == NONE else CPEdgeType.OPERATOR_KERNEL
                bound = BoundType.DATA_LOADING if loads[at] else BoundType.CPU_BOUND
                found.append(Stretch(starts[at], until, kind, bound, row, begins, here, 0.0, None))
                begins = None
            yield found

    def _before(self, host: _Pieces) -> Int64Array:
        """Row of the call at the point where each piece of the host starts; -1 for none."""
        if self.found is None:
            return np.full(host.point.size, NONE)
        line = self.found.job.line
        before = np.where(host.is_tail, host.point, host.point - 1)
        return np.where(line[before] == line[host.point], self.point_row[before], NONE)

    def _ends_of(
        self, host: _Pieces, place: int, before: int
    ) -> tuple[EventEnd | None, EventEnd | None]:
        """Events at the start and at the end of a piece of the host."""
        point, is_tail = int(host.point[place]), bool(host.is_tail[place])
        start_ns, end_ns = int(host.start_ns[place]), int(host.end_ns[place])
        begins_after = point if is_tail else point - 1
        begins = self._event(before, start_ns, is_start=not self.waits[begins_after])
        if is_tail:
            return begins, self._event(self.mark.last, end_ns, is_start=False)
        called = int(self.point_row[point])
        return begins, self._event(called, end_ns, is_start=not self.waits[point])

    def _change(self, row: int, after: int, time_ns: int) -> EventEnd | None:
        """The event that ends or starts where the innermost call changes."""
        ended = self._event(row, time_ns, is_start=False)
        return ended or self._event(after, time_ns, is_start=True)

    def _event(self, row: int, time_ns: int, *, is_start: bool) -> EventEnd | None:
        """The start or the end of an event, if it is at the given time."""
        if row == NONE:
            return None
        at_ns = self.events.start_ns[row] + (0 if is_start else self.events.duration_ns[row])
        return EventEnd(row, is_start=is_start) if at_ns == time_ns else None
