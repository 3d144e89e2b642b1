"""Idle time by the call that it belongs to."""

from __future__ import annotations

import numpy as np

from hta_widgets.analyses.idle_owners.gaps import gaps_of
from hta_widgets.analyses.idle_owners.owned_time import owned_time
from hta_widgets.analyses.shared.attribution.calls import calls_of
from hta_widgets.analyses.shared.excerpt import Excerpt, remember
from hta_widgets.intervals import Times
from hta_widgets.trace.ranks.rank import Rank


def idle_by_call(rank: Rank, excerpt: Excerpt | None) -> Times:
    """Idle time (ns) of all devices that belongs to each call itself, by place.

    One more value than there are calls: the last is the idle time that belongs to none.
    """
    return remember(rank, _idle_by_call, excerpt)


def _idle_by_call(rank: Rank, excerpt: Excerpt | None) -> Times:
    pieces, gaps = rank.remember(owned_time).pieces, rank.remember(gaps_of)
    idle_ns = pieces.length_ns()
    if excerpt is not None:
        window_ns = excerpt.window_of(rank)
        if window_ns is not None:
            start = np.maximum(pieces.start_ns, window_ns[0])
            idle_ns = np.maximum(np.minimum(pieces.end_ns, window_ns[1]) - start, 0)
        if excerpt.steps:
            idle_ns = idle_ns * np.isin(gaps.step, excerpt.steps)[pieces.gap]
    idle = np.zeros(calls_of(rank).kind.size + 1, dtype=np.int64)
    counted = np.flatnonzero(idle_ns)
    np.add.at(idle, pieces.owner[counted], idle_ns[counted])
    return idle
