"""The CPU calls as a properly nested forest: no call ends after the call around it.

Recorded calls do not nest exactly. Times are rounded, asynchronous ranges outlive their callers,
and with stacks a ``record_function`` range starts inside one frame and ends inside another::

    frame     __enter__ |-----|                   __exit__ |----|
    range            record |-----------------------------------|
    operator                      aten::mm |--|

For `nesting.parent_rows`, the range, and all that runs in it, is inside the finished ``__enter__``.
Here the range is *lifted*: ``__enter__`` is cut where the range starts. A call that starts a moment
before the last one ends *follows* it: a loader call of 26 ms that overlaps a short call by 33 ns
must not end up inside that call, cut to 33 ns. Any other call that outlives the call around it is
cut where that ends.

The definition is a stack, for each thread in preorder:

1. Calls on the stack are popped while the top's cut end is not after the start of the new call.
2. If the new call starts `OVERLAP_NS` or less before the top's cut end, and ends later than that by
   more than this overlap, the top is cut where the new call starts, and dropped; so is the next.
3. If the new call ends after the top's cut end, and more than `TOLERANCE_NS` after the cut ends of
   the topmost calls, it may be lifted out of these: if it is no runtime or driver call, and it is
   an operator or annotation and all their names match `ENTERS`, or its own name matches `EXITS`.
   They are then cut where it starts, and dropped.
4. Its cut end is its own end, or that of the top if that is earlier. The top is its parent.

ProfilerSteps are left out, because they are marks and not calls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Int32Array, Int64Array, IntArray, Mask
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import LAUNCH_CALLS, Events, Kind
from hta_widgets.trace.model.nesting import NO_PARENT, calls_in_preorder, places_of

TOLERANCE_NS: Final = 2_000
"""Most that rounding to whole µs, and two clocks, can explain: no reason to lift a call."""

OVERLAP_NS: Final = 1_000
"""Longest overlap of two calls if the second one follows the first. If times are rounded to whole
µs, a call inside another may end 1 µs after it, and overlaps it by as much or more."""

_RECORDING = r"_?record_function|RecordFunction|torch/(autograd/)?profiler"
ENTERS: Final = re.compile(rf"__enter__|{_RECORDING}")
EXITS: Final = re.compile(rf"__exit__|{_RECORDING}")


class Thread(NamedTuple):
    """The calls of one thread are at places ``first`` to ``last`` (not included)."""

    pid: int
    tid: int
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class CutForest:
    """CPU calls without step marks, thread by thread in preorder; every subtree is one slice."""

    rows: Int32Array
    """Row of the call at each place."""
    parent: Int32Array
    """Place of the call around each, -1 for none."""
    cut_end_ns: Times
    """End of each call, not later than that of the call around it."""
    ends: Int32Array
    """``places[place:ends[place]]`` are the call at a place and all calls inside it."""

    def threads(self, events: Events) -> list[Thread]:
        """The threads with calls, ascending by process and thread."""
        pid, tid = events.pid[self.rows], events.tid[self.rows]
        edges = _run_edges(pid, tid)
        return [
            Thread(int(pid[first]), int(tid[first]), first, last) for first, last in pairwise(edges)
        ]

    def place_of_row(self, events: Events) -> Int32Array:
        """Place of the call in each row of the events, and in row -1; -1 if there is no call."""
        return places_of(self.rows, len(events) + 1)

    def at_or_below(self, places: Mask) -> Mask:
        """Mask of the given calls and everything inside them."""
        return self.depth_within(places) > 0

    def levels_among(self, places: Mask) -> Int32Array:
        """Number of chosen calls around each chosen call."""
        return self.depth_within(places) - np.int32(1)

    def depth_within(self, places: Mask) -> Int32Array:
        """Number of chosen calls among each call and the calls around it."""
        changes = np.bincount(self.ends[places], minlength=places.size + 1)[:-1]  # that end
        np.subtract(places, changes, out=changes)
        return np.cumsum(changes, dtype=np.int32)


def depths(ends: IntArray) -> Int32Array:
    """Number of nodes around each of a forest in preorder, given where the slice of each ends.

    Examples
    --------
    >>> depths(np.array([3, 2, 3, 4])).tolist()
    [0, 1, 1, 0]
    """
    that_end = np.bincount(ends, minlength=ends.size + 1)[:-1]
    return np.cumsum(1 - that_end, dtype=np.int32) - np.int32(1)


def cut_forest(events: Events, parents: Int32Array, step_names: Mask) -> Mapping[str, NDArray[Any]]:
    """Columns of the `CutForest` of a trace, given the row of the call around each as recorded.

    It lacks the marks of steps, whose names are given by code.

    The recorded parents (see `nesting.parent_rows`) are right, except for calls that outlive their
    parent, and calls inside these that start or end after the cut. Only these few are looked at one
    by one.
    """
    is_mark = step_names[events.name.codes]
    rows = calls_in_preorder(events)
    rows = rows[~is_mark[rows]]
    cutter = _Cutter(events, rows, _recorded_parents(events, parents, rows, is_mark))
    cutter.cut_all()
    return {
        "rows": rows.astype(np.int32),
        "parent": cutter.parent,
        "cut_end_ns": cutter.cut_end,
        "ends": cutter.subtree_ends(),
    }


def _recorded_parents(
    events: Events,
    parents: Int32Array,
    rows: Int64Array,
    is_mark: Mask,
) -> Int32Array:
    """Place of the innermost recorded call around each that is no mark and has not ended."""
    above = parents[rows]
    if is_mark.any():
        waiting = np.flatnonzero(above != NO_PARENT)
        while waiting.size:
            around = above[waiting]
            over = events.start_ns[around] + events.duration_ns[around]
            # by time, nothing is inside a call of length 0: such parents come from a capture
            has_ended = (over <= events.start_ns[rows[waiting]]) & (events.duration_ns[around] > 0)
            passed = is_mark[around] | has_ended
            waiting = waiting[passed]
            above[waiting] = parents[around[passed]]
            waiting = waiting[above[waiting] != NO_PARENT]
    return places_of(rows, len(events) + 1)[above]


def _run_edges(pid: Int64Array, tid: Int64Array) -> list[int]:
    changes = np.flatnonzero((pid[1:] != pid[:-1]) | (tid[1:] != tid[:-1])) + 1
    return [0, *changes.tolist(), pid.size] if pid.size else [0]


class _Cutter:
    """Finds parents and cut ends, starting from the recorded parents."""

    def __init__(self, events: Events, rows: Int64Array, recorded: Int32Array) -> None:
        self.start = events.start_ns[rows]
        self.end = self.start + events.duration_ns[rows]
        self.recorded = recorded
        self.parent = recorded.copy()
        self.cut_end = self.end.copy()
        self.kind = events.kind[rows]
        self.names = events.name.values
        self.codes = events.name.codes[rows]
        self.thread_edges = _run_edges(events.pid[rows], events.tid[rows])
        self._last_running = NO_PARENT
        self._running_inside: dict[int, int] = {}

    def cut_all(self) -> None:
        """Cut in preorder, so that everything around a call is cut before it."""
        around = self.recorded
        outlives = (around != NO_PARENT) & (self.end > self.end[around])
        waiting: list[int] = np.flatnonzero(outlives).tolist()
        last = NO_PARENT
        while waiting:
            place = heappop(waiting)
            if place == last:
                continue
            last = place
            self._cut(place)
            if self.cut_end[place] < self.end[place]:
                for child in self._children_beyond_the_cut(place):
                    heappush(waiting, child)

    def _cut(self, place: int) -> None:
        top = int(self.recorded[place])
        start, end = self.start[place], self.end[place]
        while top != NO_PARENT and self.cut_end[top] <= start:
            top = int(self.parent[top])
        while top != NO_PARENT and self._follows(place, top):
            self.cut_end[top] = start
            top = int(self.parent[top])
        if top != NO_PARENT and end > self.cut_end[top]:
            outlived = self._lifted_out_of(place, top)
            if outlived:
                self.cut_end[outlived] = start
                top = int(self.parent[outlived[-1]])
        self.parent[place] = top
        self.cut_end[place] = end if top == NO_PARENT else min(end, self.cut_end[top])

    def _follows(self, place: int, top: int) -> bool:
        """Whether a call starts just before the one around it ends, and lasts much longer."""
        overlap_ns = self.cut_end[top] - self.start[place]
        outlives_ns = self.end[place] - self.cut_end[top]
        return bool(overlap_ns <= OVERLAP_NS and outlives_ns > overlap_ns)

    def _lifted_out_of(self, place: int, top: int) -> list[int]:
        """Calls on the stack that the call outlives, innermost first, if it is lifted."""
        kind, is_exit = self.kind[place], EXITS.search(self._name(place))
        if kind in LAUNCH_CALLS or not (is_exit or kind in (Kind.ANNOTATION, Kind.CPU_OP)):
            return []
        latest, outlived = self.end[place] - TOLERANCE_NS, []
        while top != NO_PARENT and self.cut_end[top] < latest:
            if not (is_exit or ENTERS.search(self._name(top))):
                return []
            outlived.append(top)
            top = int(self.parent[top])
        return outlived

    def _name(self, place: int) -> str:
        return self.names[int(self.codes[place])]

    def _children_beyond_the_cut(self, place: int) -> list[int]:
        """Recorded children that are running where their parent is cut, or start later."""
        edge = int(np.searchsorted(self.thread_edges, place, side="right"))
        starts = self.start[place + 1 : self.thread_edges[edge]]
        later, last = np.searchsorted(starts, (self.cut_end[place], self.end[place])) + place + 1
        children = np.flatnonzero(self.recorded[later:last] == place) + later
        running = self._running_child(place, int(later) - 1)
        return [*running, *children.tolist()]

    def _running_child(self, place: int, innermost: int) -> list[int]:
        """The recorded child around a later call, if it runs past the cut."""
        if innermost != self._last_running or place not in self._running_inside:
            self._last_running, self._running_inside = innermost, {}
            while innermost > place:
                around = int(self.recorded[innermost])
                self._running_inside[around] = innermost
                innermost = around
        child = self._running_inside.get(place, place)
        return [child] if child > place and self.end[child] > self.cut_end[place] else []

    def subtree_ends(self) -> Int32Array:
        """Place after each subtree: the first call of the thread that starts after the cut end.

        A call that starts when the calls around it are cut is the last one inside them.
        """
        ends = np.empty(self.start.size, dtype=np.int32)
        for first, last in pairwise(self.thread_edges):
            found = np.searchsorted(self.start[first:last], self.cut_end[first:last])
            ends[first:last] = found + first
        ends = np.maximum(ends, np.arange(1, ends.size + 1, dtype=np.int32))
        inside = np.flatnonzero(self.parent != NO_PARENT)
        while (beyond := inside[ends[self.parent[inside]] < ends[inside]]).size:
            around = self.parent[beyond]
            np.maximum.at(ends, around, ends[beyond])
            inside = np.unique(around[self.parent[around] != NO_PARENT])
        return ends
