"""Bandwidth of each kind of copy and of memsets, as `memory_bandwidth` adds it up."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from hta_widgets.analyses.memory_bandwidth import aligned_bandwidth, transfers_of
from hta_widgets.analyses.timeline.added.kind import AddedLane, LaneKind, curve_lane
from hta_widgets.analyses.timeline.curve import Curve
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.rank import Rank

_NO_COPIES: Final = "no copies or memsets were recorded"
_NO_SIZES: Final = "copies and memsets were recorded without their sizes"


def _lanes(rank: Rank) -> list[AddedLane]:
    transfers, changes = transfers_of(rank), aligned_bandwidth(rank, 0)
    last = 2 * np.cumsum(np.bincount(transfers.name, minlength=len(transfers.names)))
    lanes = []
    for name, (first, end) in zip(transfers.names, pairwise([0, *last.tolist()]), strict=True):
        time_ns = changes["time_ns"][first:end]
        curve = Curve(time_ns, changes["bandwidth_gb_per_s"][first:end], int(time_ns[-1]))
        if curve.most > 0:
            label = name.replace("Memcpy", "copies").replace("Memset", "memsets")
            lanes.append(curve_lane(f"bandwidth {name}", label, "GB/s", curve))
    return lanes


def _why_none(rank: Rank) -> str:
    if not (rank.gpu_work.type == KernelType.MEMORY).any():
        return _NO_COPIES
    return "" if (transfers_of(rank).gb_per_s > 0).any() else _NO_SIZES


BANDWIDTH: Final = LaneKind("bandwidth", "copy bandwidth", _lanes, _why_none, _NO_SIZES)
