"""Copies and memsets, and the changes of the bandwidth that they use together."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.grouping import grouped
from hta_widgets.intervals import Times
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.events import Events
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

SHORTEST_NS = 1000
"""Duration (ns) of transfers that are recorded with a duration of 0, as in HTA."""

UNKNOWN_COPY = "Memcpy Unknown"
MEMSET = "Memset"
_MEMSET_NAME = re.compile(r"^(hip|cuda)?Memset|fill_?buffer", re.IGNORECASE)
_COPY_NAME = re.compile(r"^(?:hip|cuda)?Memcpy\s*([A-Z]to[A-Z])")
_COPY_IN_WORDS = re.compile(r"^Copy(Host|Device)To(Host|Device)")


class Transfers(NamedTuple):
    """Copies and memsets of one rank, ascending by start.

    Attributes
    ----------
    work : GpuWork
    name : ndarray of int64
        Codes into `names`.
    names : tuple of str
        Kinds of transfers, ascending.
    duration_ns : ndarray of int64
        As recorded, and `SHORTEST_NS` where that is 0.
    transferred : ndarray of int64
        Bytes; 0 if unknown.
    gb_per_s : ndarray of float64
        0 if unknown.
    """

    work: GpuWork
    name: NDArray[np.int64]
    names: tuple[str, ...]
    duration_ns: Times
    transferred: NDArray[np.int64]
    gb_per_s: NDArray[np.float64]


def transfers_of(rank: Rank) -> Transfers:
    """Copies and memsets of one rank."""
    return rank.remember(_transfers)


def bandwidth_changes(job: Job, rank: int) -> Columns:
    """Columns of `MemoryBandwidth.changes` of one rank: shared and read-only.

    Raises
    ------
    UnknownRankError
        If the job lacks the rank.
    """
    return aligned_bandwidth(job.rank(rank), job.offset_ns(rank))


def aligned_bandwidth(rank: Rank, offset_ns: int) -> Columns:
    """Columns of the changes of a rank, its times shifted by an offset (ns)."""
    return rank.remember(_changes, offset_ns)


def bandwidth_changes_table(job: Job, rank: int) -> pd.DataFrame:
    """`MemoryBandwidth.changes` of one rank."""
    return job.rank(rank).remember(_changes_table, job.offset_ns(rank)).copy(deep=False)


def _changes_table(rank: Rank, offset_ns: int) -> pd.DataFrame:
    return pd.DataFrame(aligned_bandwidth(rank, offset_ns), copy=False)


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


def _transfers(rank: Rank) -> Transfers:
    events, work = rank.trace.events, rank.gpu_work
    work = work.take(np.flatnonzero(work.type == KernelType.MEMORY))
    number, codes = pd.factorize(work.name)
    kinds = [transfer_name(work.names[code]) for code in codes.tolist()]
    names = tuple(sorted(set(kinds)))
    by_code = np.array([names.index(kind) for kind in kinds], dtype=np.int64)
    duration_ns = np.where(work.duration_ns == 0, SHORTEST_NS, work.duration_ns)
    transferred, stated = _recorded(events, work.rows)
    derived = transferred / duration_ns
    gb_per_s = np.where(np.isfinite(stated) & (stated > 0), stated, derived)
    return Transfers(work, by_code[number], names, duration_ns, transferred, gb_per_s)


def _recorded(
    events: Events, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
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


def _changes(rank: Rank, offset_ns: int) -> Columns:
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


def _sums_while_active(
    steps: NDArray[np.float64], active: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Running sum that is reset to exactly 0 whenever nothing is active."""
    total = np.cumsum(steps)
    idle = np.maximum.accumulate(np.where(active == 0, np.arange(active.size), -1))
    residue = np.where(idle < 0, 0, total[idle])
    return np.where(active == 0, 0, np.maximum(total - residue, 0))
