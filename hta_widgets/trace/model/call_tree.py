"""The calls of the CPU as a forest in which everything inside a call is one run of places."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hta_widgets.trace.model.events import Events, Kind
from hta_widgets.trace.model.nesting import NO_PARENT, calls_outside_in

BACKWARD_CALL = "autograd::engine::"
BACKWARD_RANGES = ("## backward ##", "ProfilerStep")
"""Annotations of the thread that waits for the backward pass."""

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CallTree:
    """Calls in an order in which each comes before those inside it, and these are contiguous.

    The backward pass runs on a thread of its own while the thread that started it waits: its
    outermost calls stand inside the annotation ``## backward ##``, or else ``ProfilerStep#n``, in
    which they begin.

    Attributes
    ----------
    rows : ndarray of int64
        Row of the call at each place.
    ends : ndarray of int64
        ``rows[place:ends[place]]`` are the call at a place and all calls inside it.
    place : ndarray of int64
        Place of each event of the trace, -1 for those that are no call of the CPU.
    """

    rows: Rows
    ends: Rows
    place: Rows

    @classmethod
    def of(cls, events: Events, parents: NDArray[np.int32]) -> CallTree:
        """Build the tree from the parent of each call (see `nesting.parent_rows`)."""
        rows = calls_outside_in(events)
        tree = cls._from_order(rows, parents)
        calls, ranges = _backward_calls(events, rows, parents)
        if not calls.size:
            return tree
        parents = parents.copy()
        parents[calls] = ranges
        return cls._from_order(tree.with_moved(calls, ranges), parents)

    @classmethod
    def _from_order(cls, rows: Rows, parents: NDArray[np.int32]) -> CallTree:
        place = np.full(parents.size, NO_PARENT, dtype=np.int64)
        place[rows] = np.arange(rows.size)
        above = parents[rows]
        return cls(rows, _ends(np.where(above >= 0, place[above], NO_PARENT)), place)

    def with_moved(self, calls: Rows, into: Rows) -> Rows:
        """Order in which some outermost calls stand at the end of the calls that they move into."""
        start, around = self.place[calls], self.place[into]
        sizes = self.ends[start] - start
        inside = np.repeat(start - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        places = np.arange(self.rows.size)
        target, stays, depth = places.copy(), np.ones_like(places), np.zeros_like(places)
        target[inside], stays[inside] = np.repeat(self.ends[around], sizes), 0
        depth[inside] = np.repeat(-around, sizes)
        return np.asarray(self.rows[np.lexsort((places, depth, stays, target))])

    def outermost(self, places: Rows) -> NDArray[np.bool_]:
        """Tell which of some calls, given by ascending places, are not inside another of them."""
        reached = np.maximum.accumulate(self.ends[places])
        before = np.concatenate([[0], reached[:-1]]) if places.size else reached
        return np.asarray(places >= before)


def _ends(parents: Rows) -> Rows:
    """Place after the last call inside each call, from the places of the parents."""
    count = parents.size
    children = np.argsort(parents, kind="stable")
    has_next = parents[children[:-1]] == parents[children[1:]]
    ends = np.full(count, count, dtype=np.int64)
    ends[children[:-1][has_next]] = children[1:][has_next]
    is_last = np.ones(count, dtype=bool)
    is_last[children[:-1][has_next]] = False
    ends_with = np.where(is_last & (parents >= 0), parents, np.arange(count))
    while not np.array_equal(further := ends_with[ends_with], ends_with):
        ends_with = further
    return np.asarray(ends[ends_with])


def _backward_calls(events: Events, rows: Rows, parents: NDArray[np.int32]) -> tuple[Rows, Rows]:
    """Outermost calls of backward threads, and the annotation in which each begins."""
    outermost = np.sort(rows[parents[rows] < 0])
    begins_backward = _begins(events, outermost, BACKWARD_CALL)
    annotations = events.rows_of(Kind.ANNOTATION)
    candidates = [annotations[_begins(events, annotations, name)] for name in BACKWARD_RANGES]
    threads = {
        (events.pid[row], events.tid[row]) for row in outermost[begins_backward].tolist()
    } - {(events.pid[row], events.tid[row]) for each in candidates for row in each.tolist()}
    calls = _on_threads(events, outermost, threads)
    around = np.full(calls.size, NO_PARENT, dtype=np.int64)
    for each in candidates:
        unset = np.flatnonzero(around < 0)
        around[unset] = _in_which_they_begin(events, calls[unset], each)
    return calls[around >= 0], around[around >= 0]


def _begins(events: Events, rows: Rows, prefix: str) -> NDArray[np.bool_]:
    wanted = np.array([name.startswith(prefix) for name in events.name.values], dtype=bool)
    return np.asarray(wanted[events.name.codes[rows]])


def _on_threads(events: Events, rows: Rows, threads: set[tuple[np.int64, np.int64]]) -> Rows:
    wanted = np.zeros(rows.size, dtype=bool)
    for pid, tid in threads:
        wanted |= (events.pid[rows] == pid) & (events.tid[rows] == tid)
    return np.asarray(rows[wanted])


def _in_which_they_begin(events: Events, calls: Rows, ranges: Rows) -> Rows:
    """Range of the same process that has begun last before each call and still runs, else -1."""
    if not ranges.size:
        return np.full_like(calls, NO_PARENT)
    starts = events.start_ns[calls]
    around = ranges[np.maximum(np.searchsorted(events.start_ns[ranges], starts, "right") - 1, 0)]
    runs = (events.start_ns[around] <= starts) & (starts < events.end_ns[around])
    return np.where(runs & (events.pid[around] == events.pid[calls]), around, NO_PARENT)
