"""Lanes beside those of ranks, streams, threads and phases: the kinds that can be added."""

from __future__ import annotations

from typing import Final

from hta_widgets.analyses.timeline.added.bandwidth import BANDWIDTH
from hta_widgets.analyses.timeline.added.kind import AddedLane, JobLaneKind, LaneKind, LanesOfRanks
from hta_widgets.analyses.timeline.added.memory import MEMORY
from hta_widgets.analyses.timeline.added.modules import MODULES
from hta_widgets.analyses.timeline.added.queue_length import QUEUE
from hta_widgets.trace.ranks.rank import Rank

LANE_KINDS: Final = {each.name: each for each in (MODULES, QUEUE, BANDWIDTH, MEMORY)}
"""By name, from top to bottom."""


def reasons_for_none(rank: Rank) -> dict[str, str]:
    """Why a rank has no lanes of each kind, empty where it may have some."""
    return {name: kind.why_none(rank) for name, kind in LANE_KINDS.items()}


__all__ = [
    "LANE_KINDS",
    "AddedLane",
    "JobLaneKind",
    "LaneKind",
    "LanesOfRanks",
    "reasons_for_none",
]
