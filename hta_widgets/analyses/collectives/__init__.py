"""Collectives across ranks: who waits, who is late, how long the transfer takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analyses.clocks.aligned import JobClocks, job_clocks
from hta_widgets.analyses.collectives.waits import (
    CLASSES,
    INCONCLUSIVE,
    NOBODY,
    RankOwners,
    Waits,
    owner_columns,
    rank_owners,
    split_waits,
)
from hta_widgets.analyses.communication.kernels import P2P, JobCollectives, Series
from hta_widgets.analyses.communication.matching import Matches
from hta_widgets.analyses.communication.partition import RankSplit
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.rows import largest_first
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.quantities import counted, duration, number_ranges, percent
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.events import TextColumn
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.facts import world_size_among, world_size_of

KEYS = ("collective", "dtype", "bytes", "group", "group_ranks")
_CLASS_INDEX = pd.Index(CLASSES, dtype=object)
_BANDWIDTHS = pd.Index(["transfer", "duration"], dtype=object)
_GROUP_BANDWIDTHS = _BANDWIDTHS.append(pd.Index(["both"], dtype=object))


@dataclass(frozen=True, kw_only=True, eq=False)
class Collectives(Result):
    """Communication kernels, and the collectives of several ranks that they are part of.

    Kernels of several ranks are one collective if they are the k-th of the same name in the same
    process group, of the same send and receive, or, without recorded fields, of the same kernel
    name. Sends and receives whose partners are not recorded are one if they end together, none
    before all have started, and more often than by chance. Their time is split on aligned clocks
    (`clocks`): **wait** until the last member has started, **transfer** from then on. A value is
    missing if it cannot be determined.

    Attributes
    ----------
    kernels : DataFrame
        One row per communication kernel, ascending by rank and start: ``rank``, ``device``,
        ``stream``; ``start_ns`` (int64, since the first event of all ranks, on aligned clocks),
        ``duration_ns`` (int64, as recorded); ``collective`` (as recorded, or else the name of the
        kernel), ``dtype``, ``bytes`` (the larger of input and output; if several kernels share one
        record, on the longest, 0 for the others); ``group`` (description of the process group, or
        else its name), ``group_ranks`` (such as ``0-7``; for a send, ``0 to 1``), ``group_size``;
        ``match`` (row in `matched`; -1 if none); ``wait_ns`` (before the last known arrival),
        ``unexplained_wait_ns`` (after it, but longer than the transfer takes elsewhere: the trace
        of the rank that it waits for is missing), ``transfer_ns``; the three add up to the
        duration; ``algbw_gb_per_s`` (bytes ÷ time), ``busbw_gb_per_s`` (× 2(n-1)/n for all-reduce,
        (n-1)/n for all-gather, reduce-scatter and all-to-all: comparable with the speed of a link),
        ``bandwidth_of`` (``transfer``, or ``duration``, which includes waiting); ``exposed_ns``
        (int64; time without computation, counted for the first kernel to start of those that run,
        so that it adds up to the exposed communication of `overlap`); ``late_rank`` (arrives last,
        by more than the uncertainty of the clocks); ``class`` of the collective
        (``transfer-dominated`` or ``arrival-skew-dominated``: at least 80 % of its mean duration;
        ``mixed``; ``inconclusive``); ``module`` (names of the modules around the launch call, or
        around the forward operator that it differentiates, outermost first, joined by " › "),
        ``phase`` (``forward``, ``backward``, ``optimizer``, ``other``; missing if the launch is not
        recorded).
    matched : DataFrame
        One row per collective with kernels on at least two ranks or devices of the whole job:
        ``match``, ``collective``, ``dtype``, ``bytes``, ``group``, ``group_ranks``, ``group_size``,
        ``ordinal`` (position among those of its kind in the group), ``members`` (number of
        kernels); ``first_arrival_ns``, ``last_arrival_ns``, ``end_ns`` (int64, like ``start_ns``;
        the end is the median of the members); ``lateness_ns`` (median to last arrival),
        ``transfer_ns`` (from the last arrival to the end), ``late_rank``, ``class``.
    groups : DataFrame
        One row per collective, type, size and process group of the kernels, most time first:
        ``collective``, ``dtype``, ``bytes``, ``group``, ``group_ranks``; ``count``, ``total_ns``,
        ``median_ns`` (of the durations); ``wait_ns``, ``unexplained_wait_ns``, ``transfer_ns``
        (sums over the matched kernels, missing without any), ``exposed_ns`` (sum);
        ``algbw_gb_per_s``, ``busbw_gb_per_s`` (medians), ``bandwidth_of`` (``transfer``,
        ``duration``, which includes waiting, or ``both``, by kernel); ``share_percent`` (of the
        time of all kernels).
    """

    kernels: pd.DataFrame
    matched: pd.DataFrame
    groups: pd.DataFrame


def collectives(job: Job, ranks: Iterable[int] | None = None) -> Collectives:
    """Match the communication kernels of all ranks, and split their time into wait and transfer.

    Parameters
    ----------
    ranks : iterable of int, optional
        Ranks whose kernels are listed; all if not given. They are matched with the kernels of all
        ranks of the job in any case.
    """
    chosen = select_ranks(job, ranks)
    kernels, matched, notices = job.remember(_whole_job)
    if len(chosen) < len(job.ranks):
        kernels = kernels[kernels["rank"].isin(chosen)].reset_index(drop=True)
    return Collectives(
        kernels=kernels,
        matched=matched,
        groups=group_table(kernels),
        finding=_collectives_finding(kernels),
        notices=(*job.notices_for(chosen), *notices),
    )


def _whole_job(job: Job) -> tuple[pd.DataFrame, pd.DataFrame, tuple[str, ...]]:
    """Kernels and matched collectives of all ranks, and notices."""
    clocks, split = job_clocks(job), job_waits(job)
    owners = [*job.reduce(rank_owners, job.ranks).values()]
    notices = (*clocks.notices, *split.notices, *_unmatched_notices(clocks, split))
    return kernel_table(clocks, split, owners), match_table(split), notices


@asked_once
def job_waits(job: Job) -> Waits:
    """Waiting and transfer of all matched collectives of a job, computed once."""
    world = world_size_among(job.reduce(world_size_of, job.ranks))
    return split_waits(job_clocks(job), world)


def _unmatched_notices(clocks: JobClocks, split: Waits) -> list[str]:
    """Notice on kernels whose partners cannot be known."""
    kernels = clocks.matches.kernels
    if len(kernels.ranks) == 1 or not len(kernels):
        return []
    unknown = int((kernels.series < 0).sum())
    notices = []
    if unknown:
        notices.append(
            f"{counted(unknown, 'communication kernel')} of {len(kernels):,} cannot be matched: "
            "which ranks take part is not recorded (sends, receives and broadcasts without "
            "collective fields)"
        )
    alone = len(kernels) - unknown - len(split.matches.rows)
    if alone:
        notices.append(
            f"{counted(alone, 'communication kernel')} of {len(kernels):,} have no partner on "
            "another rank"
        )
    return notices


def _collectives_finding(kernels: pd.DataFrame) -> str:
    if kernels.empty:
        return (
            "No communication kernels were recognised on the selected ranks. If there are any, add "
            "a rule: kernel_rules={'COMMUNICATION': ['part_of_the_name']}."
        )
    total_ns = int(kernels["duration_ns"].sum())
    split = kernels[kernels["wait_ns"].notna()]
    split_ns = int(split["duration_ns"].sum())
    if not split_ns:
        return (
            f"{duration(total_ns)} of communication on the selected ranks; waiting and transfer "
            "cannot be told apart, because no collective was matched with another rank."
        )
    waiting_ns = int(split["wait_ns"].sum() + split["unexplained_wait_ns"].sum())
    undivided = ""
    if split_ns < total_ns:
        undivided = (
            f"{percent(100 - 100 * split_ns / total_ns)} of the {duration(total_ns)} of "
            "communication cannot be divided into waiting and transfer. "
        )
    return (
        f"{undivided}{percent(100 * waiting_ns / split_ns)} of the {duration(split_ns)} in "
        "collectives is waiting for ranks that arrive later, "
        f"{percent(100 - 100 * waiting_ns / split_ns)} is transfer."
    )


def kernel_table(clocks: JobClocks, waits: Waits, owners: Sequence[RankOwners]) -> pd.DataFrame:
    """One row per communication kernel of all ranks; see `Collectives`."""
    kernels, matches = clocks.matches.kernels, waits.matches
    of_kernel = np.full(len(kernels), NOBODY, dtype=np.int64)
    of_kernel[matches.rows] = matches.of_row
    transfer = _of_matched(matches, waits.transfer_ns)
    columns: dict[str, Any] = {
        "rank": np.array(kernels.ranks, dtype=np.int64)[kernels.place],
        "device": kernels.device,
        "stream": kernels.stream,
        "start_ns": clocks.alignment.aligned(kernels.start_ns, kernels.place),
        "duration_ns": kernels.duration_ns,
        "collective": kernels.name.to_categorical(),
        "dtype": _text(kernels.dtype),
        "bytes": _nullable(kernels.size_bytes, kernels.size_bytes >= 0),
        "group": _text(kernels.label),
        "group_ranks": _group_ranks(kernels),
        "group_size": _group_sizes(kernels),
        "match": of_kernel,
        "wait_ns": _of_matched(matches, waits.wait_ns),
        "unexplained_wait_ns": _of_matched(matches, waits.unexplained_ns),
        "transfer_ns": transfer,
    }
    columns |= _bandwidths(kernels, transfer)
    columns["exposed_ns"] = kernels.exposed_ns
    columns["late_rank"] = _late_ranks(waits, of_kernel)
    classes = np.append(waits.classes, np.int8(CLASSES.index(INCONCLUSIVE)))[of_kernel]
    columns["class"] = pd.Categorical.from_codes(classes, _CLASS_INDEX)
    columns |= owner_columns(kernels, owners)
    table = pd.DataFrame(columns)
    order = np.lexsort((np.arange(len(table)), table["start_ns"], table["rank"]))
    return table.iloc[order].reset_index(drop=True)


def match_table(waits: Waits) -> pd.DataFrame:
    """One row per collective that was matched across ranks; see `Collectives`."""
    matches = waits.matches
    kernels, first = matches.kernels, matches.rows[matches.edges[:-1]]
    late = np.array([*kernels.ranks, NOBODY], dtype=np.int64)[waits.late_place]
    return pd.DataFrame(
        {
            "match": np.arange(len(matches)),
            "collective": kernels.name.take(first).to_categorical(),
            "dtype": _text(kernels.dtype.take(first)),
            "bytes": _nullable(kernels.size_bytes[first], kernels.size_bytes[first] >= 0),
            "group": _text(kernels.label.take(first)),
            "group_ranks": _group_ranks(kernels)[first],
            "group_size": _group_sizes(kernels)[first],
            "ordinal": matches.ordinal,
            "members": matches.members,
            "first_arrival_ns": waits.first_ns,
            "last_arrival_ns": waits.last_ns,
            "end_ns": waits.median_end_ns,
            "lateness_ns": waits.lateness_ns,
            "transfer_ns": waits.transfer_of_all_ns,
            "late_rank": _nullable(late, waits.late_place >= 0),
            "class": pd.Categorical.from_codes(waits.classes, _CLASS_INDEX),
        }
    )


def group_table(kernels: pd.DataFrame) -> pd.DataFrame:
    """One row per collective, type, size and group; see `Collectives`."""
    keys = list(KEYS)
    grouped = kernels.groupby(keys, sort=False, dropna=False, observed=True)
    split = grouped[["wait_ns", "unexplained_wait_ns", "transfer_ns"]].sum(min_count=1)
    table = pd.concat(
        [
            grouped.agg(
                count=("duration_ns", "size"),
                total_ns=("duration_ns", "sum"),
                median_ns=("duration_ns", "median"),
            ),
            split,
            grouped.agg(
                exposed_ns=("exposed_ns", "sum"),
                algbw_gb_per_s=("algbw_gb_per_s", "median"),
                busbw_gb_per_s=("busbw_gb_per_s", "median"),
            ),
        ],
        axis=1,
    ).reset_index()
    table["bandwidth_of"] = _bandwidths_of(kernels, grouped.ngroup(), len(table))
    total_ns = int(table["total_ns"].sum())
    table["share_percent"] = 100 * table["total_ns"] / total_ns if total_ns else np.nan
    return largest_first(table, "total_ns")


def _bandwidths_of(kernels: pd.DataFrame, group: pd.Series[int], groups: int) -> pd.Categorical:
    """Which time the bandwidths of each group refer to."""
    codes = kernels["bandwidth_of"].cat.codes.to_numpy()
    place = group.to_numpy()
    has = [np.bincount(place[codes == code], minlength=groups) > 0 for code in range(2)]
    found = np.select([has[0] & has[1], *has], [2, 0, 1], default=-1)
    return pd.Categorical.from_codes(found, _GROUP_BANDWIDTHS)


def _of_matched(matches: Matches, values: Int64Array) -> pd.arrays.IntegerArray:
    """A column with values of the matched kernels, missing for the others."""
    every = np.zeros(len(matches.kernels), dtype=np.int64)
    known = np.zeros(every.size, dtype=bool)
    every[matches.rows], known[matches.rows] = values, True
    return _nullable(every, known)


def _group_ranks(kernels: JobCollectives) -> pd.Categorical:
    """Ranks of the group of each kernel, such as ``0-7``; for a pair, ``0 to 1``."""
    texts = [_ranks_text(each) for each in kernels.all_series]
    known: dict[str, int] = {}
    codes = [known.setdefault(text, len(known)) if text else -1 for text in texts]
    return pd.Categorical.from_codes(
        np.array([*codes, -1], dtype=np.int32)[kernels.series], pd.Index(list(known), dtype=object)
    )


def _group_sizes(kernels: JobCollectives) -> pd.arrays.IntegerArray:
    by_series = [each.size for each in kernels.all_series]
    sizes = np.array([*by_series, 0], dtype=np.int64)[kernels.series]
    sizes = np.where(sizes > 0, sizes, np.maximum(kernels.group_size, 0))
    return _nullable(sizes, sizes > 0)


def _bandwidths(kernels: JobCollectives, transfer: pd.arrays.IntegerArray) -> dict[str, Any]:
    """Bandwidths from the transfer; if unknown, from the duration, which includes waiting."""
    is_split = ~np.asarray(transfer.isna())
    time_ns = np.where(is_split, transfer.to_numpy(np.int64, na_value=0), kernels.duration_ns)
    known = (kernels.size_bytes > 0) & (time_ns > 0)
    algbw = np.full(len(kernels), np.nan)
    np.divide(kernels.size_bytes, time_ns, out=algbw, where=known)
    return {
        "algbw_gb_per_s": algbw,
        "busbw_gb_per_s": algbw * kernels.bus_factors,
        "bandwidth_of": pd.Categorical.from_codes(
            np.where(known, np.where(is_split, 0, 1), -1), _BANDWIDTHS
        ),
    }


def _late_ranks(waits: Waits, of_kernel: Int64Array) -> pd.arrays.IntegerArray:
    places = np.array([*waits.late_place.tolist(), NOBODY], dtype=np.int64)[of_kernel]
    ranks = np.array([*waits.matches.kernels.ranks, NOBODY], dtype=np.int64)[places]
    return _nullable(ranks, places >= 0)


def _ranks_text(series: Series) -> str:
    if series.operation == "p2p":
        return f"{series.ranks[0]} to {series.ranks[1]}"
    return number_ranges(series.ranks)


def _nullable(values: Int64Array, known: Mask) -> pd.arrays.IntegerArray:
    """Integers, missing where not known."""
    return pd.arrays.IntegerArray(np.where(known, values, 0).astype(np.int64), ~known)


def _text(column: TextColumn) -> pd.Categorical:
    """Texts, missing where empty."""
    values: Sequence[str] = column.values
    known = [place for place, text in enumerate(values) if text]
    places = np.full(len(values) + 1, -1, dtype=np.int32)
    places[known] = np.arange(len(known))
    texts = pd.Index([values[place] for place in known], dtype=object)
    return pd.Categorical.from_codes(places[column.codes], texts)


def rank_splits(job: Job) -> dict[int, RankSplit]:
    """The split of each rank of a job."""
    kernels, waits = job_clocks(job).matches.kernels, job_waits(job)
    matches = waits.matches
    wait_ns = waits.wait_ns + waits.unexplained_ns
    by_series = np.array([*(each.operation == P2P for each in kernels.all_series), False])
    is_p2p = by_series[matches.series][matches.of_row]
    places, rows = kernels.place[matches.rows], kernels.row[matches.rows]
    found = {}
    for place, rank in enumerate(kernels.ranks):
        own = np.flatnonzero(places == place)
        own = own[np.argsort(rows[own], kind="stable")]
        found[rank] = RankSplit(rows[own], wait_ns[own], is_p2p[own])
    return found
