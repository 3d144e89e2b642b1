"""Bandwidth of copies and memsets over time, by kind of transfer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.memory_bandwidth.changes import (
    Transfers,
    aligned_bandwidth,
    bandwidth_changes_table,
    transfers_of,
)
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.rows import table_of
from hta_widgets.analyses.time.step_statistics import (
    OVER_TIME,
    PER_CHANGE,
    statistics_over_time,
    statistics_per_change,
)
from hta_widgets.intervals import Intervals
from hta_widgets.quantities import counted, data_size, duration, number, percent
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.notices import Notice, merge_notices
from hta_widgets.trace.ranks.rank import Rank

UNIT = "_gb_per_s"
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
        long each bandwidth above 0 holds.
    """

    changes: Mapping[int, pd.DataFrame]
    transfers: pd.DataFrame


class _Sized(NamedTuple):
    """Transfers of one kind that record a size.

    Attributes
    ----------
    operations : int
    busy_ns : int
        Time with at least one of them running.
    moved : float
        Their bandwidths over that time, in GB/s × ns: a byte each, but for what durations round.
    """

    operations: int
    busy_ns: int
    moved: float


class _RankBandwidth(NamedTuple):
    """Parameter-independent part of the analysis of one rank."""

    changes: pd.DataFrame
    rows: list[dict[str, object]]
    sized: dict[str, _Sized]
    notices: tuple[Notice, ...]


def memory_bandwidth(job: Job, ranks: Iterable[int] | None = None) -> MemoryBandwidth:
    """Add up the bandwidth of the copies and memsets that run at the same time.

    A transfer has the bandwidth that the trace records. If it records none, 0 or text, bytes
    divided by duration takes its place; without bytes, the transfer counts as 0 GB/s. If a transfer
    starts when another ends, the end comes first.

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
    by_rank = {rank: _bandwidth_of_rank(job, rank) for rank in chosen}
    transfers = _table(each.rows for each in by_rank.values())
    notices = {rank: each.notices for rank, each in by_rank.items()}
    return MemoryBandwidth(
        changes={rank: each.changes for rank, each in by_rank.items()},
        transfers=transfers,
        finding=_bandwidth_finding(transfers, [each.sized for each in by_rank.values()]),
        notices=(
            *job.notices_for(chosen),
            *job.lacking(chosen, Recorded.KERNELS),
            *merge_notices(notices, name_ranks=len(job.ranks) > 1),
        ),
    )


def transfer_statistics(job: Job, ranks: Iterable[int] | None = None) -> pd.DataFrame:
    """`MemoryBandwidth.transfers` alone."""
    return _table(_rows_of(job, rank) for rank in job.select_ranks(ranks))


def _table(of_ranks: Iterable[Sequence[Mapping[str, object]]]) -> pd.DataFrame:
    return table_of([row for rows in of_ranks for row in rows], _TRANSFERS)


def _bandwidth_of_rank(job: Job, rank: int) -> _RankBandwidth:
    return _RankBandwidth(
        changes=bandwidth_changes_table(job, rank),
        rows=_rows_of(job, rank),
        sized=job.rank(rank).remember(_sized),
        notices=_unknown_bandwidth_notices(transfers_of(job.rank(rank))),
    )


def _rows_of(job: Job, rank: int) -> list[dict[str, object]]:
    return job.rank(rank).remember(_rows, job.offset_ns(rank))


def _rows(rank: Rank, offset_ns: int) -> list[dict[str, object]]:
    number, transfers = rank.trace.rank, transfers_of(rank)
    changes = aligned_bandwidth(rank, offset_ns)
    last = 2 * np.cumsum(np.bincount(transfers.name, minlength=len(transfers.names)))
    return [
        _row(number, code, transfers, {name: each[first:end] for name, each in changes.items()})
        for code, (first, end) in enumerate(pairwise([0, *last.tolist()]))
    ]


def _unknown_bandwidth_notices(transfers: Transfers) -> tuple[Notice, ...]:
    unknown = int((transfers.gb_per_s == 0).sum())
    return (Notice(_UNKNOWN_BANDWIDTH, (unknown, transfers.gb_per_s.size)),) if unknown else ()


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
    """By kind: what the average bandwidth is of."""
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
    """Sentence on the kind of transfer with most time."""
    if transfers.empty:
        return "No copies or memsets were recorded on the selected ranks."
    operations = counted(int(transfers["operations"].sum()), "copy or memset", "copies and memsets")
    if not transfers["bytes"].any():
        return f"The trace has {operations} but no transfer sizes."
    return _of_longest(transfers, sized, operations)


def _of_longest(
    transfers: pd.DataFrame, sized: Sequence[Mapping[str, _Sized]], operations: str
) -> str:
    """Bytes, time and speed of the kind with most time; all three are of the same transfers."""
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
        f"{number(of.moved / of.busy_ns)} GB/s on average, "
        f"{number(of_kind[f'max{UNIT}'].max())} GB/s at most"
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
