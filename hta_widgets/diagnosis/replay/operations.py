"""The GPU operations of one rank, in the order of their streams, and when each was launched."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final

import numpy as np

from hta_widgets.analyses.budget.device_steps import HANDED_OVER_NS
from hta_widgets.analyses.budget.idle_gaps import OF_NO_DATA, STRETCH_NS, last_part_ns
from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.causes import LAUNCH_NS
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.grouping import are_among, grouped
from hta_widgets.intervals import Times
from hta_widgets.trace.ranks.rank import Rank

Skipped = Callable[[Int64Array, Int64Array], Mask]

NONE: Final = -1
NEVER: Final = np.iinfo(np.int64).min // 2

ROUNDING_NS: Final = 1_000
"""How far times of one clock may contradict each other, in addition to twice its resolution."""


class Operations:
    """Kernels, copies, memsets and graphs of a rank, stream by stream, each ordered by start."""

    def __init__(self, rank: Rank) -> None:
        work, starts = rank.gpu_work, rank.trace.events.start_ns
        streams = grouped(work.device, work.stream)
        order = streams.order
        self.rank = rank
        self.row = work.rows[order]
        """Row of each operation in the events of the rank."""
        self.start_ns, self.end_ns = work.start_ns[order], work.end_ns[order]
        self.stream = np.repeat(np.arange(streams.sizes.size), streams.sizes)
        """Number of the stream, from 0."""
        self.device = work.device[order]
        self.type = work.type[order]
        self.name = work.name[order]
        self.call = work.launch[order]
        """Row of the call that launched each, -1 if not recorded."""
        self.launched_ns = np.where(self.call >= 0, starts[self.call], NEVER)
        """Start of this call, `NEVER` if not recorded. A call of more than 1 ms whose kernel starts
        at its end loads the kernel's code first (6.5 of 9.2 ms of a step on an MI250), so it counts
        as launching 15 µs before its end. What `is_handed_over`, and what its graph runs after it,
        counts as launched 15 µs before the start of the former."""
        self._wait_for_long_launches()
        self.before = np.arange(order.size) - 1
        """The previous operation on the same stream, -1 for the first."""
        self.before[streams.edges[:-1]] = NONE
        self._edges = streams.edges
        self._hand_over()

    def _wait_for_long_launches(self) -> None:
        events = self.rank.trace.events
        end_ns = self.launched_ns + events.duration_ns[self.call]
        alone = np.bincount(self.call + 1, minlength=events.start_ns.size + 1) == 1
        loads = (self.call >= 0) & (end_ns - self.launched_ns > STRETCH_NS)
        loads &= np.isin(events.kind[self.row], OF_NO_DATA) & alone[self.call + 1]
        loads &= self.start_ns >= end_ns - last_part_ns(end_ns - self.launched_ns)
        later = np.flatnonzero(loads & (self.start_ns > end_ns + LAUNCH_NS))
        if later.size:
            idle_ns = end_ns[later] - self._busy_until(self.start_ns[later])
            loads[later] = idle_ns > STRETCH_NS
        handed_ns = np.minimum(end_ns, self.start_ns) - LAUNCH_NS
        self.launched_ns[loads] = handed_ns[loads]
        self._wait_for_long_graphs()

    def _busy_until(self, at_ns: Times) -> Times:
        """Time until which the GPU is busy with what starts before each time."""
        order = np.argsort(self.start_ns, kind="stable")
        reached = np.maximum.accumulate(self.end_ns[order])
        before = np.searchsorted(self.start_ns[order], at_ns) - 1
        return np.append(reached, NEVER)[before]

    def _wait_for_long_graphs(self) -> None:
        """Take a graph with a long launch as launched when it starts, if its GPU was idle."""
        events = self.rank.trace.events
        is_graph = events.named(self.call, patterns.GRAPH_LAUNCH) & (self.call >= 0)
        graph = np.flatnonzero(is_graph)
        if not graph.size:
            return
        calls, which = np.unique(self.call[graph], return_inverse=True)
        begins = np.full(calls.size, np.iinfo(np.int64).max)
        np.minimum.at(begins, which, self.start_ns[graph])
        called_ns = events.start_ns[calls]
        is_idle = self._busy_until(begins) <= called_ns
        is_long = (begins - called_ns > STRETCH_NS) & (begins <= events.ends_of(calls) + LAUNCH_NS)
        handed_ns = np.where(is_idle & is_long, begins - LAUNCH_NS, called_ns)
        self.launched_ns[graph] = handed_ns[which]

    def _hand_over(self) -> None:
        """Take the parts of a graph as launched when they are handed over."""
        own = np.flatnonzero(are_among(self.call, self.call[self.is_handed_over]))
        own = own[np.lexsort((self.start_ns[own], self.call[own]))]
        begins = self.is_handed_over[own] | (np.diff(self.call[own], prepend=NONE) != 0)
        part = own[np.maximum.accumulate(np.where(begins, np.arange(own.size), 0))]
        handed = self.is_handed_over[part]
        handed_ns = self.start_ns[part[handed]] - LAUNCH_NS
        later_ns = np.maximum(self.launched_ns[own[handed]], handed_ns)  # clocks may be apart
        self.launched_ns[own[handed]] = later_ns

    @cached_property
    def is_handed_over(self) -> Mask:
        """Work of graphs that an idle GPU waits for while the launch call still hands it over."""
        events, found = self.rank.trace.events, np.zeros(len(self), dtype=np.bool_)
        inside = events.named(self.call, patterns.GRAPH_LAUNCH) & ~self.starts_call
        inside &= self.is_launched & (self.start_ns < np.append(events.end_ns, 0)[self.call])
        for device in np.unique(self.device[inside]).tolist():
            own = np.flatnonzero(self.device == device)
            own = own[np.argsort(self.start_ns[own], kind="stable")]
            reached = np.maximum.accumulate(np.append(NEVER, self.end_ns[own]))[:-1]
            found[own] = self.start_ns[own] - reached > HANDED_OVER_NS
        return np.asarray(found & inside)

    def __len__(self) -> int:
        """Number of operations."""
        return int(self.row.size)

    @property
    def streams(self) -> int:
        """Number of streams."""
        return int(self._edges.size - 1)

    @cached_property
    def slack_ns(self) -> int:
        """How far recorded times may contradict each other."""
        return ROUNDING_NS + 2 * self.rank.trace.resolution_ns

    @cached_property
    def is_launched(self) -> Mask:
        """Whether the call that launched each is recorded."""
        return self.call >= 0

    @cached_property
    def starts_call(self) -> Mask:
        """Whether each operation is the first to start of those that its call launched.

        The others of a graph start when those before them are done.
        """
        first_ns = np.full(self.rank.trace.events.start_ns.size, np.iinfo(np.int64).max)
        launched = np.flatnonzero(self.is_launched)
        np.minimum.at(first_ns, self.call[launched], self.start_ns[launched])
        return np.asarray(self.is_launched & (self.start_ns == first_ns[self.call]))

    @cached_property
    def gap_ns(self) -> Times:
        """Time from the end of the previous operation on the stream to the start of each."""
        return self.start_ns - self.end_ns[self.before]

    @cached_property
    def asked_ns(self) -> Times:
        """When each was launched; if that is not recorded, when the one before it was.

        What runs on a stream before its first operation with a recorded launch was launched before
        the recording.
        """
        known = np.where(self.is_launched, np.arange(len(self)), NONE)
        known = np.maximum.accumulate(known)
        is_of_stream = known >= self._edges[self.stream]
        return np.where(is_of_stream, self.launched_ns[known], NEVER)

    @cached_property
    def _by_launch(self) -> list[tuple[Times, Int64Array]]:
        """For each stream: launch times, ascending, and the last operation launched by then."""
        found = []
        for first, last in zip(self._edges[:-1].tolist(), self._edges[1:].tolist(), strict=True):
            order = first + np.argsort(self.asked_ns[first:last], kind="stable")
            found.append((self.asked_ns[order], np.maximum.accumulate(order)))
        return found

    def last_launched(self, stream: int, before_ns: Times) -> Int64Array:
        """Last operation of a stream that was launched before each time, -1 for none."""
        times, last = self._by_launch[stream]
        return np.append(last, NONE)[np.searchsorted(times, before_ns, side="left") - 1]

    def first_launched(self, stream: int, from_ns: Times) -> Int64Array:
        """First operation of a stream that is launched from each time on, -1 for none."""
        own = np.flatnonzero(self.is_launched & (self.stream == stream))
        own = own[np.argsort(self.launched_ns[own], kind="stable")]
        return np.append(own, NONE)[np.searchsorted(self.launched_ns[own], from_ns, side="left")]

    def last_of_all(self, before_ns: Times) -> Int64Array:
        """Last operation of any stream that was launched before each time, -1 for none."""
        order = np.lexsort((self.start_ns, self.asked_ns))
        at = np.searchsorted(self.asked_ns[order], before_ns, side="left")
        return np.append(order, NONE)[at - 1]

    @cached_property
    def by_end(self) -> Int64Array:
        """All operations, ordered by end."""
        return np.argsort(self.end_ns, kind="stable")

    def latest_ended(self, from_ns: Times, until_ns: Times, skipped: Skipped) -> Int64Array:
        """Operation that ended latest between two times, both included, -1 for none.

        ``skipped`` takes positions of questions and their candidates, and rejects some pairs.
        """
        order, ends = self.by_end, self.end_ns[self.by_end]
        found = np.full(from_ns.size, NONE)
        place = np.searchsorted(ends, until_ns, side="right") - 1
        asked = np.arange(from_ns.size)
        while asked.size:
            inside = (place[asked] >= 0) & (ends[place[asked]] >= from_ns[asked])
            asked = asked[inside]
            candidate = order[place[asked]]
            again = skipped(asked, candidate)
            found[asked[~again]] = candidate[~again]
            asked = asked[again]
            place[asked] -= 1
        return found
