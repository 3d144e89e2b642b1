"""Bandwidth of copies and fills over time, by kind of transfer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.result import Result
from hta_widgets.analyses.rows import table_of
from hta_widgets.analyses.step_statistics import (
    OVER_TIME,
    PER_CHANGE,
    statistics_over_time,
    statistics_per_change,
)
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Intervals, Times
from hta_widgets.quantities import data_size, duration, number, percent
from hta_widgets.trace.events import Events
from hta_widgets.trace.formats import Recorded
from hta_widgets.trace.gpu_work import GpuWork
from hta_widgets.trace.job import Job
from hta_widgets.trace.kernels import KernelType
from hta_widgets.trace.notices import Notice, summed_over_ranks

SHORTEST_NS = 1000
"""Transfers recorded with a duration of 0 count as so long, as in HTA."""

UNKNOWN_COPY = "Memcpy Unknown"
FILL = "Memset"
_FILL_NAME = re.compile(r"^(hip|cuda)?Memset|fill_?buffer", re.IGNORECASE)
_COPY_NAME = re.compile(r"^(?:hip|cuda)?Memcpy\s*([A-Z]to[A-Z])")
_COPY_IN_WORDS = re.compile(r"^Copy(Host|Device)To(Host|Device)")

UNIT = "_gb_per_s"
SPEEDS = tuple(f"{name}{UNIT}" for name in (*PER_CHANGE[1:], *OVER_TIME))
_CHANGES = ("name", "time_ns", "bandwidth_gb_per_s", "active", "pid")
_TRANSFERS = {
    "rank": np.int64,
    "name": object,
    **dict.fromkeys(("operations", "without_bandwidth", "bytes", "busy_ns", "count"), np.int64),
    **dict.fromkeys(SPEEDS, np.float64),
}
"""Columns of `MemoryBandwidth.transfers` and their types."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MemoryBandwidth(Result):
    """Bandwidth of copies and fills; what kernels read and write themselves is not in it.

    Attributes
    ----------
    changes : mapping of rank to DataFrame
        One row per start and per end of a transfer, by ``name`` (e.g. ``Memcpy HtoD``, ``Memset``)
        and ``time_ns`` (int64 ns since the job's origin, ranks aligned): ``bandwidth_gb_per_s``
        from then on, the sum over all streams and devices, exactly 0 where nothing runs;
        ``active`` (transfers of known bandwidth running); ``pid`` of the transfer.
    transfers : DataFrame
        One row per ``rank`` and ``name``: ``operations``; of them ``without_bandwidth``;
        ``bytes`` (of those that say); ``busy_ns`` (at least one running); ``count``,
        ``mean_gb_per_s``, ``std_…``, ``min_…``, ``q25_…``, ``median_…``, ``q75_…``, ``max_…`` over
        the changes to more than 0, as in HTA; and ``mean_over_time_gb_per_s`` etc., weighted by how
        long each bandwidth above 0 holds.
    """

    changes: Mapping[int, pd.DataFrame]
    transfers: pd.DataFrame


class _Copies(NamedTuple):
    """Transfers of one rank, ascending by start."""

    work: GpuWork
    name: NDArray[np.int64]
    names: tuple[str, ...]
    duration_ns: Times
    transferred: NDArray[np.int64]
    gb_per_s: NDArray[np.float64]


def memory_bandwidth(job: Job, ranks: Iterable[int] | None = None) -> MemoryBandwidth:
    """Add up the bandwidth of the copies and fills that run at a time.

    A transfer has the bandwidth that the trace states, and where it states none, 0 or no number,
    its bytes divided by its duration. One without bytes as well adds nothing. Where a transfer
    starts as another ends, the end comes first.

    Parameters
    ----------
    job : Job
    ranks : iterable of int, optional
        All ranks when not given.

    Returns
    -------
    MemoryBandwidth

    Raises
    ------
    UnknownRankError
        If the job lacks a rank.
    """
    chosen = job.select_ranks(ranks)
    rows = [row for rank in chosen for row in _rows_of(job, rank)]
    transfers = table_of(rows, _TRANSFERS)
    notices = {rank: _notices(_copies_of(job, rank)) for rank in chosen}
    return MemoryBandwidth(
        changes=bandwidth_changes(job, chosen),
        transfers=transfers,
        finding=_finding(transfers),
        notices=(
            *job.notices_for(chosen),
            *job.lacking(chosen, Recorded.KERNELS),
            *summed_over_ranks(notices, name_ranks=len(job.ranks) > 1),
        ),
    )


def bandwidth_changes(job: Job, ranks: Iterable[int] | None = None) -> dict[int, pd.DataFrame]:
    """Add up by rank, as `MemoryBandwidth.changes`."""
    chosen = job.select_ranks(ranks)
    return {rank: _changes_of(job, rank).copy(deep=False) for rank in chosen}


def transfer_name(name: str) -> str:
    """Kind of a transfer, from the name of its event.

    Examples
    --------
    >>> transfer_name("Memcpy HtoD (Pageable -> Device)"), transfer_name("CopyDeviceToHost")
    ('Memcpy HtoD', 'Memcpy DtoH')
    >>> transfer_name("__amd_rocclr_fillBufferAligned"), transfer_name("__amd_rocclr_copyBuffer")
    ('Memset', 'Memcpy Unknown')
    """
    if _FILL_NAME.search(name):
        return FILL
    if found := _COPY_NAME.match(name):
        return f"Memcpy {found[1]}"
    if found := _COPY_IN_WORDS.match(name):
        return f"Memcpy {found[1][0]}to{found[2][0]}"
    return UNKNOWN_COPY


def _copies_of(job: Job, rank: int) -> _Copies:
    """Transfers of one rank, which no parameter touches."""
    return job.remember(
        ("transfers", rank), lambda: _copies(job.gpu_work(rank), job.rank(rank).trace.events)
    )


def _changes_of(job: Job, rank: int) -> pd.DataFrame:
    """Changes on one rank, which no parameter touches."""

    def build() -> pd.DataFrame:
        return _changes(job.rank(rank).trace.events, _copies_of(job, rank), job.offset_ns(rank))

    return job.remember(("bandwidth changes", rank), build)


def _rows_of(job: Job, rank: int) -> list[dict[str, object]]:
    """Statistics of one rank, which no parameter touches."""

    def build() -> list[dict[str, object]]:
        copies, changes = _copies_of(job, rank), _changes_of(job, rank)
        last = 2 * np.cumsum(np.bincount(copies.name, minlength=len(copies.names)))
        return [
            _row(rank, code, copies, changes.iloc[first:end])
            for code, (first, end) in enumerate(pairwise([0, *last.tolist()]))
        ]

    return job.remember(("bandwidths", rank), build)


def _notices(copies: _Copies) -> tuple[Notice, ...]:
    unknown = int((copies.gb_per_s == 0).sum())
    words = "{} of {} copies and fills say neither bandwidth nor bytes; they add 0 GB/s"
    return (Notice(words, (unknown, copies.gb_per_s.size)),) if unknown else ()


def _copies(work: GpuWork, events: Events) -> _Copies:
    work = work.take(np.flatnonzero(work.type == KernelType.MEMORY))
    by_name = grouped(work.name)
    kinds = [transfer_name(work.names[code]) for code in work.name[by_name.first].tolist()]
    names = tuple(sorted(set(kinds)))
    by_code = np.array([names.index(kind) for kind in kinds], dtype=np.int64)
    duration_ns = np.where(work.duration_ns == 0, SHORTEST_NS, work.duration_ns)
    transferred, stated = _recorded(events, work.rows)
    reckoned = transferred / duration_ns
    gb_per_s = np.where(np.isfinite(stated) & (stated > 0), stated, reckoned)
    return _Copies(work, by_code[by_name.number], names, duration_ns, transferred, gb_per_s)


def _recorded(
    events: Events, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Bytes (0 when unknown) and bandwidth (GB/s, NaN when unknown) that the trace states."""
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


def _changes(events: Events, copies: _Copies, offset_ns: int) -> pd.DataFrame:
    count = len(copies.work)
    start_ns = copies.work.start_ns
    time_ns = np.concatenate([start_ns + copies.duration_ns, start_ns])
    order = np.argsort(time_ns, kind="stable")
    is_end = order < count
    copy = np.where(is_end, order, order - count)
    by_name = grouped(copies.name[copy]).order
    copy, sign = copy[by_name], np.where(is_end[by_name], -1, 1)
    active = np.cumsum(sign * (copies.gb_per_s[copy] > 0))
    columns = {
        "name": np.array(copies.names, dtype=object)[copies.name[copy]],
        "time_ns": time_ns[order[by_name]] + offset_ns,
        "bandwidth_gb_per_s": _sums_while_active(sign * copies.gb_per_s[copy], active),
        "active": active,
        "pid": events.ids_in_source(events.pid[copies.work.rows])[copy],
    }
    return pd.DataFrame(columns, columns=list(_CHANGES), copy=False)


def _sums_while_active(
    steps: NDArray[np.float64], active: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Running sum that begins anew, at exactly 0, whenever nothing is active."""
    total = np.cumsum(steps)
    idle = np.maximum.accumulate(np.where(active == 0, np.arange(active.size), -1))
    residue = np.where(idle < 0, 0, total[idle])
    return np.where(active == 0, 0, np.maximum(total - residue, 0))


def _row(rank: int, code: int, copies: _Copies, changes: pd.DataFrame) -> dict[str, object]:
    mine = copies.name == code
    bandwidth = changes["bandwidth_gb_per_s"].to_numpy()
    held_ns = np.diff(changes["time_ns"].to_numpy())
    running = bandwidth[:-1] > 0
    starts_ns = copies.work.start_ns[mine]
    speeds = statistics_per_change(bandwidth[bandwidth > 0])
    count = speeds.pop("count")
    speeds |= statistics_over_time(bandwidth[:-1][running], held_ns[running])
    return {
        "rank": rank,
        "name": copies.names[code],
        "operations": int(mine.sum()),
        "without_bandwidth": int((copies.gb_per_s[mine] == 0).sum()),
        "bytes": int(copies.transferred[mine].sum()),
        "busy_ns": Intervals.union(starts_ns, starts_ns + copies.duration_ns[mine]).length,
        "count": count,
        **{f"{name}{UNIT}": speed for name, speed in speeds.items()},
    }


def _finding(transfers: pd.DataFrame) -> str:
    if transfers.empty:
        return "No copies or fills were recorded on these ranks."
    moved, operations = int(transfers["bytes"].sum()), int(transfers["operations"].sum())
    if not moved:
        return f"{operations:,} copies and fills ran; the trace does not say how much they moved."
    by_name = transfers.groupby("name")[["bytes", "busy_ns"]].sum().sort_values("bytes")
    most, size, busy_ns = by_name.index[-1], by_name["bytes"].iloc[-1], by_name["busy_ns"].iloc[-1]
    highest = transfers.loc[transfers["name"] == most, "max_gb_per_s"].max()
    return (
        f"{operations:,} copies and fills moved {data_size(moved)}, {percent(100 * size / moved)} "
        f"of it as {most}: {duration(busy_ns)} at {number(size / busy_ns)} GB/s on average, "
        f"at most {number(highest)} GB/s."
    )
