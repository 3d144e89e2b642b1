"""What a replay needs of one rank: much smaller than the rank, computed once, and kept packed."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.budget.device_steps import HostGaps, host_gaps, touched
from hta_widgets.analyses.budget.idle_gaps import gaps_of
from hta_widgets.analyses.time.window import NO_STEP, Window, has_launches, may_end_step, window_of
from hta_widgets.arrays import Float64Array, Int8Array, Int64Array, narrowed
from hta_widgets.diagnosis.replay.host_line import HostLine, host_line
from hta_widgets.diagnosis.replay.host_work import host_work
from hta_widgets.diagnosis.replay.operations import NONE, Operations
from hta_widgets.diagnosis.replay.starts import Starts, starts
from hta_widgets.diagnosis.replay.waiting_calls import WaitingCalls, waiting_calls
from hta_widgets.grouping import numbered
from hta_widgets.intervals import Times
from hta_widgets.trace.ranks.rank import Rank


class RankPart(NamedTuple):
    """Points, operations and what they wait for, on the rank's own clock."""

    line: HostLine
    waits: WaitingCalls
    starts: Starts
    host_work: Float64Array
    """Shape (classes, points), see `host_work`."""
    row: Int64Array
    start_ns: Times
    end_ns: Times
    stream: Int64Array
    """Columns of the operations, see `Operations`."""
    type: Int8Array
    """Type of each operation, a value of `KernelType`."""
    name: Int64Array
    """Position in ``names``."""
    names: tuple[str, ...]
    first_ns: int
    """When the first analysed step starts on the main device."""
    steps: Int64Array
    """Numbers of the analysed steps."""
    last: Int64Array
    """Operations that a step may end with: the last computing one of each stream."""
    last_of: Int64Array
    """Position in ``steps`` of the step of each of these, ascending."""
    step: Int64Array
    """Position in ``steps`` of the step that launched each operation, -1 before the first."""


def rank_part(rank: Rank, gaps: HostGaps | None = None) -> RankPart:
    """What a replay needs of one rank; ``gaps`` is its idle time in the steps, if already known."""
    operations, window = Operations(rank), window_of(rank)
    waits = waiting_calls(operations)
    first_ns = operations.start_ns.min(initial=window.end_ns)
    origin_ns = int(first_ns if NO_STEP in window.steps else window.start_ns)
    device = rank.gpu_work.main_device
    edges = np.zeros(1, dtype=np.int64)
    moved = edges[:0]
    if device is not None:
        edges = window.step_edges(rank, device)
        if gaps_of(rank).by_host.any():
            gaps = gaps or rank.remember(host_gaps, device, int(edges[0]), int(edges[-1]))
            moved = touched(rank, gaps)
    line = host_line(operations, waits, origin_ns, rank.trace.events.start_ns[moved])
    last, last_of = _last_operations(operations, window, device)
    codes, name = numbered(operations.name)
    begun = starts(operations, line)
    inside_ns = np.maximum(operations.start_ns - int(edges[0]), 0)  # within the analysed steps
    return RankPart(
        line=line,
        waits=waits,
        starts=begun._replace(unexplained_ns=np.minimum(begun.unexplained_ns, inside_ns)),
        host_work=host_work(operations, line, edges, gaps),
        row=operations.row,
        start_ns=operations.start_ns,
        end_ns=operations.end_ns,
        stream=operations.stream,
        type=operations.type,
        name=name,
        names=tuple(rank.trace.events.name.values[code] for code in codes.tolist()),
        first_ns=int(edges[0]),
        steps=window.steps,
        last=last,
        last_of=last_of,
        step=_step_of(operations, window),
    )


def _step_of(operations: Operations, window: Window) -> Int64Array:
    """Position of the step that launched each operation, or in which it starts."""
    if NO_STEP in window.steps:
        return np.zeros(len(operations), dtype=np.int64)
    asked_ns = np.where(operations.is_launched, operations.launched_ns, operations.start_ns)
    return np.asarray(np.searchsorted(window.step_start_ns, asked_ns, side="right") - 1)


def _last_operations(
    operations: Operations, window: Window, device: int | None
) -> tuple[Int64Array, Int64Array]:
    """The last operation of each stream in a step, of those that may end the step.

    `Window.step_edges` says which may. After a change, another stream may be the last, so one of
    each is needed.
    """
    on_device = np.flatnonzero(operations.device == device)
    step = _step_of(operations, window)[on_device]
    if NO_STEP not in window.steps:
        known = device is not None and has_launches(operations.rank, device)
        kept = (operations.is_launched[on_device] | (not known)) & (step >= 0)
        on_device, step = on_device[kept], step[kept]
        types, ends_ns = operations.type[on_device], operations.end_ns[on_device]
        computes = may_end_step(operations.rank, types, ends_ns, step)
        has_computing = np.bincount(step[computes], minlength=window.steps.size) > 0
        kept = computes | ~has_computing[step]
        on_device, step = on_device[kept], step[kept]
    order = np.lexsort((operations.end_ns[on_device], operations.stream[on_device], step))
    on_device, step = on_device[order], step[order]
    ends_run = np.diff(operations.stream[on_device], append=-1) != 0
    ends_run |= np.diff(step, append=-1) != 0
    return on_device[ends_run], step[ends_run]


_SPARSE: Final = 4
"""An array with at most one nonzero number in this many is kept as these and their places."""


_EXACT: Final = 2.0**53
"""Below this, a float holds every whole number exactly."""


class PackedArray(NamedTuple):
    """An array in the narrowest type that holds its numbers exactly."""

    values: NDArray[Any]
    """All numbers, or those that are not 0."""
    places: NDArray[Any] | None
    """Places of the numbers that are not 0 in the flat array, None if all are kept."""
    dtype: str
    shape: tuple[int, ...]
    """Type and shape before packing."""

    @classmethod
    def of(cls, array: NDArray[Any]) -> PackedArray:
        """Pack an array."""
        values, places = array.ravel(), None
        bits = values.view(f"u{array.itemsize}")  # -0.0 is not 0
        if _SPARSE * np.count_nonzero(bits) <= values.size:
            found = np.flatnonzero(bits)
            values, places = values[found], _narrow(found)
        return cls(_narrow(_whole(values)), places, array.dtype.str, array.shape)

    def unpacked(self) -> NDArray[Any]:
        """The array as it was."""
        if self.places is None:
            return self.values.astype(self.dtype).reshape(self.shape)
        array = np.zeros(int(np.prod(self.shape)), self.dtype)
        array[self.places] = self.values
        return array.reshape(self.shape)


class PackedPart(NamedTuple):
    """A packed `RankPart`: 14 MB instead of 45 for 1.5 M events."""

    part: RankPart
    """The part, with packed arrays in place of its own."""
    has_operations: bool
    """Whether there is any GPU work."""

    @classmethod
    def of(cls, part: RankPart) -> PackedPart:
        """Pack a part."""
        return cls(_packed(part), bool(part.row.size))

    def column(self, name: str) -> Any:  # noqa: ANN401
        """An unpacked array of the part, such as ``"row"`` or ``"starts.gap_ns"``."""
        return _unpacked(attrgetter(name)(self.part))

    @property
    def point_row(self) -> Int64Array:
        """Row of the call at each point, -1 for an origin."""
        wait = self.column("line.wait")
        waiting = np.append(self.column("waits.row"), NONE)[wait]
        return np.asarray(np.where(wait >= 0, waiting, self.column("line.launch_row")))

    def unpacked(self) -> RankPart:
        """The part as it was before packing."""
        found: RankPart = _unpacked(self.part)
        return found


def _packed(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, np.ndarray):
        return PackedArray.of(value)
    return type(value)(*map(_packed, value)) if hasattr(value, "_fields") else value


def _unpacked(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, PackedArray):
        return value.unpacked()
    return type(value)(*map(_unpacked, value)) if hasattr(value, "_fields") else value


def _whole(values: NDArray[Any]) -> NDArray[Any]:
    """Convert floats to integers if these are the same numbers."""
    if values.dtype.kind != "f" or not np.isfinite(values).all():
        return values
    if np.abs(values).max(initial=0.0) >= _EXACT or np.signbit(values[values == 0]).any():
        return values
    whole: Int64Array = values.astype(np.int64)
    return whole if np.array_equal(whole, values) else values


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    return narrowed(values) if values.dtype.kind == "i" else values
