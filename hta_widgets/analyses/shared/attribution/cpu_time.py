"""CPU time of calls, in all of the analysed time or in an excerpt."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.shared.attribution.calls import calls_of
from hta_widgets.analyses.shared.excerpt import Excerpt
from hta_widgets.intervals import Intervals
from hta_widgets.trace.ranks.rank import Rank

Rows = NDArray[np.int64]


def own_cpu_time(rank: Rank, excerpt: Excerpt | None) -> Rows:
    """Time of each call without those inside, of what is analysed or in an excerpt."""
    calls = calls_of(rank)
    forest = calls.forest
    if excerpt is None:
        total = forest.cut_end_ns - calls.start_ns
        total = np.where(rank.analysed[forest.rows], total, 0)
    else:
        counted = counted_on_any_device(rank, excerpt)
        total = counted.covered_until(forest.cut_end_ns) - counted.covered_until(calls.start_ns)
    own = np.append(total, 0)
    np.subtract.at(own, forest.parent, total)
    return own[:-1]


def counted_on_any_device(rank: Rank, excerpt: Excerpt) -> Intervals:
    """The time of a rank that is counted on any of its devices."""
    parts = [excerpt.time(rank, device) for device in rank.gpu_work.devices]
    return Intervals.union(
        np.concatenate([np.zeros(0, dtype=np.int64), *(part.starts for part in parts)]),
        np.concatenate([np.zeros(0, dtype=np.int64), *(part.ends for part in parts)]),
    )
