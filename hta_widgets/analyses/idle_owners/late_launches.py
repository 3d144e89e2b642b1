"""Which idle intervals of a device a host that is late decides, and from when until when."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np

from hta_widgets.analyses.idle_owners.gaps import TAIL, Gaps, recorded_work, work_after
from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.causes import LAUNCH_NS, NO_CALL
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.grouping import distinct
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import GPU_WORK, Kind
from hta_widgets.trace.ranks.rank import Rank

SHORTEST_GAP_NS: Final = 1_000
"""Shorter intervals are the cost of starting kernels, whatever the host does."""

STRETCH_NS: Final = 1_000_000
"""From then on, a host that launches nothing does something else than launching slowly."""


class LateLaunches:
    """The launch of what comes after each idle interval; right for those of one device."""

    def __init__(self, rank: Rank, device: int, gaps: Gaps) -> None:
        self.rank, self.device, self.gaps = rank, device, gaps
        events, launch = rank.trace.events, gaps.launch
        known = launch != NO_CALL
        self.launch_ns: Times = np.where(known, events.start_ns[launch], 0)
        self.launch_end_ns: Times = self.launch_ns + np.where(known, events.duration_ns[launch], 0)
        self.decided: Mask = known & ~gaps.inside_graph & (gaps.part != TAIL)
        self.decided &= gaps.end_ns - gaps.start_ns > SHORTEST_GAP_NS
        self.is_late: Mask = self.decided & (self.launch_ns > gaps.start_ns)

    @property
    def moments_ns(self) -> tuple[Times, Times, Times]:
        """Times of each interval at which what the host does changes: see `device_steps`."""
        return self.stretch_ns, self.launch_ns, self.reach_ns

    @cached_property
    def launches_long(self) -> Mask:
        """Intervals that begin before a long launch call and last to its end, before a kernel.

        A graph begins while its launch still hands over nodes: that of 4,568 took 5.7 to 9.2 ms on
        eight H200, and their kernels began after 3.6 to 9.1 ms.
        """
        is_kernel = np.append(self.rank.trace.events.kind, -1)[self.next_row] == Kind.KERNEL
        is_long = self.launch_end_ns - self.launch_ns > STRETCH_NS
        of_graph = self.starts_graph & (self.gaps.end_ns - self.launch_ns > STRETCH_NS)
        is_long &= of_graph | (self.gaps.end_ns > self.launch_end_ns - LAUNCH_NS)
        return np.asarray(self.is_late & is_kernel & is_long)

    @cached_property
    def reach_ns(self) -> Times:
        """Until when the host decides: the usual latency of a launch, or the end of a long one."""
        usual_ns = self.launch_ns + LAUNCH_NS
        return np.asarray(np.where(self.launches_long, self.launch_end_ns, usual_ns))

    @cached_property
    def stretch_ns(self) -> Times:
        """End of the last call that launches work before each interval's own, but not outside."""
        events, launches = self.rank.trace.events, self.rank.launches
        rows = distinct(launches[events.rows_of(*GPU_WORK)])
        rows = rows[rows >= 0]
        rows = rows[np.argsort(events.start_ns[rows], kind="stable")]
        before = np.searchsorted(events.start_ns[rows], self.launch_ns, side="left")
        reached = np.maximum.accumulate(events.start_ns[rows] + events.duration_ns[rows])
        last_ns = np.append(reached, self.gaps.start_ns.min(initial=0))[before - 1]
        last_ns = np.where(before > 0, last_ns, self.gaps.start_ns)
        return np.asarray(np.minimum(np.maximum(last_ns, self.gaps.start_ns), self.launch_ns))

    @cached_property
    def next_row(self) -> Int64Array:
        """Row of the work after each interval."""
        return work_after(self.rank, recorded_work(self.rank, self.device), self.gaps.end_ns)

    @cached_property
    def starts_graph(self) -> Mask:
        """Whether a graph follows: what it does next depends on what the last one returned."""
        is_graph = self.rank.trace.events.named(self.gaps.launch, patterns.GRAPH_LAUNCH)
        return np.asarray(is_graph & (self.gaps.launch != NO_CALL))
