"""Some calls of a rank, and how they lie in each other."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.time.ancestors import at_or_around, nearest_at_or_above
from hta_widgets.analyses.time.calls import Calls
from hta_widgets.analyses.time.counted import (
    has_cpu_time,
    host_time,
    same_name_around,
    sums_at,
)
from hta_widgets.analyses.time.excerpt import Excerpt
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.rank import Rank

Positions = NDArray[np.int64]


class SubForest(NamedTuple):
    """Some calls, and how they lie in each other; a position counts them in order of place.

    Attributes
    ----------
    place : ndarray of int64
        Ascending.
    name : ndarray of int32
    innermost : ndarray of int64
        Position of the innermost of them at or around each call, by place; -1 for none. The last
        value is -1 as well, for place -1.
    parent : ndarray of int64
        Position of the next of them around each, -1 for none.
    same_name : ndarray of int64
        The same for those with the same name.
    last : ndarray of int64
        Position after the last of them inside each.
    start_ns, end_ns : ndarray of int64
    threads : ndarray of int64
        Position of the first of each thread.
    whole : ndarray of int64, optional
        Where these are some of other calls: position there of each. `innermost` is of those.
    number : ndarray of int64, optional
        And the position here of each of those, -1 for others. The last value is -1 as well.
    """

    place: Positions
    name: NDArray[np.int32]
    innermost: Positions
    parent: Positions
    same_name: Positions
    last: Positions
    start_ns: Times
    end_ns: Times
    threads: Positions
    whole: Positions | None = None
    number: Positions | None = None

    @classmethod
    def of(cls, calls: Calls, chosen: NDArray[np.bool_]) -> SubForest:
        """The chosen calls, by place."""
        forest, place = calls.forest, np.flatnonzero(chosen)
        position = np.full(chosen.size + 1, NO_PARENT)
        position[place] = np.arange(place.size)
        innermost = np.append(position[nearest_at_or_above(forest, chosen)], NO_PARENT)
        return cls(
            place=place,
            name=calls.name[place],
            innermost=innermost,
            parent=innermost[forest.parent[place]],
            same_name=same_name_around(place, forest.ends[place], calls.name[place]),
            last=np.append(0, np.cumsum(chosen))[forest.ends[place]],
            start_ns=calls.start_ns[place],
            end_ns=forest.cut_end_ns[place],
            threads=np.searchsorted(place, [thread.first for thread in calls.threads]),
        )

    def with_around(self, positions: Positions) -> SubForest:
        """Some of the calls and all around them; -1 stands for none."""
        chosen = at_or_around(self.parent, positions)
        before = np.append(0, np.cumsum(chosen))
        number = np.append(np.where(chosen, before[:-1], NO_PARENT), NO_PARENT)
        whole = np.flatnonzero(chosen)
        return SubForest(
            place=self.place[whole],
            name=self.name[whole],
            innermost=self.innermost,
            parent=number[self.parent[whole]],
            same_name=number[self.same_name[whole]],
            last=before[self.last[whole]],
            start_ns=self.start_ns[whole],
            end_ns=self.end_ns[whole],
            threads=before[self.threads],
            whole=whole,
            number=number,
        )

    def open_in(self, counted: Intervals) -> Positions:
        """Calls that start in some time, and the innermost of each thread before it.

        With those around them, these are all that may be open in it.
        """
        if not len(counted):
            return self.place[:0]
        begin_ns, end_ns = int(counted.starts[0]), int(counted.ends[-1])
        found = [self.place[:0]]
        for first, last in pairwise([*self.threads.tolist(), self.size]):
            starts = self.start_ns[first:last]
            begin, end = np.searchsorted(starts, (begin_ns, end_ns)).tolist()
            found.append(np.arange(first + max(begin - 1, 0), first + end))
        return np.concatenate(found)

    def at(self, places: Positions) -> Positions:
        """Position of the innermost call at or around each place, -1 for none."""
        return self.of_whole(self.innermost[places])

    def of_whole(self, positions: Positions) -> Positions:
        """Positions of calls by those among the calls that these are some of, -1 for others."""
        return positions if self.number is None else self.number[positions]

    @property
    def size(self) -> int:
        """Number of the calls."""
        return int(self.place.size)

    def own(self, positions: Positions, values: Times) -> Times:
        """Sum of the values that belong to each call itself; those at -1 belong to none."""
        return sums_at(positions, values, self.size)

    def totals(self, own: Times) -> Times:
        """What belongs to each call and to all inside it, but to no other of the same name.

        So that the totals of the calls of a name hold everything inside them once.
        """
        before = np.concatenate(([0], np.cumsum(own)))
        inside = before[self.last] - before[:-1]
        return inside - self.own(self.same_name, inside)


class CpuTimes(NamedTuple):
    """CPU time of some calls.

    Attributes
    ----------
    calls : ndarray of int64
        1 for a call that starts in the counted time.
    inside_ns : ndarray of int64
        Part of each call in the counted time, with what is inside it.
    """

    calls: NDArray[np.int64]
    inside_ns: Times


def cpu_times(rank: Rank, tree: SubForest, excerpt: Excerpt | None) -> CpuTimes:
    """CPU time of some calls in the counted time."""
    counted, start, end = host_time(rank, excerpt), tree.start_ns, tree.end_ns
    is_counted = has_cpu_time(rank)[tree.place]
    inside_ns = counted.covered_until(end) - counted.covered_until(start)
    return CpuTimes((counted.covers(start) & is_counted).astype(np.int64), inside_ns * is_counted)
