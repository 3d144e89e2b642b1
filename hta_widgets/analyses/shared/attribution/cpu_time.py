"""CPU time of calls, in all of the analysed time or in an excerpt."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.shared.attribution.calls import Calls, calls_of
from hta_widgets.analyses.shared.attribution.counted import host_time
from hta_widgets.analyses.shared.excerpt import Excerpt
from hta_widgets.intervals import Intervals
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
    forest = calls.forest
    if counted is None:
        place = np.arange(calls.name.size)
        total = forest.cut_end_ns - calls.start_ns
        total = np.where(rank.analysed[forest.rows], total, 0)
        around = forest.parent.astype(np.int64)
    else:
        place = _open_in(calls, counted)
        end_ns, start_ns = forest.cut_end_ns[place], calls.start_ns[place]
        total = counted.covered_until(end_ns) - counted.covered_until(start_ns)
        position = np.empty(calls.kind.size + 1, dtype=np.int64)
        position[NO_PARENT] = NO_PARENT
        position[place] = np.arange(place.size)
        around = position[forest.parent[place]]
    own = np.append(total, 0)
    np.subtract.at(own, around, total)
    return OwnCpuTime(place, own[:-1])


def _open_in(calls: Calls, counted: Intervals) -> Rows:
    """Places of the calls that may be open in some time, with all that are around them."""
    found = [np.zeros(0, dtype=np.int64)]
    edges = (int(counted.starts[0]), int(counted.ends[-1])) if len(counted) else (0, 0)
    for thread in calls.threads if len(counted) else ():
        starts = calls.start_ns[thread.first : thread.last]
        begin, end = (np.searchsorted(starts, edges) + thread.first).tolist()
        open_before = []
        around = begin - 1 if begin > thread.first else NO_PARENT
        while around != NO_PARENT:
            open_before.append(around)
            around = int(calls.forest.parent[around])
        found += [np.array(open_before[::-1], dtype=np.int64), np.arange(begin, end)]
    return np.concatenate(found)
