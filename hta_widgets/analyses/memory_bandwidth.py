"""Bandwidth of copies and memsets over time, by kind of transfer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.rows import TablesOfRanks, table_of
from hta_widgets.analyses.time.step_statistics import (
    OVER_TIME,
    PER_CHANGE,
    statistics_over_time,
    statistics_per_change,
)
from hta_widgets.arrays import Float64Array, Int64Array
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Intervals, Times
from hta_widgets.quantities import counted, data_size, duration, percent
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.events import Events
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

SHORTEST_NS = 1000
"""Duration (ns) of transfers that are recorded with a duration of 0, as in HTA."""

_ROUNDED_NS: Final = 1000
"""Most by which durations are rounded, to whole µs: by up to 999 ns in 27 recordings."""

UNKNOWN_COPY = "Memcpy Unknown"
MEMSET = "Memset"
_MEMSET_NAME = re.compile(r"^(hip|cuda)?Memset|fill_?buffer", re.IGNORECASE)
_COPY_NAME = re.compile(r"^(?:hip|cuda)?Memcpy\s*([A-Z]to[A-Z])")
_COPY_IN_WORDS = re.compile(r"^Copy(Host|Device)To(Host|Device)")

UNIT = "_gb_per_s"

_GIGA: Final = 1e9
"""Bytes per second of 1 GB/s."""

_UNKNOWN_BANDWIDTH = (
    "no bandwidth or size recorded for {} of {} copies and memsets; they count as 0 GB/s"
)

SPEEDS = tuple(f"{name}{UNIT}" for name in (*PER_CHANGE[1:], *OVER_TIME))

_TRANSFERS = {
    "rank": np.int64,
    "name": object,
    **dict.fromkeys(("operations", "without_bandwidth", "bytes", "busy_ns", "count"), np.int64),
    **dict.fromkeys(SPEEDS, np.float64),
}
"""Columns of `MemoryBandwidth.transfers` and their types."""


class Transfers(NamedTuple):
    """Copies and memsets of one rank, ascending by start."""

    work: GpuWork
    name: Int64Array
    """Codes into `names`."""
    names: tuple[str, ...]
    """Kinds of transfers, ascending."""
    duration_ns: Times
    """Duration as recorded, or `SHORTEST_NS` if that is 0."""
    transferred: Int64Array
    """Bytes; 0 if unknown."""
    gb_per_s: Float64Array
    """0 if unknown."""


@asked_once
def transfers_of(rank: Rank) -> Transfers:
    """Copies and memsets of one rank."""
    events, work = rank.trace.events, rank.gpu_work
    work = work.take(np.flatnonzero(work.type == KernelType.MEMORY))
    number, codes = pd.factorize(work.name)
    kinds = [transfer_name(work.names[code]) for code in codes.tolist()]
    names = tuple(sorted(set(kinds)))
    by_code = np.array([names.index(kind) for kind in kinds], dtype=np.int64)
    duration_ns = np.where(work.duration_ns == 0, SHORTEST_NS, work.duration_ns)
    transferred, stated = _recorded(events, work.rows)
    derived = transferred / duration_ns
    is_stated = np.isfinite(stated) & (stated > 0) & _are_per_second(stated, transferred, work)
    gb_per_s = np.where(is_stated, stated, derived)
    return Transfers(work, by_code[number], names, duration_ns, transferred, gb_per_s)


def kinds_of_transfers(rank: Rank) -> tuple[str, ...]:
    """Names of the kinds of copies and memsets of one rank, sorted."""
    return transfers_of(rank).names


@asked_once
def aligned_bandwidth(rank: Rank, offset_ns: int) -> Columns:
    """Columns of the changes of a rank, its times shifted by an offset (ns)."""
    events, transfers = rank.trace.events, transfers_of(rank)
    count = len(transfers.work)
    start_ns = transfers.work.start_ns
    time_ns = np.concatenate([start_ns + transfers.duration_ns, start_ns])
    order = np.argsort(time_ns, kind="stable")
    is_end = order < count
    copy = np.where(is_end, order, order - count)
    by_name = grouped(transfers.name[copy]).order
    copy, sign = copy[by_name], np.where(is_end[by_name], -1, 1)
    active = np.cumsum(sign * (transfers.gb_per_s[copy] > 0))
    return {
        "name": np.array(transfers.names, dtype=object)[transfers.name[copy]],
        "time_ns": time_ns[order[by_name]] + offset_ns,
        "bandwidth_gb_per_s": _sums_while_active(sign * transfers.gb_per_s[copy], active),
        "active": active,
        "pid": events.ids_in_source(events.pid[transfers.work.rows])[copy],
    }


def transfer_name(name: str) -> str:
    """Kind of a transfer, from the name of its event.

    Examples
    --------
    >>> transfer_name("Memcpy HtoD (Pageable -> Device)"), transfer_name("CopyDeviceToHost")
    ('Memcpy HtoD', 'Memcpy DtoH')
    >>> transfer_name("__amd_rocclr_fillBufferAligned"), transfer_name("__amd_rocclr_copyBuffer")
    ('Memset', 'Memcpy Unknown')
    """
    if _MEMSET_NAME.search(name):
        return MEMSET
    if found := _COPY_NAME.match(name):
        return f"Memcpy {found[1]}"
    if found := _COPY_IN_WORDS.match(name):
        return f"Memcpy {found[1][0]}to{found[2][0]}"
    return UNKNOWN_COPY


def _recorded(events: Events, rows: Int64Array) -> tuple[Int64Array, Float64Array]:
    """Bytes (0 if unknown) and bandwidth (GB/s, NaN if unknown) that the trace records."""
    transferred = np.zeros(rows.size, dtype=np.int64)
    stated = np.full(rows.size, np.nan)
    recorded = events.side.get("transfers")
    if recorded is None:
        return transferred, stated
    at = np.searchsorted(recorded.rows, rows)
    found = np.flatnonzero(np.append(recorded.rows, -1)[at] == rows)
    columns = {name: np.asarray(values)[at[found]] for name, values in recorded.columns.items()}
    transferred[found] = np.maximum(columns["bytes"], 0)
    stated[found] = columns["bandwidth_gb_per_s"]
    return transferred, stated


def _are_per_second(stated: Float64Array, transferred: Int64Array, work: GpuWork) -> bool:
    """Whether the stated bandwidths are bytes by duration.

    Before it rounded durations to µs, Kineto divided by them, so these are more exact. But for some
    months of 2024 it divided by ticks of the host's counter instead (pytorch/kineto#993).
    """
    both = np.flatnonzero((stated > 0) & (transferred > 0))
    lasted_ns = transferred[both] / stated[both]
    return bool((np.abs(lasted_ns - work.duration_ns[both]) <= _ROUNDED_NS).all())


def _sums_while_active(steps: Float64Array, active: Int64Array) -> Float64Array:
    """Running sum that is reset to exactly 0 whenever nothing is active."""
    total = np.cumsum(steps)
    idle = np.maximum.accumulate(np.where(active == 0, np.arange(active.size), -1))
    residue = np.where(idle < 0, 0, total[idle])
    return np.where(active == 0, 0, np.maximum(total - residue, 0))


@dataclass(frozen=True, kw_only=True, eq=False)
class MemoryBandwidth(Result):
    """Bandwidth of copies and memsets; reads and writes by kernels are not included.

    Attributes
    ----------
    changes : mapping of rank to DataFrame
        One row per start and per end of a transfer, by ``name`` (e.g. ``Memcpy HtoD``, ``Memset``)
        and ``time_ns`` (int64 ns since the job's origin, ranks aligned): ``bandwidth_gb_per_s``
        from then on, the sum over all streams and devices, exactly 0 when nothing runs;
        ``active`` (transfers of known bandwidth running); ``pid`` of the transfer.
    transfers : DataFrame
        One row per ``rank`` and ``name``: ``operations``; of them ``without_bandwidth``;
        ``bytes`` (of those with a size); ``busy_ns`` (at least one running); ``count``,
        ``mean_gb_per_s``, ``std_…``, ``min_…``, ``q25_…``, ``median_…``, ``q75_…``, ``max_…`` over
        the changes to more than 0, as in HTA; and ``mean_over_time_gb_per_s`` etc., weighted by how
        long each bandwidth above 0 lasts.
    """

    changes: TablesOfRanks
    transfers: pd.DataFrame


class _Sized(NamedTuple):
    """Transfers of one kind that record a size."""

    operations: int
    busy_ns: int
    """Time with at least one of them running."""
    moved: float
    """Their bandwidths over that time, in GB/s × ns, which are bytes apart from rounding of
    durations."""


def memory_bandwidth(job: Job, ranks: Iterable[int] | None = None) -> MemoryBandwidth:
    """Add up the bandwidth of the copies and memsets that run at the same time.

    A transfer has the bandwidth that the trace records. If the trace records none, 0 or text, or
    divides by something else than durations, it is bytes divided by duration; without bytes, the
    transfer counts as 0 GB/s. If a transfer starts when another ends, the end comes first.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks when not given.
    """
    chosen = select_ranks(job, ranks)
    changes, notices = dict[int, Columns](), dict[int, tuple[Notice, ...]]()
    rows, sized = list[dict[str, object]](), list[dict[str, _Sized]]()
    for number in chosen:
        rank, offset_ns = job.rank(number), job.offset_ns(number)
        changes[number] = aligned_bandwidth(rank, offset_ns)
        rows += rank.remember(_rows, offset_ns)
        sized.append(rank.remember(_sized))
        notices[number] = _unknown_bandwidth_notices(rank)
    transfers = table_of(rows, _TRANSFERS)
    return MemoryBandwidth(
        changes=TablesOfRanks(changes),
        transfers=transfers,
        finding=_bandwidth_finding(transfers, sized),
        notices=(*job.notices_for(chosen, Recorded.KERNELS), *job.merged(notices)),
    )


def transfer_statistics(job: Job, ranks: Iterable[int] | None = None) -> pd.DataFrame:
    """`MemoryBandwidth.transfers` alone."""
    of_ranks = (
        job.rank(rank).remember(_rows, job.offset_ns(rank)) for rank in select_ranks(job, ranks)
    )
    return table_of([row for rows in of_ranks for row in rows], _TRANSFERS)


def changes_by_kind(rank: Rank, offset_ns: int) -> dict[str, Columns]:
    """The `aligned_bandwidth` of each kind of transfer, by its name."""
    transfers, changes = transfers_of(rank), aligned_bandwidth(rank, offset_ns)
    last = 2 * np.cumsum(np.bincount(transfers.name, minlength=len(transfers.names)))
    return {
        name: {column: each[first:end] for column, each in changes.items()}
        for name, (first, end) in zip(transfers.names, pairwise([0, *last.tolist()]), strict=True)
    }


def _rows(rank: Rank, offset_ns: int) -> list[dict[str, object]]:
    number, transfers = rank.trace.rank, transfers_of(rank)
    of_kinds = changes_by_kind(rank, offset_ns).values()
    return [_row(number, code, transfers, changes) for code, changes in enumerate(of_kinds)]


def _unknown_bandwidth_notices(rank: Rank) -> tuple[Notice, ...]:
    gb_per_s = transfers_of(rank).gb_per_s
    unknown = int((gb_per_s == 0).sum())
    return (Notice(_UNKNOWN_BANDWIDTH, (unknown, gb_per_s.size)),) if unknown else ()


def _row(rank: int, code: int, transfers: Transfers, changes: Columns) -> dict[str, object]:
    mine = transfers.name == code
    bandwidth = changes["bandwidth_gb_per_s"]
    held_ns = np.diff(changes["time_ns"])
    running = bandwidth[:-1] > 0
    starts_ns = transfers.work.start_ns[mine]
    speeds = statistics_per_change(bandwidth[bandwidth > 0])
    count = speeds.pop("count")
    speeds |= statistics_over_time(bandwidth[:-1][running], held_ns[running])
    return {
        "rank": rank,
        "name": transfers.names[code],
        "operations": int(mine.sum()),
        "without_bandwidth": int((transfers.gb_per_s[mine] == 0).sum()),
        "bytes": int(transfers.transferred[mine].sum()),
        "busy_ns": Intervals.union(starts_ns, starts_ns + transfers.duration_ns[mine]).length,
        "count": count,
        **{f"{name}{UNIT}": speed for name, speed in speeds.items()},
    }


def _sized(rank: Rank) -> dict[str, _Sized]:
    """By kind, the transfers that count for the average bandwidth."""
    transfers = transfers_of(rank)
    found = {}
    for code, name in enumerate(transfers.names):
        mine = np.flatnonzero((transfers.name == code) & (transfers.transferred > 0))
        starts_ns, duration_ns = transfers.work.start_ns[mine], transfers.duration_ns[mine]
        busy_ns = Intervals.union(starts_ns, starts_ns + duration_ns).length
        moved = float((transfers.gb_per_s[mine] * duration_ns).sum())
        found[name] = _Sized(mine.size, busy_ns, moved)
    return found


def _bandwidth_finding(transfers: pd.DataFrame, sized: Sequence[Mapping[str, _Sized]]) -> str:
    """Sentence on the kind of transfer with the most time."""
    if transfers.empty:
        return "No copies or memsets were recorded on the selected ranks."
    operations = counted(int(transfers["operations"].sum()), "copy or memset", "copies and memsets")
    if not transfers["bytes"].any():
        return f"The trace has {operations} but no transfer sizes."
    return _of_longest(transfers, sized, operations)


def _of_longest(
    transfers: pd.DataFrame, sized: Sequence[Mapping[str, _Sized]], operations: str
) -> str:
    """Bytes, time and speed of the kind with the most time, all three over the same transfers."""
    moved = int(transfers["bytes"].sum())
    by_name = transfers.groupby("name")[["busy_ns", "bytes"]].sum()
    by_name = by_name.sort_values(["busy_ns", "bytes"])
    longest, (busy_ns, size) = by_name.index[-1], by_name.iloc[-1]
    took = f"{operations} moved {data_size(moved)}. {longest} took the most time"
    if not size:
        return f"{took} ({duration(busy_ns)}); its sizes are not recorded."
    of_kind = transfers[transfers["name"] == longest]
    of = _Sized(*map(sum, zip(*(each[longest] for each in sized if longest in each), strict=True)))
    speeds = (
        f"{data_size(_GIGA * of.moved / of.busy_ns)}/s on average, "
        f"{data_size(_GIGA * of_kind[f'max{UNIT}'].max())}/s at most"
    )
    in_time = f"moved {data_size(size)} in {duration(of.busy_ns)}: {speeds}"
    in_all, is_only = int(of_kind["operations"].sum()), len(by_name) == 1
    share = f"for {percent(100 * size / moved)} of the data"
    if of.operations < in_all:
        which = f"the {of.operations:,} of {in_all:,} with a recorded size {in_time}"
        if is_only:
            return f"{operations} ({longest}) took {duration(busy_ns)}; {which}."
        return f"{took} ({duration(busy_ns)}), {share}; {which}."
    if is_only:
        return f"{operations} ({longest}) {in_time}."
    return f"{took} ({duration(busy_ns)}), {share}: {speeds}."
