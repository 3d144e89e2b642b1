"""Some calls of a rank, and how they lie in each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.shared.attribution.ancestors import nearest_at_or_above
from hta_widgets.analyses.shared.attribution.calls import Calls, calls_of
from hta_widgets.analyses.shared.attribution.counted import (
    host_time,
    same_name_around,
    sums_at,
)
from hta_widgets.analyses.shared.excerpt import Excerpt
from hta_widgets.intervals import Times
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
    """

    place: Positions
    name: NDArray[np.int32]
    innermost: Positions
    parent: Positions
    same_name: Positions
    last: Positions

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
            last=np.searchsorted(place, forest.ends[place]),
        )

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
    calls, counted = calls_of(rank), host_time(rank, excerpt)
    start, end = calls.start_ns[tree.place], calls.forest.cut_end_ns[tree.place]
    if counted is None:
        return CpuTimes(np.ones(start.size, dtype=np.int64), end - start)
    inside_ns = counted.covered_until(end) - counted.covered_until(start)
    return CpuTimes(counted.covers(start).astype(np.int64), inside_ns)
