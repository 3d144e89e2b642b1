"""Allocations and frees of one rank as recorded, device by device."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hta_widgets.arrays import Int64Array, IntArray, Mask, narrowed
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Times
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.rank import Rank

NOT_RECORDED: Final = -1
CPU: Final = -1
"""Device of the CPU's memory."""

MOST_BYTES: Final = 2**50
"""More than any device has. Sums of larger sizes would not fit in 64 bits."""

_SIZES: Final = ("bytes", "total_allocated", "total_reserved")

_TYPES: Final = {0: "CPU", 1: "CUDA", 6: "HIP"}


class DeviceMemory(NamedTuple):
    """Allocations and frees of one device by time."""

    device_type: int
    device: int
    """Type and number of the device in the profiler."""
    time_ns: Times
    """Time since the trace's origin."""
    pid: IntArray
    tid: IntArray
    bytes: Int64Array
    """Size, negative for a free."""
    address: Int64Array
    """Address of the block, `NOT_RECORDED` in traces of 2021."""
    allocated: Int64Array
    """Allocated from then on; without totals, relative to the lowest point of the recording."""
    reserved: Int64Array
    """Reserved by the allocator from then on, `NOT_RECORDED` without totals."""
    segment: IntArray
    """Number that increases where an event does not continue the previous total."""
    has_totals: bool
    """Whether totals are recorded."""

    @property
    def type_name(self) -> str:
        """The type in words."""
        return _TYPES.get(self.device_type, f"type {self.device_type}")

    @property
    def is_of_cpu(self) -> bool:
        """Whether this is memory of the CPU, not of a GPU."""
        return self.device_type == 0

    @property
    def breaks(self) -> int:
        """Number of events that do not continue the previous total."""
        return int(self.segment[-1])


class RecordedMemory(NamedTuple):
    """Memory events of a rank."""

    devices: tuple[DeviceMemory, ...]
    """Memory of each device, ascending by type and number."""
    impossible: int
    """Number of events with sizes that no device has, which are left out."""
    notices: tuple[Notice, ...]
    """Why events cannot be read."""


@asked_once
def read_memory(rank: Rank) -> RecordedMemory:
    """Memory events of a rank; their columns (22 MB for 0.3 M events) are made once."""
    details = rank.details(DetailGroup.MEMORY)
    columns = {name: np.asarray(column) for name, column in details.table.columns.items()}
    possible = _is_possible(columns)
    rows = np.flatnonzero(possible)
    devices = []
    if rows.size:
        groups = grouped(columns["device_type"][rows], columns["device"][rows])
        devices = [
            _device({name: column[rows[part]] for name, column in columns.items()})
            for part in groups.parts
        ]
    return RecordedMemory((*devices,), possible.size - rows.size, details.notices)


def recorded_memory(rank: Rank) -> tuple[DeviceMemory, ...]:
    """Memory of each device of a rank, ascending by type and number."""
    return read_memory(rank).devices


def _is_possible(columns: dict[str, Int64Array]) -> Mask:
    if not columns:
        return np.zeros(0, dtype=np.bool_)
    sizes = [columns[name] for name in _SIZES]
    possible = [(each >= -MOST_BYTES) & (each <= MOST_BYTES) for each in sizes]
    return np.asarray(np.logical_and.reduce(possible))


def _device(columns: dict[str, Int64Array]) -> DeviceMemory:
    size, total = columns["bytes"], columns["total_allocated"]
    has_totals = bool((total >= 0).all())
    if has_totals:
        breaks = np.append(False, total[1:] - size[1:] != total[:-1])
        allocated, reserved = total, columns["total_reserved"]
    else:
        breaks = np.zeros(size.size, dtype=np.bool_)
        running = np.cumsum(size)
        allocated = running - min(0, int(running.min()))
        reserved = np.full(size.size, NOT_RECORDED, dtype=np.int64)
    return DeviceMemory(
        device_type=int(columns["device_type"][0]),
        device=int(columns["device"][0]),
        time_ns=columns["time_ns"],
        pid=narrowed(columns["pid"]),
        tid=narrowed(columns["tid"]),
        bytes=size,
        address=columns["address"],
        allocated=allocated,
        reserved=reserved,
        segment=narrowed(np.cumsum(breaks)),
        has_totals=has_totals,
    )
