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
from hta_widgets.intervals import Times, time_by_combination
from hta_widgets.names import short_name
from hta_widgets.quantities import duration, percent
from hta_widgets.trace.gpu_work import GpuWork
from hta_widgets.trace.job import Job
from hta_widgets.trace.kernels import KernelType

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
        The same for every kernel, nothing folded.
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
    work = {rank: job.gpu_work(rank) for rank in chosen}
    statistics = pd.concat([_statistics(rank, work[rank], types) for rank in chosen])
    table = _time_by_type(list(work.values()), types)
    return KernelBreakdown(
        types=table,
        kernels=_folded(statistics, duration_ratio, num_kernels),
        every_kernel=_ordered(statistics),
        finding=_finding(table, statistics),
        notices=job.notices_for(chosen),
    )


def _check(duration_ratio: float, num_kernels: int) -> None:
    if not 0 <= duration_ratio <= 1:
        msg = f"duration_ratio is {duration_ratio}; it is a share of time between 0 and 1"
        raise ParameterError(msg)
    if num_kernels < 0:
        msg = f"num_kernels is {num_kernels}; it is a number of kernels, 0 or more"
        raise ParameterError(msg)


def _time_by_type(work: Sequence[GpuWork], types: Sequence[KernelType]) -> pd.DataFrame:
    total = np.zeros(2 ** len(types), dtype=np.int64)
    for of_rank in work:
        for _, on_device in of_rank.by_device():
            total += time_by_combination([on_device.busy_by_type[each] for each in types])
    names = [
        " overlapping ".join(each.name for bit, each in enumerate(types) if combination >> bit & 1)
        for combination in range(total.size)
    ]
    table = pd.DataFrame({"kernel_type": names[1:], "sum_ns": total[1:]})
    table = table[table["sum_ns"] > 0].sort_values("sum_ns", ascending=False, kind="stable")
    table["percentage"] = 100 * table["sum_ns"] / table["sum_ns"].sum()
    return table.reset_index(drop=True)


def _statistics(rank: int, work: GpuWork, types: Sequence[KernelType]) -> pd.DataFrame:
    """Launch statistics per type and name of one rank."""
    wanted = np.flatnonzero(np.isin(work.type, types))
    key = work.type[wanted].astype(np.int64) * len(work.names) + work.name[wanted]
    order = np.argsort(key, kind="stable")
    keys, first, count = np.unique(key[order], return_index=True, return_counts=True)
    duration_ns = work.duration_ns[wanted][order]
    sum_ns = _reduce(np.add, duration_ns, first)
    mean_ns = sum_ns / count
    squares = _reduce(np.add, np.square(duration_ns - np.repeat(mean_ns, count)), first)
    type_codes, name_codes = np.divmod(keys, max(len(work.names), 1))
    return pd.DataFrame(
        {
            "name": [work.names[code] for code in name_codes.tolist()],
            "sum_ns": sum_ns,
            "max_ns": _reduce(np.maximum, duration_ns, first),
            "min_ns": _reduce(np.minimum, duration_ns, first),
            "stddev_ns": np.sqrt(squares / np.maximum(count - 1, 1)),
            "mean_ns": mean_ns,
            "kernel_type": [KernelType(code).name for code in type_codes.tolist()],
            "rank": rank,
            "count": count,
            "folded": 0,
        },
        columns=list(_COLUMNS),
    )


def _reduce(function: np.ufunc, values: NDArray[Any], first: NDArray[np.int64]) -> NDArray[Any]:
    """Reduce runs of values; `reduceat` itself fails on no runs."""
    return np.asarray(function.reduceat(values, first) if first.size else values[:0])


def _folded(statistics: pd.DataFrame, duration_ratio: float, num_kernels: int) -> pd.DataFrame:
    groups = statistics.groupby(["rank", "kernel_type"], sort=False)
    parts = [
        part
        for _, group in groups
        for part in _fold(
            group.sort_values("sum_ns", ascending=False, kind="stable"), duration_ratio, num_kernels
        )
    ]
    return _ordered(pd.concat(parts) if parts else statistics)


def _fold(group: pd.DataFrame, duration_ratio: float, num_kernels: int) -> list[pd.DataFrame]:
    """Keep the top kernels of one type on one rank; the rest becomes one row."""
    named = min(_fewest_reaching(group["sum_ns"].to_numpy(), duration_ratio), num_kernels)
    rest = group.iloc[named:]
    return [group.iloc[:named]] + ([_others(rest)] if len(rest) else [])


def _fewest_reaching(sum_ns: Times, ratio: float) -> int:
    """Number of leading kernels whose time reaches `ratio`, reckoned exactly."""
    if ratio == 1:
        return int(sum_ns.size)
    needed = math.ceil(Fraction(str(ratio)) * int(sum_ns.sum()))
    return int(np.searchsorted(np.cumsum(sum_ns), needed)) + 1 if needed else 0


def _others(rest: pd.DataFrame) -> pd.DataFrame:
    """One row with the statistics over all launches of the given kernels."""
    count = int(rest["count"].sum())
    mean_ns = int(rest["sum_ns"].sum()) / count
    within = np.square(rest["stddev_ns"]) * (rest["count"] - 1)
    between = rest["count"] * np.square(rest["mean_ns"] - mean_ns)
    row = {
        "name": OTHERS,
        "sum_ns": rest["sum_ns"].sum(),
        "max_ns": rest["max_ns"].max(),
        "min_ns": rest["min_ns"].min(),
        "stddev_ns": math.sqrt((within + between).sum() / max(count - 1, 1)),
        "mean_ns": mean_ns,
        "kernel_type": rest["kernel_type"].iloc[0],
        "rank": rest["rank"].iloc[0],
        "count": count,
        "folded": len(rest),
    }
    return pd.DataFrame([row], columns=list(_COLUMNS))


def _ordered(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values(["kernel_type", "name", "rank"], kind="stable").reset_index(drop=True)


def _finding(types: pd.DataFrame, statistics: pd.DataFrame) -> str:
    if statistics.empty:
        return "No kernels were recorded on these ranks."
    keys = ["kernel_type", "name"]
    by_kernel = statistics.groupby(keys, sort=False, as_index=False)[["sum_ns", "count"]].sum()
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
