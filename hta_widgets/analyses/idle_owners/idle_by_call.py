"""Idle time by the call that it belongs to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.idle_owners.counted_time import counted_time
from hta_widgets.analyses.time.excerpt import EVERYTHING, Excerpt, remember
from hta_widgets.intervals import Times
from hta_widgets.trace.ranks.rank import Rank


class IdleByCall(NamedTuple):
    """Pieces of the idle time of all devices.

    Attributes
    ----------
    place : ndarray of int64
        Of the call that each belongs to, -1 for none.
    ns : ndarray of int64
    """

    place: NDArray[np.int64]
    ns: Times


def idle_by_call(rank: Rank, excerpt: Excerpt | None) -> IdleByCall:
    """Idle time of a rank in some of its time, with the calls that it belongs to."""
    return remember(rank, _idle_by_call, excerpt)


def _idle_by_call(rank: Rank, excerpt: Excerpt | None) -> IdleByCall:
    counted = counted_time(rank, excerpt or EVERYTHING)
    return IdleByCall(counted.owner, counted.length_ns)
