"""The GPU work of one rank that is analysed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hta_widgets.arrays import Int8Array, Int32Array, Int64Array, IntArray, Mask
from hta_widgets.grouping import Groups, distinct, grouped
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.model.events import Fits, fitting
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.model.questions import read_only

NO_DEVICE = -1
_COLUMNS = ("rows", "start_ns", "duration_ns", "type", "name", "device", "stream", "launch")


@dataclass(frozen=True, eq=False)
class GpuWork:
    """Kernels, copies, memsets and graphs after the step filter, ascending by start."""

    rows: Int64Array
    """Row of each piece of work in the rank's events table."""
    start_ns: Times
    duration_ns: Times
    type: Int8Array
    """Values of `KernelType`."""
    name: Int32Array
    """Positions in `names`."""
    device: IntArray
    stream: IntArray
    launch: Int64Array
    """Row of the launch call, -1 if it is not in the trace."""
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Make the arrays that all analyses share read-only."""
        for name in _COLUMNS:
            read_only(getattr(self, name))

    def __len__(self) -> int:
        """Number of pieces of work."""
        return int(self.rows.size)

    @cached_property
    def end_ns(self) -> Times:
        """End of each piece in ns since the trace's origin."""
        return read_only(self.start_ns + self.duration_ns)

    @cached_property
    def devices(self) -> tuple[int, ...]:
        """Devices that did any work, ascending."""
        return tuple(dict.fromkeys(self.device[self.streams.first].tolist()))

    @cached_property
    def main_device(self) -> int | None:
        """Device with most of the work; None without any work."""
        parts = self.by_device()
        return max(self.devices, key=lambda device: len(parts[device]), default=None)

    @cached_property
    def _names_in_use(self) -> list[int]:
        used: list[int] = distinct(self.name).tolist()
        return used

    @property
    def names_in_use(self) -> tuple[str, ...]:
        """The names that occur."""
        return tuple(self.names[code] for code in self._names_in_use)

    def named(self, fits: Fits) -> Mask:
        """Mask of the pieces of work whose name fits; each name is tested once."""
        return fitting(fits, self.names, self._names_in_use)[self.name]

    @cached_property
    def streams(self) -> Groups:
        """The streams, ascending by device and id, each with its work ascending by start."""
        return read_only(grouped(self.device, self.stream))

    def by_device(self) -> dict[int, GpuWork]:
        """Work of each device, ascending; `NO_DEVICE` if there is no work at all."""
        return self._parts if len(self.devices) > 1 else {(*self.devices, NO_DEVICE)[0]: self}

    @cached_property
    def _parts(self) -> dict[int, GpuWork]:
        return {each: self.take(np.flatnonzero(self.device == each)) for each in self.devices}

    def take(self, positions: Int64Array) -> GpuWork:
        """Keep some of the work."""
        columns: dict[str, Any] = {name: getattr(self, name)[positions] for name in _COLUMNS}
        return GpuWork(**columns, names=self.names)

    def timed(self, start_ns: Times, duration_ns: Times) -> GpuWork:
        """The same work at other times."""
        return replace(self, start_ns=start_ns, duration_ns=duration_ns)

    @staticmethod
    def joined(parts: Iterable[GpuWork]) -> GpuWork:
        """All work of one or several parts of the same rank, ascending by start."""
        first, *others = parts
        some = [part for part in (first, *others) if len(part)] or [first]
        if len(some) == 1:
            return some[0]
        order = np.argsort(np.concatenate([part.start_ns for part in some]), kind="stable")
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in some])[order] for name in _COLUMNS
        }
        return GpuWork(**columns, names=first.names)

    @cached_property
    def span_ns(self) -> int:
        """Time from the first start to the last end in ns."""
        return int(self.end_ns.max() - self.start_ns.min()) if len(self) else 0

    @cached_property
    def busy(self) -> Intervals:
        """Time in which any work ran."""
        return read_only(Intervals.union(self.start_ns, self.end_ns))

    @cached_property
    def busy_by_type(self) -> dict[KernelType, Intervals]:
        """Time in which work of each type ran."""
        return {each: self._covered(each) for each in KernelType}

    def _covered(self, kernel_type: KernelType) -> Intervals:
        chosen = np.flatnonzero(self.type == kernel_type)
        return read_only(Intervals.union(self.start_ns[chosen], self.end_ns[chosen]))
