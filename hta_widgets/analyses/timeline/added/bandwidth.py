"""Bandwidth of each kind of copy and of memsets, as `memory_bandwidth` adds it up."""

from __future__ import annotations

from typing import Final

from hta_widgets.analyses.memory_bandwidth import changes_by_kind, transfers_of
from hta_widgets.analyses.timeline.added.kind import AddedLane, LaneKind, curve_lane
from hta_widgets.analyses.timeline.curve import Curve
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.rank import Rank

_NO_COPIES: Final = "no copies or memsets were recorded"
_NO_SIZES: Final = "copies and memsets were recorded without their sizes"


def _lanes(rank: Rank) -> list[AddedLane]:
    lanes = []
    for name, changes in changes_by_kind(rank, 0).items():
        time_ns = changes["time_ns"]
        curve = Curve(time_ns, changes["bandwidth_gb_per_s"], int(time_ns[-1]))
        if curve.most > 0:
            label = name.replace("Memcpy", "copies").replace("Memset", "memsets")
            lanes.append(curve_lane(f"bandwidth {name}", label, "GB/s", curve))
    return lanes


def _why_none(rank: Rank) -> str:
    if not (rank.gpu_work.type == KernelType.MEMORY).any():
        return _NO_COPIES
    return "" if (transfers_of(rank).gb_per_s > 0).any() else _NO_SIZES


BANDWIDTH: Final = LaneKind("bandwidth", "copy bandwidth", _lanes, _why_none, _NO_SIZES)
