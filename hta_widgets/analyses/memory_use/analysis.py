"""Memory of each device over time, and what is alive when it is fullest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from hta_widgets.analyses.memory_use.columns import ALIVE, CURVE, PEAK, STEPS, SURVIVORS
from hta_widgets.analyses.memory_use.device_tables import DeviceTables
from hta_widgets.analyses.memory_use.finding import (
    NOT_IN_FORMAT,
    NOTHING,
    UNREADABLE,
    memory_finding,
)
from hta_widgets.analyses.memory_use.recorded import (
    DeviceMemory,
    impossible_events,
    recorded_memory,
)
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.rows import stacked, table_of
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.details import ALLOCATION, UNCATEGORISED, DetailGroup
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.notices import Notice, merge_notices
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

_TIMES = ("time_ns", "start_ns", "end_ns")

_TYPES = {
    "curve": CURVE,
    "peak": PEAK,
    "alive_at_peak": ALIVE,
    "steps": STEPS,
    "survivors": SURVIVORS,
}


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


@dataclass(frozen=True, kw_only=True, eq=False)
class MemoryUse(Result):
    """Memory that PyTorch's allocators hand out, as the profiler recorded it.

    All tables begin with ``rank``, ``device_type`` (``CPU``, ``CUDA``, ``HIP`` or ``type n``) and
    ``device`` (-1 for the CPU). Bytes and times are int64; times (ns) count from the job's origin,
    ranks aligned. At the peak of a device, `alive_at_peak` adds up to `peak`, exactly.

    Attributes
    ----------
    curve : DataFrame
        One row per allocation and free, by time: ``time_ns``, ``allocated_bytes`` from then on,
        ``reserved_bytes`` (what the allocator holds of the device; -1 where not recorded).
    peak : DataFrame
        One row per device, at the first moment at which most is allocated: ``bytes``, ``time_ns``,
        ``step`` (ProfilerStep, -1 outside of all), ``reserved_bytes`` (then),
        ``fragmentation_bytes`` (reserved and not allocated, then),
        ``largest_fragmentation_bytes`` (at any time), ``events``, ``allocated_in_all_bytes`` (sum
        of all allocations), ``breaks`` (events that do not continue the total before them).
    alive_at_peak : DataFrame
        What is allocated at the peak, largest first: ``operator`` (the innermost one that runs on
        the allocating thread, empty for none), ``caller`` (the innermost one that does more than
        allocate, such as the ``aten::mm`` around an ``aten::empty``), ``module`` (names from the
        outermost to the innermost, joined by " › "), ``category`` (see `CATEGORIES`), ``blocks``
        (0 for what was allocated before the recording, or of which no address tells when: these
        are not known), ``bytes``.
    steps : DataFrame
        One row per device and ProfilerStep, which lasts until the next begins: ``step``,
        ``start_ns``, ``end_ns``, ``allocated_at_end_bytes``, ``peak_bytes``, ``surviving_blocks``
        and ``surviving_bytes`` (of those allocated in the step, alive at the end of the next step;
        -1 for the last).
    survivors : DataFrame
        These blocks of all steps by ``operator``, ``caller`` and ``module``: ``blocks``, ``bytes``,
        largest first.
    """

    curve: pd.DataFrame
    peak: pd.DataFrame
    alive_at_peak: pd.DataFrame
    steps: pd.DataFrame
    survivors: pd.DataFrame


def memory_use(
    job: Job, ranks: Iterable[int] | None = None, *, device: int | None = None
) -> MemoryUse:
    """Follow the memory that is allocated and reserved on each device, and find what fills it.

    Every allocation opens a block at its address, which the next free of it closes. The CPU
    records memory events, so they are those of the whole recording.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks when not given.
    device : int, optional
        Only the device with this number, -1 for the CPU; all when not given.

    Raises
    ------
    UnknownRankError
        If the job lacks a rank.
    """
    chosen = job.select_ranks(ranks)
    by_rank = job.reduce(memory_tables, chosen)
    offsets_ns = job.offsets_ns(chosen)
    peak = _joined("peak", by_rank, offsets_ns, device)
    alive = _joined("alive_at_peak", by_rank, offsets_ns, device)
    steps = _joined("steps", by_rank, offsets_ns, device)
    survivors = _joined("survivors", by_rank, offsets_ns, device)
    notices = {rank: each.notices for rank, each in by_rank.items()}
    without = _without_events([*notices.values()])
    worth_saying = {} if peak.empty and without == NOTHING else notices
    return MemoryUse(
        curve=_joined("curve", by_rank, offsets_ns, device),
        peak=peak,
        alive_at_peak=alive,
        steps=steps,
        survivors=survivors,
        finding=memory_finding(peak, alive, steps, survivors, without),
        notices=(
            *job.notices_for(chosen),
            *job.lacking(chosen, Recorded.MEMORY),
            *merge_notices(worth_saying, name_ranks=len(job.ranks) > 1),
        ),
    )


def _without_events(notices: list[tuple[Notice, ...]]) -> str:
    """What to say if no rank has memory events."""
    if any({*each} - {NOT_RECORDED} for each in notices):
        return UNREADABLE
    return NOTHING if any(notices) else NOT_IN_FORMAT


def may_record_memory(job: Job) -> bool:
    """Whether any rank may have memory events, by what is loaded of it."""
    return any(job.reduce(may_record, job.ranks).values())


def may_record(rank: Rank) -> bool:
    """Whether a rank may have memory events, by what is loaded of it."""
    events = rank.trace.events
    return ALLOCATION in events.name.values or UNCATEGORISED in events.side


def _joined(
    name: str,
    by_rank: Mapping[int, RankMemory],
    offsets_ns: Mapping[int, int],
    device: int | None,
) -> pd.DataFrame:
    """One table of all ranks, on the clock of the job."""
    tables = []
    for rank, each in by_rank.items():
        table: pd.DataFrame = getattr(each, name)
        chosen = table if device is None else table[table["device"] == device]
        shifted = {
            column: chosen[column] + offsets_ns[rank] for column in _TIMES if column in chosen
        }
        tables.append(chosen.assign(**shifted))
    return stacked(tables, _TYPES[name])
