"""Memory of one rank as tables."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from hta_widgets.analyses.memory_use.columns import ALIVE, CURVE, PEAK, STEPS, SURVIVORS
from hta_widgets.analyses.memory_use.device_tables import DeviceTables
from hta_widgets.analyses.memory_use.recorded import (
    DeviceMemory,
    impossible_events,
    recorded_memory,
)
from hta_widgets.analyses.time.rows import stacked, table_of
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.ranks.rank import Rank

_BREAKS = (
    "{} memory events do not continue the total before them (some are missing): what is alive is "
    "followed from each of them anew"
)
_NO_TOTALS = (
    "memory events without totals, as written before 2022: what was allocated before the recording "
    "is not known, and the allocated memory is at least what is shown"
)
_IMPOSSIBLE = "{} memory events of sizes that no device has are left out"
NOT_RECORDED = Notice("no memory events were recorded (profile_memory=True records them)")


class RankMemory(NamedTuple):
    """Tables of `MemoryUse` of one rank, with times since the trace's origin."""

    curve: pd.DataFrame
    peak: pd.DataFrame
    alive_at_peak: pd.DataFrame
    steps: pd.DataFrame
    survivors: pd.DataFrame
    notices: tuple[Notice, ...]


def memory_tables(rank: Rank) -> RankMemory:
    """Memory of a rank; reads the memory events from the source of the trace."""
    memories = recorded_memory(rank)
    each = [DeviceTables(rank, memory) for memory in memories]
    return RankMemory(
        curve=stacked([tables.curve() for tables in each], CURVE),
        peak=table_of([tables.peak_row() for tables in each], PEAK),
        alive_at_peak=stacked([tables.alive_at_peak() for tables in each], ALIVE),
        steps=stacked([tables.steps() for tables in each], STEPS),
        survivors=stacked([tables.survivors() for tables in each], SURVIVORS),
        notices=_notices(rank, memories),
    )


def _notices(rank: Rank, memories: tuple[DeviceMemory, ...]) -> tuple[Notice, ...]:
    if rank.lacking([Recorded.MEMORY]):
        return ()
    reasons = rank.details(DetailGroup.MEMORY).notices
    impossible = impossible_events(rank)
    if impossible:
        reasons = (*reasons, Notice(_IMPOSSIBLE, (impossible,)))
    if not memories:
        return reasons or (NOT_RECORDED,)
    breaks = sum(memory.breaks for memory in memories)
    found = [Notice(_BREAKS, (breaks,))] if breaks else []
    if not all(memory.has_totals for memory in memories):
        found.append(Notice(_NO_TOTALS))
    return (*reasons, *found)
