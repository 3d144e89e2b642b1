"""Allocated memory of each device, as `memory_use` follows it."""

from __future__ import annotations

from typing import Final

from hta_widgets.analyses.memory_use.analysis import may_record
from hta_widgets.analyses.memory_use.recorded import CPU, DeviceMemory, recorded_memory
from hta_widgets.analyses.timeline.added.kind import AddedLane, LaneKind, curve_lane
from hta_widgets.analyses.timeline.curve import Curve
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.ranks.rank import Rank

_NOTHING: Final = "no memory events were recorded (profile_memory=True records them)"


def _lanes(rank: Rank) -> list[AddedLane]:
    events = rank.trace.events
    end_ns = int((events.start_ns + events.duration_ns).max(initial=0))
    memories = sorted(recorded_memory(rank), key=lambda each: each.device == CPU)
    return [_lane(each, end_ns) for each in memories]


def _lane(memory: DeviceMemory, end_ns: int) -> AddedLane:
    is_cpu = memory.device == CPU
    label = "CPU memory" if is_cpu else f"memory {memory.device}"
    # No event means no change, so the last total holds to the end of the recording.
    curve = Curve(memory.time_ns, memory.allocated, max(end_ns, int(memory.time_ns[-1])))
    return curve_lane(f"memory {memory.type_name} {memory.device}", label, "bytes", curve)


def _why_none(rank: Rank) -> str:
    lacking = rank.lacking([Recorded.MEMORY])
    if lacking:
        return lacking[0].text()
    return "" if may_record(rank) else _NOTHING


MEMORY: Final = LaneKind("memory", "allocated memory", _lanes, _why_none, _NOTHING)
