"""Operations that wait on each stream, as `queue_length` counts them."""

from __future__ import annotations

from typing import Final

from hta_widgets.analyses.queue_length import changes_by_stream
from hta_widgets.analyses.timeline.added.kind import AddedLane, LaneKind, curve_lane
from hta_widgets.analyses.timeline.curve import Curve
from hta_widgets.trace.ranks.rank import Rank

_NO_LAUNCH: Final = "no GPU operation has its launch in the trace"


def _lanes(rank: Rank) -> list[AddedLane]:
    many = len(rank.gpu_work.devices) > 1
    lanes = []
    for changes in changes_by_stream(rank, 0):
        device, stream, time_ns = changes["device"][0], changes["stream"][0], changes["time_ns"]
        label = f"{f'GPU {device} · ' if many else ''}queue {stream}"
        curve = Curve(time_ns, changes["queue_length"], int(time_ns[-1]))
        lanes.append(curve_lane(f"queue {device} {stream}", label, "operations", curve))
    return lanes


def _why_none(rank: Rank) -> str:
    return "" if (rank.gpu_work.launch >= 0).any() else _NO_LAUNCH


QUEUE: Final = LaneKind("queue", "queue length", _lanes, _why_none, _NO_LAUNCH)
"""Operations launched but not yet started."""
