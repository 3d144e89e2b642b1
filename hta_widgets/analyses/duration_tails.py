"""How much of the time the longest few events take: kernels, copies and CUDA API calls."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.duration_categories import (
    CATEGORY_NAMES,
    DEVICE,
    HOST,
    Categories,
    SortedDurations,
    categories_of_rank,
    categories_of_ranks,
    side_of,
)
from hta_widgets.analyses.time.rows import Row, records
from hta_widgets.arrays import Int64Array
from hta_widgets.errors import ParameterError, check_choice
from hta_widgets.intervals import Times
from hta_widgets.quantities import counted, duration
from hta_widgets.quantities import percent as in_percent
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.notices import Notice

ALL_RANKS = ALL_SIDES = "all"
CURVE_POINTS = 240

_USUAL_TENTHS = (10, 50, 100)
_ALL_TENTHS = 1000
_EVENTS_OF_SIDE = {
    ALL_SIDES: "GPU operations or CUDA API calls",
    DEVICE: "GPU operations",
    HOST: "CUDA API calls",
}
_CATEGORY_COLUMNS = (
    *("rank", "category", "side", "count", "total_ns", "max_ns", "min_ns", "mean_ns"),
    *("share_percent", "share_of_side_percent", "not_nested_ns"),
)
_NESTED = (
    "{} of {} runtime and driver calls ran inside another one, so total_ns and all shares count "
    "their time more than once; not_nested_ns does not"
)

_ByRank = Mapping["int | str", Categories]


@dataclass(frozen=True, kw_only=True, eq=False)
class DurationTails(Result):
    """Time by category of events, and how much of it the longest events take.

    In the tables, ``rank`` is ``"all"`` for the events of all the ranks together, followed by each
    rank; ``category`` is ``kernel``, ``memcpy``, ``memset``, ``graph`` (CUDA graphs recorded as a
    whole), ``runtime`` or ``driver``. Categories without events have no rows.

    Attributes
    ----------
    categories : DataFrame
        One row per rank and category: ``rank``, ``category``, ``side`` (``device`` or ``host``),
        ``count``, ``total_ns``, ``max_ns``, ``min_ns`` (int64 ns), ``mean_ns`` (float ns),
        ``share_percent`` (of the time of all categories), ``share_of_side_percent`` (of those of
        its side), ``not_nested_ns`` (time of the events that do not run inside a runtime or driver
        call of their thread, int64 ns; ``total_ns`` on the device).
    tails : DataFrame
        One row per rank, category and percentage: ``rank``, ``category``, ``percent``, ``k`` (how
        many of the longest events that is, rounded down), ``share_percent`` (the part of the
        category's time that they take), ``mean_ns`` (their mean, float ns), ``threshold_ns``
        (duration of the shortest of them), ``note``. If ``k`` is 0, these three are undefined
        (NaN, NA), and the note says how many events are needed.
    curves : DataFrame
        For each category, over all the ranks: ``category``, ``events_percent`` (percentage of its
        events, the longest ones; ascending), ``time_percent`` (percentage of its time that these
        take).
    percent : float
        The percentage asked for, rounded to a multiple of 0.1.
    """

    categories: pd.DataFrame
    tails: pd.DataFrame
    curves: pd.DataFrame
    percent: float


def duration_tails(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    percent: float = 1.0,
    side: str = ALL_SIDES,
) -> DurationTails:
    """Measure how much of the time of each category its longest events take.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks when not given.
    percent : float
        Share (%) of the events, in addition to 1, 5 and 10 %: from 0.1 to 100, in steps of 0.1.
    side : {"all", "device", "host"}
        Whose events the finding is about; the tables have both sides.
    """
    tenths = _tenths(percent)
    check_choice("side", side, _EVENTS_OF_SIDE)
    chosen = select_ranks(job, ranks)
    together = categories_of_ranks(job, chosen)
    tails = _tails(_by_rank(job, chosen), sorted({*_USUAL_TENTHS, tenths}))
    return DurationTails(
        categories=job.remember(_category_table, chosen).copy(),
        tails=tails,
        curves=job.remember(_curves, chosen).copy(),
        percent=tenths / 10,
        finding=_tail_finding(together, tails, tenths, side),
        notices=(*job.notices_for(chosen, Recorded.KERNELS), *_nested_call_notices(job, chosen)),
    )


def events_needed(percent: float) -> int:
    """Number of events needed for a percentage to be at least one event.

    Examples
    --------
    >>> events_needed(1), events_needed(0.3)
    (100, 334)
    """
    return -(-_ALL_TENTHS // _tenths(percent))


def defined_tails(tails: pd.DataFrame, percent: float) -> list[Row]:
    """Rows of `DurationTails.tails` for all ranks together, if the percentage is defined."""
    return [
        row
        for row in records(tails)
        if row["rank"] == ALL_RANKS
        and row["percent"] == percent
        and not math.isnan(row["share_percent"])
    ]


def _tenths(percent: float) -> int:
    """The percentage in tenths, as an integer, so that numbers of events are exact."""
    if not math.isfinite(percent) or not 1 <= (tenths := round(10 * percent)) <= _ALL_TENTHS:
        msg = f"percent must be between 0.1 and 100, got {percent}"
        raise ParameterError(msg)
    return tenths


def _by_rank(job: Job, chosen: tuple[int, ...]) -> _ByRank:
    parts = {rank: categories_of_rank(job, rank) for rank in chosen}
    return {ALL_RANKS: categories_of_ranks(job, chosen)} | parts


def _category_table(job: Job, chosen: tuple[int, ...]) -> pd.DataFrame:
    by_rank = _by_rank(job, chosen)
    rows = [
        {
            "rank": rank,
            "category": name,
            "side": side_of(name),
            "count": each.durations.count,
            "total_ns": each.durations.total_ns,
            "max_ns": int(each.durations.duration_ns[0]),
            "min_ns": int(each.durations.duration_ns[-1]),
            "mean_ns": each.durations.total_ns / each.durations.count,
            "share_percent": _share(categories, name, categories),
            "share_of_side_percent": _share(
                categories, name, [other for other in categories if side_of(other) == side_of(name)]
            ),
            "not_nested_ns": each.durations.total_ns - each.nested_ns,
        }
        for rank, categories in by_rank.items()
        for name, each in categories.items()
    ]
    return pd.DataFrame(rows, columns=list(_CATEGORY_COLUMNS))


def _share(categories: Categories, name: str, of: Iterable[str]) -> float:
    whole_ns = sum(categories[each].durations.total_ns for each in of)
    return 100 * categories[name].durations.total_ns / whole_ns if whole_ns else math.nan


def _tails(by_rank: _ByRank, tenths: Sequence[int]) -> pd.DataFrame:
    wanted = np.array(tenths, dtype=np.int64)
    keys = [(rank, name) for rank, categories in by_rank.items() for name in categories]
    found = [_longest(by_rank[rank][name].durations, wanted) for rank, name in keys]
    exact = np.array(found, dtype=np.int64).reshape(-1, 4, wanted.size)
    k, time_ns, threshold_ns, total_ns = (exact[:, field].ravel() for field in range(4))
    defined = np.where(k > 0, 1.0, np.nan)
    notes = [f"needs at least {events_needed(each / 10):,} events" for each in tenths]
    return pd.DataFrame(
        {
            "rank": np.repeat(np.array([rank for rank, _ in keys], dtype=object), wanted.size),
            "category": [name for _, name in keys for _ in tenths],
            "percent": np.tile(wanted / 10, len(keys)),
            "k": k,
            "share_percent": 100 * time_ns / np.where(total_ns > 0, total_ns * defined, np.nan),
            "mean_ns": time_ns / np.where(k > 0, k, np.nan),
            "threshold_ns": pd.arrays.IntegerArray(threshold_ns, k == 0),
            "note": [
                "" if enough else note
                for enough, note in zip(k > 0, notes * len(keys), strict=True)
            ],
        }
    )


def _longest(durations: SortedDurations, tenths: Int64Array) -> list[Times]:
    """Number of the longest events, their time, the shortest one, and the time of all events."""
    k = durations.count * tenths // _ALL_TENTHS
    time_ns, shortest_ns = durations.longest(np.maximum(k, 1))
    return [k, np.where(k > 0, time_ns, 0), shortest_ns, np.full_like(k, durations.total_ns)]


def _curves(job: Job, chosen: tuple[int, ...]) -> pd.DataFrame:
    categories = categories_of_ranks(job, chosen)
    parts = [_curve(name, each.durations) for name, each in categories.items()]
    columns = ["category", "events_percent", "time_percent"]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def _curve(category: str, durations: SortedDurations) -> pd.DataFrame:
    spread = np.geomspace(1, durations.count, CURVE_POINTS).round().astype(np.int64)
    events = np.unique(np.append(spread[:-1], durations.count))
    time_ns, _ = durations.longest(events)
    return pd.DataFrame(
        {
            "category": category,
            "events_percent": 100 * events / durations.count,
            "time_percent": 100 * time_ns / (durations.total_ns or np.nan),
        }
    )


def _nested_call_notices(job: Job, chosen: Iterable[int]) -> tuple[str, ...]:
    of_ranks = {rank: categories_of_rank(job, rank) for rank in chosen}
    calls = {
        rank: [each for name, each in categories.items() if side_of(name) == HOST]
        for rank, categories in of_ranks.items()
    }
    notices = {
        rank: [Notice(_NESTED, (nested, sum(each.durations.count for each in of_rank)))]
        for rank, of_rank in calls.items()
        if (nested := sum(each.nested for each in of_rank))
    }
    return job.merged(notices)


def _tail_finding(categories: Categories, tails: pd.DataFrame, tenths: int, side: str) -> str:
    shown = {name: each for name, each in categories.items() if side in {ALL_SIDES, side_of(name)}}
    if not shown:
        return f"No {_EVENTS_OF_SIDE[side]} were recorded on the selected ranks."
    share_asked = in_percent(tenths / 10)
    asked = [row for row in defined_tails(tails, tenths / 10) if row["category"] in shown]
    if not asked:
        return (
            f"No category has the {counted(events_needed(tenths / 10), 'event')} needed for "
            f"{share_asked} to be at least one event."
        )
    longest = max(asked, key=lambda row: row["share_percent"])
    durations = shown[longest["category"]].durations
    return (
        f"The longest {share_asked} of the {CATEGORY_NAMES[longest['category']]} "
        f"({longest['k']:,} of {durations.count:,}) took {in_percent(longest['share_percent'])} of "
        f"their time, {duration(longest['mean_ns'])} on average and "
        f"{duration(int(durations.duration_ns[0]))} at most."
    )
