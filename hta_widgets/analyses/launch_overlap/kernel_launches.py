"""Launches of kernels, and the kernels of each launch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hta_widgets.grouping import grouped
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.model.events import Events, Kind, Trace
from hta_widgets.trace.model.links import launch_delays_ns
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class KernelLaunches:
    """Calls of one rank that launch kernels or graphs; copies and memsets do not count.

    Attributes
    ----------
    events : Events
    kernels : GpuWork
        All kernels and graphs after the step filter, ascending by start.
    launched : GpuWork
        Those whose launch is in the trace.
    calls : ndarray of int64
        Rows of the launches, ascending by start.
    first_start_ns : ndarray of int64
        Start of the first operation of each launch: of a graph, that may be a copy.
    """

    trace: Trace
    kernels: GpuWork
    launched: GpuWork
    calls: Rows
    first_start_ns: Times

    @classmethod
    def of(cls, rank: Rank) -> KernelLaunches:
        """Find the launches of a rank."""
        events, work = rank.trace.events, rank.gpu_work
        is_kernel = np.isin(events.kind[work.rows], (Kind.KERNEL, Kind.GRAPH))
        kernels = work.take(np.flatnonzero(is_kernel))
        launched = kernels.take(np.flatnonzero(kernels.launch >= 0))
        is_launch = np.zeros(len(events), dtype=bool)
        is_launch[launched.launch] = True
        calls = np.flatnonzero(is_launch)
        return cls(
            trace=rank.trace,
            kernels=kernels,
            launched=launched,
            calls=calls,
            first_start_ns=_first_starts_ns(work, calls),
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
    def events(self) -> Events:
        """Events of the rank."""
        return self.trace.events

    @property
    def delay_ns(self) -> Times:
        """Time from the end of each launch to the start of its first operation, of any sign."""
        call_end_ns = self.events.start_ns[self.calls] + self.events.duration_ns[self.calls]
        return launch_delays_ns(self.first_start_ns, call_end_ns, self.trace.resolution_ns)

    def by_process(self) -> list[Rows]:
        """Positions in `calls` of the launches of each process, ascending."""
        return grouped(self.events.pid[self.calls]).parts

    def by_thread(self) -> list[Rows]:
        """Positions in `calls` of the launches of each thread, by process and thread."""
        return grouped(self.events.pid[self.calls], self.events.tid[self.calls]).parts

    def overlapping(self, own: Rows) -> int:
        """Number of those launches that start before a kernel of an earlier one has ended."""
        reached = np.maximum.accumulate(self.last_end_ns[own])
        return int((reached[:-1] > self.events.start_ns[self.calls[own]][1:]).sum())

    def call_time(self, own: Rows) -> Intervals:
        """Time in which a thread is in one of its launches."""
        rows = self.calls[own]
        return Intervals.union(self.events.start_ns[rows], self.events.end_ns[rows])

    def hidden_ns(self, calls: Intervals) -> int:
        """Time (ns) of these intervals in which any kernel of the rank runs."""
        covered = self.busy.covered_until
        return int((covered(calls.ends) - covered(calls.starts)).sum())


def _first_starts_ns(work: GpuWork, calls: Rows) -> Times:
    """Start of the first operation that each of these calls launches."""
    launched = np.isin(work.launch, calls)
    first_ns = np.full(calls.size, np.iinfo(np.int64).max)
    place = np.searchsorted(calls, work.launch[launched])
    np.minimum.at(first_ns, place, work.start_ns[launched])
    return first_ns
