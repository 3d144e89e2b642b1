"""Which types of kernels, and which kernels, the GPU time goes to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.result import Result
from hta_widgets.errors import ParameterError
from hta_widgets.grouping import grouped, reduce_runs
from hta_widgets.intervals import Times, time_by_combination
from hta_widgets.names import short_name
from hta_widgets.quantities import duration, percent
from hta_widgets.trace.formats import Recorded
from hta_widgets.trace.job import Job
from hta_widgets.trace.kernels import KernelType
from hta_widgets.trace.rank import Rank

OTHERS = "others"
_COLUMNS = (
    *("name", "sum_ns", "max_ns", "min_ns", "stddev_ns", "mean_ns"),
    *("kernel_type", "rank", "count", "folded"),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class KernelBreakdown(Result):
    """Time by kernel type and by kernel.

    Attributes
    ----------
    types : DataFrame
        Busy time of all ranks by the combination of types running: ``kernel_type`` (e.g.
        ``COMPUTATION overlapping COMMUNICATION``), ``sum_ns`` (int64 ns, summed over ranks and
        devices), ``percentage`` (of the busy time). Longest first; combinations that never occur
        are absent.
    kernels : DataFrame
        Statistics of the launches of each top kernel, per rank and type: ``name``, ``sum_ns``,
        ``max_ns``, ``min_ns`` (int64 ns), ``stddev_ns`` (sample, 0 for one launch), ``mean_ns``
        (float ns), ``kernel_type``, ``rank``, ``count`` (launches), ``folded`` (kernels that a row
        named ``others`` stands for; 0 in all other rows). Ordered by type, name, rank.
    every_kernel : DataFrame
        The same for every kernel, nothing folded. Ordered by rank, type, longest first.
    """

    types: pd.DataFrame
    kernels: pd.DataFrame
    every_kernel: pd.DataFrame


def kernel_breakdown(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    duration_ratio: float = 0.8,
    num_kernels: int = 10,
    include_memory_kernels: bool = True,
) -> KernelBreakdown:
    """Break down GPU time by kernel type and by kernel.

    Parameters
    ----------
    job : Job
    ranks : iterable of int, optional
        All ranks when not given.
    duration_ratio : float
        Share of the time of each type, on each rank, that the named kernels have to reach: the
        fewest longest-running kernels that reach it are named. 1 names all.
    num_kernels : int
        At most so many are named, even if `duration_ratio` is not reached. The rest is one row
        ``others``.
    include_memory_kernels : bool
        Include copies and fills.

    Returns
    -------
    KernelBreakdown

    Raises
    ------
    UnknownRankError
        If the job lacks a rank.
    ParameterError
        If `duration_ratio` is not between 0 and 1 or `num_kernels` is negative.
    """
    _check(duration_ratio, num_kernels)
    chosen = job.select_ranks(ranks)
    types = [KernelType.COMPUTATION, KernelType.COMMUNICATION]
    types += [KernelType.MEMORY] if include_memory_kernels else []
    by_rank = job.reduce("kernel statistics", _launch_statistics, chosen)
    statistics = pd.DataFrame(
        {name: np.concatenate([part[name] for part in by_rank.values()]) for name in _COLUMNS}
    )
    if not include_memory_kernels:
        wanted = statistics["kernel_type"] != KernelType.MEMORY.name
        statistics = statistics[wanted].reset_index(drop=True)
    times = job.reduce("time by combination", _time_by_combination, chosen, tuple(types))
    table = _time_by_type(times.values(), types)
    return KernelBreakdown(
        types=table,
        kernels=_folded(statistics, duration_ratio, num_kernels),
        every_kernel=statistics,
        finding=_finding(table, statistics),
        notices=(*job.notices_for(chosen), *job.lacking(chosen, Recorded.KERNELS)),
    )


def _check(duration_ratio: float, num_kernels: int) -> None:
    if not 0 <= duration_ratio <= 1:
        msg = f"duration_ratio is {duration_ratio}; it is a share of time between 0 and 1"
        raise ParameterError(msg)
    if num_kernels < 0:
        msg = f"num_kernels is {num_kernels}; it is a number of kernels, 0 or more"
        raise ParameterError(msg)


def _time_by_combination(rank: Rank, types: Sequence[KernelType]) -> Times:
    """Time (ns) by the combination of types running, over all devices."""
    total = np.zeros(2 ** len(types), dtype=np.int64)
    for _, on_device in rank.gpu_work.by_device():
        total += time_by_combination([on_device.busy_by_type[each] for each in types])
    return total


def _time_by_type(of_ranks: Iterable[Times], types: Sequence[KernelType]) -> pd.DataFrame:
    total = np.stack(list(of_ranks)).sum(axis=0)
    names = [
        " overlapping ".join(each.name for bit, each in enumerate(types) if combination >> bit & 1)
        for combination in range(total.size)
    ]
    table = pd.DataFrame({"kernel_type": names[1:], "sum_ns": total[1:]})
    table = table[table["sum_ns"] > 0].sort_values("sum_ns", ascending=False, kind="stable")
    table["percentage"] = 100 * table["sum_ns"] / table["sum_ns"].sum()
    return table.reset_index(drop=True)


def _launch_statistics(rank: Rank) -> dict[str, NDArray[Any]]:
    """Columns of statistics per type and name, longest first within a type."""
    work = rank.gpu_work
    wanted = np.flatnonzero(work.type != KernelType.OTHER)
    kernels = grouped(work.type[wanted], work.name[wanted])
    one_each, count = wanted[kernels.first], kernels.sizes
    duration_ns = work.duration_ns[wanted]
    sum_ns = kernels.reduce(np.add, duration_ns)
    mean_ns = sum_ns / count
    squares = kernels.reduce(np.add, np.square(duration_ns - mean_ns[kernels.number]))
    columns: dict[str, Any] = {
        "name": [work.names[code] for code in work.name[one_each].tolist()],
        "sum_ns": sum_ns,
        "max_ns": kernels.reduce(np.maximum, duration_ns),
        "min_ns": kernels.reduce(np.minimum, duration_ns),
        "stddev_ns": np.sqrt(squares / np.maximum(count - 1, 1)),
        "mean_ns": mean_ns,
        "kernel_type": [KernelType(code).name for code in work.type[one_each].tolist()],
        "rank": np.full(count.size, rank.trace.rank),
        "count": count,
        "folded": np.zeros(count.size, dtype=np.int64),
    }
    keys = zip(columns["kernel_type"], (-sum_ns).tolist(), columns["name"], strict=True)
    order = [place for *_, place in sorted((*key, place) for place, key in enumerate(keys))]
    for name in ("name", "kernel_type"):
        columns[name] = np.array(columns[name], dtype=object)
    return {name: column[order] for name, column in columns.items()}


def _folded(statistics: pd.DataFrame, duration_ratio: float, num_kernels: int) -> pd.DataFrame:
    """Keep the top kernels of each rank and type; the rest of each becomes one row."""
    first = _first_of_each_type(statistics)
    group = np.repeat(np.arange(first.size), np.diff(first, append=len(statistics)))
    sum_ns = statistics["sum_ns"].to_numpy()
    before = np.cumsum(sum_ns) - sum_ns
    needed = _time_to_reach(reduce_runs(np.add, sum_ns, first), duration_ratio)
    named = (before - before[first][group] < needed[group]) | (duration_ratio == 1)
    named &= np.arange(group.size) - first[group] < num_kernels
    parts: list[pd.DataFrame] = [statistics[named], _others(statistics[~named], group[~named])]
    return pd.concat(parts).sort_values(["kernel_type", "name", "rank"], ignore_index=True)


def _first_of_each_type(statistics: pd.DataFrame) -> NDArray[np.int64]:
    """Places at which another rank or type begins."""
    rank, kernel_type = (statistics[name].to_numpy(object) for name in ("rank", "kernel_type"))
    changes = (rank[1:] != rank[:-1]) | (kernel_type[1:] != kernel_type[:-1])
    return np.flatnonzero(np.concatenate((np.ones(min(rank.size, 1), dtype=bool), changes)))


def _time_to_reach(totals: Times, ratio: float) -> Times:
    """Time (ns) that is the given share of each total, rounded up, reckoned exactly."""
    share = Fraction(str(ratio))
    return np.array([math.ceil(share * total) for total in totals.tolist()], dtype=np.int64)


def _others(rest: pd.DataFrame, group: NDArray[np.int64]) -> pd.DataFrame:
    """One row per group with the statistics over all launches of its kernels."""
    first = np.flatnonzero(np.diff(group, prepend=-1))
    kernels = np.diff(first, append=group.size)
    count = rest["count"].to_numpy()
    launches = reduce_runs(np.add, count, first)
    sum_ns = reduce_runs(np.add, rest["sum_ns"].to_numpy(), first)
    mean_ns = sum_ns / launches
    within = np.square(rest["stddev_ns"].to_numpy()) * (count - 1)
    between = count * np.square(rest["mean_ns"].to_numpy() - np.repeat(mean_ns, kernels))
    squares = reduce_runs(np.add, within + between, first)
    return pd.DataFrame(
        {
            "name": OTHERS,
            "sum_ns": sum_ns,
            "max_ns": reduce_runs(np.maximum, rest["max_ns"].to_numpy(), first),
            "min_ns": reduce_runs(np.minimum, rest["min_ns"].to_numpy(), first),
            "stddev_ns": np.sqrt(squares / np.maximum(launches - 1, 1)),
            "mean_ns": mean_ns,
            "kernel_type": rest["kernel_type"].to_numpy()[first],
            "rank": rest["rank"].to_numpy()[first],
            "count": launches,
            "folded": kernels,
        },
        columns=list(_COLUMNS),
    )


def _over_ranks(statistics: pd.DataFrame) -> pd.DataFrame:
    """Time and launches of each kernel, in order of its first row."""
    if statistics["rank"].iloc[0] == statistics["rank"].iloc[-1]:
        return statistics
    keys = ["kernel_type", "name"]
    return statistics.groupby(keys, sort=False, as_index=False)[["sum_ns", "count"]].sum()


def _finding(types: pd.DataFrame, statistics: pd.DataFrame) -> str:
    if statistics.empty:
        return "No kernels were recorded on these ranks."
    by_kernel = _over_ranks(statistics)
    top = by_kernel.iloc[by_kernel["sum_ns"].argmax()]
    if types.empty:
        return f"The {len(by_kernel):,} kernels recorded on these ranks all last 0 ns."
    leading = types.iloc[0]
    return (
        f"{percent(leading['percentage'])} of the busy time is {leading['kernel_type']}; the "
        f"kernel that takes longest, {short_name(top['name'])} ({top['kernel_type']}), has "
        f"{percent(100 * top['sum_ns'] / by_kernel['sum_ns'].sum())} of all kernel time: "
        f"{duration(top['sum_ns'])} in {top['count']:,} launches."
    )
