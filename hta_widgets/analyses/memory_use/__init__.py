"""Memory of each device over time, and what is alive at its peak."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import pandas as pd

from hta_widgets.analyses.memory_use.device_tables import (
    ALIVE,
    CURVE,
    PEAK,
    STEPS,
    SURVIVORS,
    DeviceTables,
)
from hta_widgets.analyses.memory_use.owners import BEFORE
from hta_widgets.analyses.memory_use.recorded import NOT_RECORDED as NO_SIZE
from hta_widgets.analyses.memory_use.recorded import read_memory
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.rows import Row, records, stacked, table_of
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import counted, data_size, percent
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.details import may_have_memory
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
_TIMES = ("time_ns", "start_ns", "end_ns")

_TYPES = {
    "curve": CURVE,
    "peak": PEAK,
    "alive_at_peak": ALIVE,
    "steps": STEPS,
    "survivors": SURVIVORS,
}

LEAST_STEPS: Final = 4
"""Fewer steps do not show whether memory keeps growing."""

LEAST_GROWTH_BYTES: Final = 1_000_000

LEAST_GROWTH: Final = 0.001
"""Least growth in every single step that counts as a leak: in bytes, and as a share of what was
allocated."""

WORTH_SAYING: Final = 0.1
"""Share of the peak from which its largest owner is named."""

NAME_WIDTH: Final = 60
UNREADABLE: Final = "The memory events of the selected ranks could not be read."
NOT_IN_FORMAT: Final = "No memory events were recorded on the selected ranks."

NOTHING: Final = (
    "No memory events were recorded on the selected ranks (profile_memory=True records them)."
)

_NOUNS: Final = {
    "temporary": "is freed by the operator that allocated it",
    "activation": "are activations",
    "gradient": "are gradients",
    "optimizer state": "is optimizer state",
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
    each = [DeviceTables(rank, memory) for memory in read_memory(rank).devices]
    return RankMemory(
        curve=stacked([tables.curve() for tables in each], CURVE),
        peak=table_of([tables.peak_row() for tables in each], PEAK),
        alive_at_peak=stacked([tables.alive_at_peak() for tables in each], ALIVE),
        steps=stacked([tables.steps() for tables in each], STEPS),
        survivors=stacked([tables.survivors() for tables in each], SURVIVORS),
        notices=_notices(rank),
    )


def _notices(rank: Rank) -> tuple[Notice, ...]:
    if rank.lacking([Recorded.MEMORY]):
        return ()
    memories, impossible, reasons = read_memory(rank)
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

    All tables start with ``rank``, ``device_type`` (``CPU``, ``CUDA``, ``HIP`` or ``type n``) and
    ``device`` (-1 for the CPU). Bytes and times are int64; times (ns) count from the job's origin,
    with ranks aligned. For each device, `alive_at_peak` adds up exactly to `peak`.

    Attributes
    ----------
    curve : DataFrame
        One row per allocation and free, by time: ``time_ns``, ``allocated_bytes`` from then on,
        ``reserved_bytes`` (what the allocator holds of the device; -1 where not recorded).
    peak : DataFrame
        One row per device, at the first moment with the most allocated: ``bytes``, ``time_ns``,
        ``step`` (ProfilerStep, -1 outside of all), ``reserved_bytes`` (then),
        ``fragmentation_bytes`` (reserved but not allocated, then),
        ``largest_fragmentation_bytes`` (at any time), ``events``, ``allocated_in_all_bytes`` (sum
        of all allocations), ``breaks`` (events that do not continue the previous total).
    alive_at_peak : DataFrame
        What is allocated at the peak, largest first: ``operator`` (the innermost one that runs on
        the allocating thread, empty for none), ``caller`` (the innermost one that does more than
        allocate, such as the ``aten::mm`` around an ``aten::empty``), ``module`` (names, outermost
        first, joined by " › "), ``category`` (see `CATEGORIES`), ``blocks`` (0 for unknown ones:
        allocated before the recording, or without an address that shows when), ``bytes``.
    steps : DataFrame
        One row per device and ProfilerStep, which lasts until the next one starts: ``step``,
        ``start_ns``, ``end_ns``, ``allocated_at_end_bytes``, ``peak_bytes``, ``surviving_blocks``
        and ``surviving_bytes`` (allocated in the step, alive at the end of the next step; -1 for
        the last).
    survivors : DataFrame
        The surviving blocks of all steps by ``operator``, ``caller`` and ``module``: ``blocks``,
        ``bytes``, largest first.
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

    Every allocation opens a block at its address, which the next free of this address closes. The
    CPU records memory events, so they cover the whole recording.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks if not given.
    device : int, optional
        Only the device with this number, -1 for the CPU; all if not given.
    """
    chosen = select_ranks(job, ranks)
    by_rank = job.reduce(memory_tables, chosen)
    offsets_ns = job.offsets_ns(chosen)
    tables = {name: _joined(name, by_rank, offsets_ns, device) for name in _TYPES}
    _, peak, alive, steps, survivors = tables.values()
    notices = {rank: each.notices for rank, each in by_rank.items()}
    without = _without_events([*notices.values()])
    worth_saying = {} if peak.empty and without == NOTHING else notices
    return MemoryUse(
        **tables,
        finding=memory_finding(peak, alive, steps, survivors, without),
        notices=(*job.notices_for(chosen, Recorded.MEMORY), *job.merged(worth_saying)),
    )


def _without_events(notices: list[tuple[Notice, ...]]) -> str:
    """What to say if no rank has memory events."""
    if any({*each} - {NOT_RECORDED} for each in notices):
        return UNREADABLE
    return NOTHING if any(notices) else NOT_IN_FORMAT


def may_record_memory(job: Job) -> bool:
    """Whether any rank may have memory events, judging by what is loaded."""
    return any(job.reduce(_may_record, job.ranks).values())


def _may_record(rank: Rank) -> bool:
    return may_have_memory(rank.trace.events)


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
        shifted = {time: chosen[time] + offsets_ns[rank] for time in _TIMES if time in chosen}
        tables.append(chosen.assign(**shifted))
    return stacked(tables, _TYPES[name])


def memory_finding(
    peak: pd.DataFrame,
    alive: pd.DataFrame,
    steps: pd.DataFrame,
    survivors: pd.DataFrame,
    without: str = NOTHING,
) -> str:
    """The highest peak of a GPU and what fills it, and memory that grows with every step.

    The tables are those of `MemoryUse`; `without` is what to say if there are no events.
    """
    if peak.empty:
        return without
    on_gpu = peak[peak["device_type"] != "CPU"]
    table = on_gpu if len(on_gpu) else peak
    highest = records(table.loc[[table["bytes"].idxmax()]])[0]
    several = len(set(peak["rank"])) > 1
    said = _peak(highest, _of(alive, highest), name_rank=several)
    leak = _largest_leak(steps, survivors, name_rank=several)
    return f"{said} {leak}".rstrip()


def device_name(row: Row, *, name_rank: bool) -> str:
    """A device in words, with its rank if there are several."""
    of_rank = f" of rank {row['rank']}" if name_rank else ""
    if row["device_type"] == "CPU":
        return f"the CPU{of_rank}"
    kind = f"{row['device_type']} device" if str(row["device_type"]).startswith("type") else "GPU"
    return f"{kind} {row['device']}{of_rank}"


def _of(table: pd.DataFrame, row: Row) -> pd.DataFrame:
    """Rows of the same device."""
    same = table["rank"] == row["rank"]
    for name in ("device_type", "device"):
        same &= table[name] == row[name]
    chosen: pd.DataFrame = table.loc[same]
    return chosen


def _peak(row: Row, alive: pd.DataFrame, *, name_rank: bool) -> str:
    size, reserved = int(row["bytes"]), int(row["reserved_bytes"])
    whose = f"The memory of {device_name(row, name_rank=name_rank)} peaks"
    said = f"{whose} at {data_size(size)}"
    if reserved == NO_SIZE:
        said = f"{whose} {data_size(size)} above its lowest point (totals were not recorded)"
    if reserved > 0:
        said += f" of {data_size(reserved)} reserved"
    parts = _parts(alive, size)
    return f"{said}: {parts}." if parts else f"{said}."


def _parts(alive: pd.DataFrame, size: int) -> str:
    """What fills the peak: earlier allocations, the largest category, and the largest owner."""
    by_category = alive.groupby("category")["bytes"].sum()
    parts = []
    before = int(by_category.get(BEFORE, 0))
    if before >= WORTH_SAYING * size:
        parts.append(f"{percent(100 * before / size)} was allocated before the recording")
    known = by_category[[name for name in _NOUNS if name in by_category.index]]
    if len(known) and known.max() >= WORTH_SAYING * size:
        noun = _NOUNS[str(known.idxmax())]
        parts.append(f"{percent(100 * known.max() / size)} {noun}")
    by_owner = alive[alive["caller"] != ""].groupby("caller")["bytes"].sum()
    if len(by_owner) and by_owner.max() >= WORTH_SAYING * size:
        owner = short_name(str(by_owner.idxmax()), NAME_WIDTH)
        parts.append(f"{data_size(int(by_owner.max()))} was allocated by {owner}")
    return "; ".join(parts)


def _largest_leak(steps: pd.DataFrame, survivors: pd.DataFrame, *, name_rank: bool) -> str:
    """The device whose allocated memory grows the most, and what owns the growth; or nothing."""
    leaks = [
        (grown, table)
        for _, table in steps.groupby(["rank", "device_type", "device"], sort=False)
        if (grown := leaked_bytes(table["allocated_at_end_bytes"].tolist()))
    ]
    if not leaks:
        return ""
    grown, table = max(leaks, key=lambda each: each[0])
    row = records(table.iloc[:1])[0]
    each = data_size(grown / (len(table) - 1))
    said = (
        f"What is allocated on {device_name(row, name_rank=name_rank)} grows in each of "
        f"{counted(len(table), 'step')}, by {each} a step"
    )
    staying = _of(survivors, row)
    if staying.empty or not staying["caller"].iloc[0]:
        return f"{said}."
    owner = staying.iloc[0]
    of = f" in {short_name(owner['module'], NAME_WIDTH)}" if owner["module"] else ""
    name = short_name(owner["caller"], NAME_WIDTH)
    return f"{said}; most of what stays was allocated by {name}{of} ({data_size(owner['bytes'])})."


def leaked_bytes(at_ends: list[int]) -> int:
    """Growth from the end of the first step to the end of the last, 0 unless every step grows."""
    if len(at_ends) < LEAST_STEPS:
        return 0
    grows = all(
        after - before > max(LEAST_GROWTH_BYTES, LEAST_GROWTH * before)
        for before, after in pairwise(at_ends)
    )
    return at_ends[-1] - at_ends[0] if grows else 0
