"""The GPU work of one rank that the analyses look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hta_widgets.grouping import Groups, grouped
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.events import Codes
from hta_widgets.trace.kernels import KernelType

NO_DEVICE = -1


@dataclass(frozen=True, eq=False)
class GpuWork:
    """Kernels, copies, fills and graphs after the step filter, ascending by start.

    Attributes
    ----------
    rows : ndarray of int64
        Row of each piece of work in the rank's events table.
    start_ns, duration_ns : ndarray of int64
    type : ndarray of int8
        Values of `KernelType`.
    name : ndarray of int32
        Codes into `names`.
    device, stream : ndarray of int64
    launch : ndarray of int64
        Row of the launching call, -1 when it is not in the trace.
    names : tuple of str
    """

    rows: NDArray[np.int64]
    start_ns: Times
    duration_ns: Times
    type: NDArray[np.int8]
    name: Codes
    device: NDArray[np.int64]
    stream: NDArray[np.int64]
    launch: NDArray[np.int64]
    names: tuple[str, ...]

    def __len__(self) -> int:
        """Number of pieces of work."""
        return int(self.rows.size)

    @cached_property
    def end_ns(self) -> Times:
        """End of each piece in ns since the trace's origin."""
        return self.start_ns + self.duration_ns

    @cached_property
    def devices(self) -> tuple[int, ...]:
        """Devices that did any work."""
        return tuple(self.device[grouped(self.device).first].tolist())

    @cached_property
    def streams(self) -> Groups:
        """The streams, ascending by device and id; work of each ascending by start."""
        return grouped(self.device, self.stream)

    def by_device(self) -> Iterator[tuple[int, GpuWork]]:
        """Yield each device with its own work; `NO_DEVICE` where there is no work at all."""
        if len(self.devices) <= 1:
            yield (*self.devices, NO_DEVICE)[0], self
            return
        for device in self.devices:
            yield device, self.take(np.flatnonzero(self.device == device))

    def take(self, positions: NDArray[np.int64]) -> GpuWork:
        """Keep some of the work."""
        return GpuWork(
            rows=self.rows[positions],
            start_ns=self.start_ns[positions],
            duration_ns=self.duration_ns[positions],
            type=self.type[positions],
            name=self.name[positions],
            device=self.device[positions],
            stream=self.stream[positions],
            launch=self.launch[positions],
            names=self.names,
        )

    @cached_property
    def span_ns(self) -> int:
        """Time from the first start to the last end in ns."""
        return int(self.end_ns.max() - self.start_ns.min()) if len(self) else 0

    @cached_property
    def busy(self) -> Intervals:
        """Time in which any work ran."""
        return Intervals.union(self.start_ns, self.end_ns)

    @cached_property
    def busy_by_type(self) -> dict[KernelType, Intervals]:
        """Time in which work of each type ran."""
        return {each: self._busy(np.flatnonzero(self.type == each)) for each in KernelType}

    def _busy(self, positions: NDArray[np.int64]) -> Intervals:
        return Intervals.union(self.start_ns[positions], self.end_ns[positions])
