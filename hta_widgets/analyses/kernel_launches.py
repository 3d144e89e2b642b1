"""Launches of kernels, and the kernels that each launches."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.events import Events, Kind
from hta_widgets.trace.gpu_work import GpuWork
from hta_widgets.trace.job import Rank

Rows = NDArray[np.int64]

_VARIANT = re.compile(r"(_ptsz|_ptds)?(_v\d{4,})?$")


def api_name(call: str) -> str:
    """Name of a call without the variant and version that some profilers write behind it.

    Examples
    --------
    >>> api_name("cudaLaunchKernelExC_v11060"), api_name("cuLaunchKernel_ptsz")
    ('cudaLaunchKernelExC', 'cuLaunchKernel')
    >>> api_name("cuMemcpyHtoD_v2")
    'cuMemcpyHtoD_v2'
    """
    return _VARIANT.sub("", call) or call


@dataclass(frozen=True, eq=False)
class KernelLaunches:
    """Calls of one rank that launch kernels or graphs; copies and fills do not count.

    Attributes
    ----------
    events : Events
    kernels : GpuWork
        All kernels and graphs after the step filter, ascending by start.
    launched : GpuWork
        Those whose launch is in the trace.
    calls : ndarray of int64
        Rows of the launches, ascending by start.
    resolution_ns : int
        Step of the clock with which the trace was written.
    """

    events: Events
    kernels: GpuWork
    launched: GpuWork
    calls: Rows
    resolution_ns: int

    @classmethod
    def of(cls, rank: Rank) -> KernelLaunches:
        """Find the launches of a rank."""
        events, work = rank.trace.events, rank.gpu_work
        is_kernel = np.isin(events.kind[work.rows], (Kind.KERNEL, Kind.GRAPH))
        kernels = work.take(np.flatnonzero(is_kernel))
        launched = kernels.take(np.flatnonzero(kernels.launch >= 0))
        is_launch = np.zeros(len(events), dtype=bool)
        is_launch[launched.launch] = True
        resolution = rank.trace.metadata.get("resolution_ns")
        return cls(
            events=events,
            kernels=kernels,
            launched=launched,
            calls=np.flatnonzero(is_launch),
            resolution_ns=resolution if isinstance(resolution, int) else 0,
        )

    @cached_property
    def busy(self) -> Intervals:
        """Time in which any kernel of the rank runs."""
        return Intervals.union(self.kernels.start_ns, self.kernels.end_ns)

    @cached_property
    def last_end_ns(self) -> Times:
        """End of the last kernel of each launch."""
        ends = np.full(self.calls.size, np.iinfo(np.int64).min)
        np.maximum.at(ends, np.searchsorted(self.calls, self.launched.launch), self.launched.end_ns)
        return ends

    @property
    def delay_ns(self) -> Times:
        """Time from the end of the launch to the start of each launched kernel.

        Negative where it starts before the launch returns; 0 where both times, each true to a step
        of the clock, are too close to tell.
        """
        delay = self.launched.start_ns - self.events.end_ns[self.launched.launch]
        return np.where(np.abs(delay) <= 2 * self.resolution_ns, 0, delay)

    def by_process(self) -> list[Rows]:
        """Positions in `calls` of the launches of each process, ascending."""
        return self._grouped(self.events.pid[self.calls])

    def by_thread(self) -> list[Rows]:
        """Positions in `calls` of the launches of each thread, by process and thread."""
        return self._grouped(self.events.pid[self.calls], self.events.tid[self.calls])

    def _grouped(self, *keys: Rows) -> list[Rows]:
        order = np.lexsort(keys[::-1])
        changes = np.any([np.diff(key[order]) for key in keys], axis=0)
        return np.split(order, np.flatnonzero(changes) + 1) if order.size else []

    def overlapping(self, own: Rows) -> int:
        """Number of some launches made while a kernel of an earlier one of them still runs."""
        reached = np.maximum.accumulate(self.last_end_ns[own])
        return int((reached[:-1] > self.events.start_ns[self.calls[own]][1:]).sum())

    def call_time(self, own: Rows) -> Intervals:
        """Time in which a thread is in one of its launches."""
        rows = self.calls[own]
        return Intervals.union(self.events.start_ns[rows], self.events.end_ns[rows])

    def hidden_ns(self, calls: Intervals) -> int:
        """How much of some time any kernel of the rank runs."""
        covered = self.busy.covered_until
        return int((covered(calls.ends) - covered(calls.starts)).sum())
