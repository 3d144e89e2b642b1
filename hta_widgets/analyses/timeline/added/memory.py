"""Memory of each device, allocated and reserved, as `memory_use` follows it."""

from __future__ import annotations

from typing import Final

import numpy as np

from hta_widgets.analyses.memory_use.recorded import CPU, DeviceMemory, recorded_memory
from hta_widgets.analyses.timeline.added.kind import AddedLane, LaneKind, curves_lane
from hta_widgets.analyses.timeline.curve import Curve
from hta_widgets.grouping import opens_run
from hta_widgets.trace.model.details import may_have_memory
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
    # No event means no change, so the last totals hold to the end of the recording.
    end_ns = max(end_ns, int(memory.time_ns[-1]))
    curves = {"allocated": Curve(memory.time_ns, memory.allocated, end_ns)}
    known = np.flatnonzero(memory.reserved > 0)
    if known.size:
        reserved = memory.reserved[known]
        changed = np.flatnonzero(opens_run(reserved))
        times_ns = memory.time_ns[known[changed]]
        curves["reserved"] = Curve(times_ns, reserved[changed], end_ns)
    return curves_lane(f"memory {memory.type_name} {memory.device}", label, "bytes", curves)


def _why_none(rank: Rank) -> str:
    lacking = rank.lacking([Recorded.MEMORY])
    if lacking:
        return lacking[0].text()
    return "" if may_have_memory(rank.trace.events) else _NOTHING


MEMORY: Final = LaneKind("memory", "memory", _lanes, _why_none, _NOTHING)
