"""What counts of calls, and sums over it, for all of a rank or a selection of its time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.time.calls import Calls, at_or_around, calls_of, nearest_at_or_above
from hta_widgets.analyses.time.selection import (
    ANY_TIME,
    EVERYTHING,
    TimeSelection,
    remember,
    selected_work,
)
from hta_widgets.analyses.time.window import window_of
from hta_widgets.arrays import Int32Array, Int64Array, IntArray, Mask, narrowed
from hta_widgets.grouping import distinct
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.model.cut_forest import Thread
from hta_widgets.trace.model.nesting import NO_PARENT, places_of
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank


class LaunchedWork(NamedTuple):
    """GPU work of all devices, with the call that launched each piece."""

    work: GpuWork
    """The work that counts."""
    place: Int64Array
    """Place of the launch call, `NO_PARENT` if it is not in the trace."""


def launched_work(rank: Rank, selection: TimeSelection | None) -> LaunchedWork:
    """The work that counts, with its launch calls."""
    return remember(rank, _launched_work, selection)


def _launched_work(rank: Rank, selection: TimeSelection | None) -> LaunchedWork:
    work = GpuWork.joined(selected_work(rank, selection).values())
    return LaunchedWork(work, calls_of(rank).places_of(work.launch))


def has_cpu_time(rank: Rank) -> Mask:
    """Which calls have CPU time that counts: all but those of the step that is left out.

    Any call may own idle time, since a GPU may wait for the next step before this one is done.
    """
    return rank.analysed[calls_of(rank).forest.rows]


def host_time(rank: Rank, selection: TimeSelection | None) -> Intervals:
    """The time in which calls count: also outside of the steps, unless some are chosen.

    On the CPU, a step lasts from the start of its mark to the start of the next one.
    """
    selection = selection or EVERYTHING
    counted, window = ANY_TIME, selection.window_of(rank)
    if selection.steps:
        edges, chosen = host_step_edges(rank), np.isin(window_of(rank).steps, selection.steps)
        counted = Intervals.union(edges[:-1][chosen], edges[1:][chosen])
    return counted if window is None else counted.clip(*window)


def host_step_edges(rank: Rank) -> Times:
    """When the steps start on the CPU, and when the last one ends."""
    whole = window_of(rank)
    starts = whole.step_start_ns
    return np.append(starts, starts[-1:] + whole.step_length_ns[-1:])


def sums_at(positions: NDArray[np.integer[Any]], values: IntArray, size: int) -> Times:
    """Sum of the values at each position; those at -1 are left out."""
    sums = np.zeros(size + 1, dtype=np.int64)
    if 2 * np.count_nonzero(values) < values.size:  # few count in a short window
        counted = np.flatnonzero(values)
        positions, values = positions[counted], values[counted]
    np.add.at(sums, positions, values.astype(np.int64, copy=False))
    return sums[:-1]


def with_inside(own: NDArray[Any], parent: Int64Array, depth: Int64Array) -> NDArray[Any]:
    """Sums over each node of a tree and all nodes inside it, from the innermost level outwards.

    `own` may have several columns; `parent` is -1 for none.
    """
    total, by_depth = own.copy(), np.argsort(depth, kind="stable")
    edges = np.append(0, np.cumsum(np.bincount(depth))).tolist()
    for begin, end in reversed([*pairwise(edges)][1:]):
        level = by_depth[begin:end]
        level = level[parent[level] != NO_PARENT]
        np.add.at(total, parent[level], total[level])
    return total


def same_name_around(
    places: Int64Array, ends: NDArray[np.integer], name: NDArray[np.integer]
) -> Int64Array:
    """Position of the innermost call of the same name around each of some calls, -1 for none.

    `places` ascend; `ends` holds the place after the last call inside each.
    """
    found = np.full(places.size, NO_PARENT, dtype=np.int64)
    order = np.argsort(name, kind="stable")
    reached, position = _reached_before(ends[order], name[order]), places[order]
    nested_names = distinct(name[order[reached > position]])
    if not nested_names.size:
        return found
    asked = order[np.isin(name[order], nested_names)]
    apart = np.int64(int(ends.max()) + 1)
    lowest = name[asked] * apart
    start, end = lowest + places[asked], lowest + ends[asked]
    around = np.arange(asked.size) - 1
    passed = np.arange(1, asked.size)
    while (passed := passed[(around[passed] >= 0) & (end[around[passed]] <= start[passed])]).size:
        around[passed] = around[around[passed]]
    found[asked] = np.append(asked, NO_PARENT)[around]
    return found


def _reached_before(ends: NDArray[np.integer], group: NDArray[np.integer]) -> Int64Array:
    """Largest end among the earlier ones of the same group; the groups ascend."""
    apart = np.int64(int(ends.max(initial=0)) + 1)
    number = np.cumsum(np.diff(group, prepend=group[:1]) != 0)
    lowest = number * apart
    reached = np.maximum.accumulate(lowest + ends)
    before = np.concatenate((lowest[:1], reached[:-1]))[: ends.size]
    return np.asarray(before - lowest)


class OwnCpuTime(NamedTuple):
    """CPU time of some calls, without the time of calls inside them."""

    place: Int64Array
    """Place of each call, ascending; all other calls have no time."""
    ns: Int64Array


def own_cpu_time(rank: Rank, selection: TimeSelection | None) -> OwnCpuTime:
    """Time of each call without those inside it, in the analysed time or a selection."""
    calls, counted = calls_of(rank), host_time(rank, selection)
    found = [OwnCpuTime(*np.zeros((2, 0), dtype=np.int64))]
    if len(counted):
        found += [_of_thread(rank, calls, counted, thread) for thread in calls.threads]
    return OwnCpuTime(*map(np.concatenate, zip(*found, strict=True)))


def _without_inner(total: Int64Array, around: NDArray[np.integer]) -> Int64Array:
    """What is left of each call without those inside it; -1 is around the outermost calls."""
    own = np.append(total, 0)
    np.subtract.at(own, around, total)
    return own[:-1]


def _of_thread(rank: Rank, calls: Calls, counted: Intervals, thread: Thread) -> OwnCpuTime:
    """The calls of a thread that may be open in some time, with all calls around them."""
    forest, starts = calls.forest, calls.start_ns[thread.first : thread.last]
    edges = np.searchsorted(starts, (int(counted.starts[0]), int(counted.ends[-1])))
    begin, end = (edges + thread.first).tolist()
    open_before = []
    around = begin - 1 if begin > thread.first else NO_PARENT
    while around != NO_PARENT:
        open_before.append(around)
        around = int(forest.parent[around])
    before = np.array(open_before[::-1], dtype=np.int64)
    place = np.append(before, np.arange(begin, end))
    if not place.size:
        return OwnCpuTime(place, place)
    start_ns, end_ns = (
        np.append(column[before], column[begin:end])
        for column in (calls.start_ns, forest.cut_end_ns)
    )
    rows = np.append(forest.rows[before], forest.rows[begin:end])
    total = counted.covered_until(end_ns) - counted.covered_until(start_ns)
    total[~rank.analysed[rows]] = 0
    parents = np.append(forest.parent[before], forest.parent[begin:end])
    position = parents - (begin - before.size)  # for parents from `begin` on
    early = np.flatnonzero(parents < begin)
    outermost = parents[early] == NO_PARENT
    known = np.searchsorted(before, parents[early])
    position[early] = np.where(outermost, NO_PARENT, known)
    return OwnCpuTime(place, _without_inner(total, position))


class SubForest(NamedTuple):
    """Some calls, and how they nest; a position counts them in order of place."""

    place: IntArray
    """Place of each call, ascending."""
    name: Int32Array
    innermost: IntArray
    """Position of the innermost of these calls at or around each call of the forest, by place; -1
    for none. The last value is -1, for place -1."""
    parent: IntArray
    """Position of the next of these calls around each, -1 for none."""
    same_name: IntArray
    """Position of the next one around each with the same name, -1 for none."""
    last: IntArray
    """Position after the last of these calls inside each."""
    whole: Int64Array | None = None
    """If taken from a larger `SubForest`: position of each there, to which `innermost` refers."""
    number: Int64Array | None = None
    """Then also the position here of each call there, -1 for others. The last value is -1."""

    @classmethod
    def of(cls, calls: Calls, chosen: Mask) -> SubForest:
        """Build it from the calls chosen by a mask over places."""
        forest, place = calls.forest, np.flatnonzero(chosen)
        position = places_of(place, chosen.size + 1)
        nearest = np.append(nearest_at_or_above(forest, chosen), np.int32(NO_PARENT))
        innermost = narrowed(position[nearest])
        return cls(
            place=place.astype(np.int32),
            name=calls.name[place],
            innermost=innermost,
            parent=innermost[forest.parent[place]],
            same_name=narrowed(same_name_around(place, forest.ends[place], calls.name[place])),
            last=np.append(0, np.cumsum(chosen)).astype(np.int32)[forest.ends[place]],
        )

    def with_around(self, positions: Int64Array) -> SubForest:
        """Some of the calls and all calls around them; -1 stands for none."""
        chosen = at_or_around(self.parent, positions)
        nobody = np.int32(NO_PARENT)
        before = np.append(np.int32(0), np.cumsum(chosen, dtype=np.int32))
        number = np.append(np.where(chosen, before[:-1], nobody), nobody)
        whole = np.flatnonzero(chosen)
        return SubForest(
            place=self.place[whole],
            name=self.name[whole],
            innermost=self.innermost,
            parent=number[self.parent[whole]],
            same_name=number[self.same_name[whole]],
            last=before[self.last[whole]],
            whole=whole,
            number=number,
        )

    def open_in(self, calls: Calls, counted: Intervals) -> Int64Array:
        """Calls that start in some time, and the innermost one of each thread before it.

        With the calls around them, these are all calls that may be open in this time.
        """
        if not len(counted):
            return self.place[:0]
        edges_ns = int(counted.starts[0]), int(counted.ends[-1])
        edges = np.searchsorted(calls.events.start_ns, edges_ns).astype(np.int32)
        found = [self.place[:0]]
        for thread in calls.threads:
            rows = calls.forest.rows[thread.first : thread.last]
            places = np.append(0, np.searchsorted(rows, edges)) + thread.first
            # another type would copy all places
            first, begin, end = np.searchsorted(self.place, places.astype(np.int32)).tolist()
            found.append(np.arange(max(first, begin - 1), end))
        return np.concatenate(found)

    def at(self, places: Int64Array) -> IntArray:
        """Position of the innermost call at or around each place, -1 for none."""
        return self.of_whole(self.innermost[places])

    def of_whole(self, positions: IntArray) -> IntArray:
        """Convert positions in the larger `SubForest` to positions here, -1 for other calls."""
        return positions if self.number is None else self.number[positions]

    @property
    def size(self) -> int:
        """Number of calls."""
        return int(self.place.size)

    def own(self, positions: IntArray, values: Times) -> Times:
        """Sum of the values that belong to each call itself; those at -1 belong to none."""
        return sums_at(positions, values, self.size)

    def totals(self, own: Times) -> Times:
        """What belongs to each call and all calls inside it, without those of the same name.

        So the totals of the calls of a name count everything inside them once.
        """
        before = np.concatenate(([0], np.cumsum(own)))
        inside = before[self.last] - before[:-1]
        return inside - self.own(self.same_name, inside)


class CpuTimes(NamedTuple):
    """CPU time of some calls."""

    calls: Int64Array
    """1 for each call that starts in the time that counts, else 0."""
    inside_ns: Times
    """Part of each call in the time that counts, including what is inside it."""


def cpu_times(rank: Rank, tree: SubForest, selection: TimeSelection | None) -> CpuTimes:
    """CPU time of some calls in the time that counts."""
    counted, calls = host_time(rank, selection), calls_of(rank)
    rows, end = calls.forest.rows[tree.place], calls.forest.cut_end_ns[tree.place]
    start, is_counted = calls.events.start_ns[rows], rank.analysed[rows]
    inside_ns = counted.covered_until(end) - counted.covered_until(start)
    return CpuTimes((counted.covers(start) & is_counted).astype(np.int64), inside_ns * is_counted)
