"""CPU time of calls, in all of the analysed time or in an excerpt."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.time.calls import Calls, calls_of
from hta_widgets.analyses.time.counted import host_time
from hta_widgets.analyses.time.excerpt import Excerpt
from hta_widgets.intervals import Intervals
from hta_widgets.trace.model.cut_forest import Thread
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.rank import Rank

Rows = NDArray[np.int64]


class OwnCpuTime(NamedTuple):
    """CPU time of some calls without that of the calls inside them.

    Attributes
    ----------
    place : ndarray of int64
        Of each call, ascending; all others have none.
    ns : ndarray of int64
    """

    place: Rows
    ns: Rows


def own_cpu_time(rank: Rank, excerpt: Excerpt | None) -> OwnCpuTime:
    """Time of each call without those inside, of what is analysed or in an excerpt."""
    calls, counted = calls_of(rank), host_time(rank, excerpt)
    found = [OwnCpuTime(*np.zeros((2, 0), dtype=np.int64))]
    if len(counted):
        found += [_of_thread(rank, calls, counted, thread) for thread in calls.threads]
    return OwnCpuTime(*map(np.concatenate, zip(*found, strict=True)))


def _without_inner(total: Rows, around: NDArray[np.integer]) -> Rows:
    """What is left of each call without those inside; -1 is around the outermost."""
    own = np.append(total, 0)
    np.subtract.at(own, around, total)
    return own[:-1]


def _of_thread(rank: Rank, calls: Calls, counted: Intervals, thread: Thread) -> OwnCpuTime:
    """The calls of a thread that may be open in some time, with all that are around them."""
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
    start_ns, end_ns, rows = (
        np.append(column[before], column[begin:end])
        for column in (calls.start_ns, forest.cut_end_ns, forest.rows)
    )
    total = counted.covered_until(end_ns) - counted.covered_until(start_ns)
    total[~rank.analysed[rows]] = 0
    parents = np.append(forest.parent[before], forest.parent[begin:end])
    position = parents - (begin - before.size)  # all between these two are here
    early = np.flatnonzero(parents < begin)
    outermost = parents[early] == NO_PARENT
    known = np.searchsorted(before, parents[early])
    position[early] = np.where(outermost, NO_PARENT, known)
    return OwnCpuTime(place, _without_inner(total, position))
