"""The CPU calls as a forest in preorder, so that every subtree is one slice.

::

    a |---------------------------|      position   0  1  2  3  4
    b   |-----------|                    call       a  b  c  d  e
    c      |---|                         ends       4  3  3  4  5
    d                   |-----|
    e                               |--|

``ends`` is the position after the subtree: everything inside ``a`` is at positions 1 to 3.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from hta_widgets.arrays import Int32Array, Int64Array, Mask
from hta_widgets.trace.model.events import Events, Kind
from hta_widgets.trace.model.nesting import NO_PARENT, calls_in_preorder, places_of

_BACKWARD_CALL = re.compile("^autograd::engine::")
_BACKWARD_RANGES = (re.compile("^## backward ##"), re.compile("^ProfilerStep"))
"""Annotations on the thread that waits for the backward pass."""


@dataclass(frozen=True, eq=False)
class CallTree:
    """CPU calls in preorder: each call comes before the calls inside it, which are contiguous.

    The backward pass runs on a separate thread while the thread that started it waits. So its
    outermost calls count as inside the annotation in which they start: ``## backward ##``, or else
    ``ProfilerStep#n``.
    """

    rows: Int32Array
    """Row of the call at each position."""
    ends: Int32Array
    """``rows[position:ends[position]]`` are the call at a position and all calls inside it."""
    events: int
    """Number of events of the trace."""

    @classmethod
    def of(cls, events: Events, parents: Int32Array) -> CallTree:
        """Build the tree from the parent of each call (see `nesting.parent_rows`)."""
        rows = calls_in_preorder(events).astype(np.int32)
        calls, ranges = _backward_calls(events, rows, parents)
        if calls.size:
            rows = cls._from_order(rows, parents).rows_with_moved(calls, ranges)
            parents = parents.copy()
            parents[calls] = ranges
        return cls._from_order(rows, parents)

    @classmethod
    def _from_order(cls, rows: Int32Array, parents: Int32Array) -> CallTree:
        place = places_of(rows, parents.size + 1)  # one more for -1, which indexes the last
        return cls(rows, _subtree_ends(place[parents[rows]]), parents.size)

    def place_of_row(self) -> Int32Array:
        """Position of each event of the trace, -1 for events that are not CPU calls."""
        return places_of(self.rows, self.events)

    def rows_with_moved(self, calls: Int64Array, into: Int64Array) -> Int32Array:
        """Rows in preorder after moving outermost calls and their subtrees to the end of others."""
        place = self.place_of_row()
        start, around = place[calls], place[into]
        sizes = self.ends[start] - start
        inside = np.repeat(start - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        positions = np.arange(self.rows.size, dtype=np.int32)
        target, stays, depth = (
            positions.copy(),
            np.ones_like(positions, np.bool_),
            np.zeros_like(positions),
        )
        target[inside], stays[inside] = np.repeat(self.ends[around], sizes), 0
        depth[inside] = np.repeat(-around, sizes)
        return np.asarray(self.rows[np.lexsort((positions, depth, stays, target))])

    def outermost(self, positions: Int64Array) -> Mask:
        """Mask of the calls (positions, ascending) that are not nested in another of them."""
        reached = np.maximum.accumulate(self.ends[positions])
        before = np.concatenate([[0], reached[:-1]]) if positions.size else reached
        return np.asarray(positions >= before)


def _subtree_ends(parents: Int32Array) -> Int32Array:
    """Position after each subtree, from the positions of the parents.

    A subtree ends where the next sibling starts. A last child ends with its parent, so its end is
    that of the first ancestor with a next sibling, which pointer jumping finds
    (https://en.wikipedia.org/wiki/Pointer_jumping). The last root ends at the end.
    """
    count = parents.size
    children = np.argsort(parents, kind="stable")
    has_next = parents[children[:-1]] == parents[children[1:]]
    ends = np.full(count, count, dtype=np.int32)
    ends[children[:-1][has_next]] = children[1:][has_next]
    is_last = np.ones(count, dtype=bool)
    is_last[children[:-1][has_next]] = False
    ends_with = np.where(is_last & (parents >= 0), parents, np.arange(count, dtype=np.int32))
    while not np.array_equal(further := ends_with[ends_with], ends_with):
        ends_with = further
    return np.asarray(ends[ends_with])


def _backward_calls(
    events: Events, rows: Int32Array, parents: Int32Array
) -> tuple[Int64Array, Int64Array]:
    """Outermost calls of backward threads, and the annotation in which each starts."""
    outermost = np.sort(rows[parents[rows] < 0].astype(np.int64))
    begins_backward = events.named(outermost, _BACKWARD_CALL)
    annotations = events.rows_of(Kind.ANNOTATION)
    candidates = [annotations[events.named(annotations, name)] for name in _BACKWARD_RANGES]
    threads = {
        (events.pid[row], events.tid[row]) for row in outermost[begins_backward].tolist()
    } - {(events.pid[row], events.tid[row]) for each in candidates for row in each.tolist()}
    calls = _on_threads(events, outermost, threads)
    around = np.full(calls.size, NO_PARENT, dtype=np.int64)
    for each in candidates:
        unset = np.flatnonzero(around < 0)
        around[unset] = _enclosing_ranges(events, calls[unset], each)
    return calls[around >= 0], around[around >= 0]


def _on_threads(
    events: Events, rows: Int64Array, threads: set[tuple[np.int64, np.int64]]
) -> Int64Array:
    on_threads = np.zeros(rows.size, dtype=bool)
    for pid, tid in threads:
        on_threads |= (events.pid[rows] == pid) & (events.tid[rows] == tid)
    return np.asarray(rows[on_threads])


def _enclosing_ranges(events: Events, calls: Int64Array, ranges: Int64Array) -> Int64Array:
    """Latest range of the same process that is running when each call starts, or -1."""
    if not ranges.size:
        return np.full_like(calls, NO_PARENT)
    starts = events.start_ns[calls]
    around = ranges[np.maximum(np.searchsorted(events.start_ns[ranges], starts, "right") - 1, 0)]
    runs = (events.start_ns[around] <= starts) & (starts < events.end_ns[around])
    return np.where(runs & (events.pid[around] == events.pid[calls]), around, NO_PARENT)
