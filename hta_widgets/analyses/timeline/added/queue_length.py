"""Operations that wait on each stream, as `queue_length` counts them."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from hta_widgets.analyses.queue_length import aligned_changes
from hta_widgets.analyses.timeline.added.kind import AddedLane, LaneKind, curve_lane
from hta_widgets.analyses.timeline.curve import Curve
from hta_widgets.trace.ranks.rank import Rank

_NO_LAUNCH: Final = "no GPU operation has its launch in the trace"


def _lanes(rank: Rank) -> list[AddedLane]:
    changes = aligned_changes(rank, 0)
    device, stream, time_ns = (changes[name] for name in ("device", "stream", "time_ns"))
    differs = (device[1:] != device[:-1]) | (stream[1:] != stream[:-1])
    edges = [0, *(np.flatnonzero(differs) + 1).tolist(), device.size]
    many = len(rank.gpu_work.devices) > 1
    lanes = []
    for first, last in pairwise(edges if device.size else [0]):
        where = f"GPU {device[first]} · " if many else ""
        key = f"queue {device[first]} {stream[first]}"
        length = changes["queue_length"][first:last]
        curve = Curve(time_ns[first:last], length, int(time_ns[last - 1]))
        lanes.append(curve_lane(key, f"{where}queue {stream[first]}", "operations", curve))
    return lanes


def _why_none(rank: Rank) -> str:
    return "" if (rank.gpu_work.launch >= 0).any() else _NO_LAUNCH


QUEUE: Final = LaneKind("queue", "queue length", _lanes, _why_none, _NO_LAUNCH)
"""Operations launched but not yet started."""
