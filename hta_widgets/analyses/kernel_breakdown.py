"""GPU time by kernel type and by kernel."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import compress
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.gpu_time import GpuTime, other_steps
from hta_widgets.analyses.time.rows import shared_texts
from hta_widgets.analyses.time.selection import (
    TimeSelection,
    place_of,
    selected_times,
    selected_work,
)
from hta_widgets.arrays import Float64Array, Int64Array, Mask
from hta_widgets.defaults import DURATION_RATIO, NUM_KERNELS, DefaultNumber, DefaultRatio
from hta_widgets.errors import ParameterError, check_least
from hta_widgets.grouping import Groups, grouped, opens_run, reduce_runs
from hta_widgets.intervals import Times, time_by_combination
from hta_widgets.names.readable import distinct_labels
from hta_widgets.quantities import capitalised, counted, duration, percent
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.kernels import OVERLAPPING, KernelType, type_words
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

_GRAPHS: Final = "CUDA graphs recorded as a whole"

OTHERS: Final = "others"

_COLUMNS = (
    *("name", "sum_ns", "max_ns", "min_ns", "stddev_ns", "mean_ns"),
    *("kernel_type", "rank", "count", "folded"),
)

_Columns = dict[str, NDArray[Any]]

_TYPES = tuple(KernelType)


class KernelTotal(NamedTuple):
    """Time (ns) and launches of a kernel on all ranks."""

    ns: int
    launches: int


def totals_over_ranks(every_kernel: pd.DataFrame) -> dict[tuple[str, str], KernelTotal]:
    """Total of each kernel by its type and name, in order of its first row."""
    totals: dict[tuple[str, str], KernelTotal] = {}
    names = ("kernel_type", "name", "sum_ns", "count")
    for kernel_type, name, ns, launches in zip(
        *(every_kernel[each].tolist() for each in names), strict=True
    ):
        before = totals.get((kernel_type, name), KernelTotal(0, 0))
        totals[kernel_type, name] = KernelTotal(before.ns + ns, before.launches + launches)
    return totals


def _type_finding(types: pd.DataFrame, every_kernel: pd.DataFrame, place: str) -> str:
    if every_kernel.empty:
        return f"No kernels were recorded {place}."
    if types.empty:
        names = counted(len(totals_over_ranks(every_kernel)), "kernel")
        return f"The {names} {place} took 0 ns."
    leading, percentage = types["kernel_type"].iloc[0], types["percentage"].iloc[0]
    alone = " alone" if len(types) > 1 and OVERLAPPING not in leading else ""
    graphs = leading == KernelType.CUDA_GRAPH.name
    words = _GRAPHS if graphs else type_words(leading)
    verb = "take" if graphs or " and " in words or OVERLAPPING in leading else "takes"
    return f"{capitalised(words)}{alone} {verb} {percent(percentage)} of the busy time."


def _kernel_finding(every_kernel: pd.DataFrame, names: Collection[str]) -> str:
    """Sentence on the kernel, copy or memset that takes the most time."""
    by_kernel = totals_over_ranks(every_kernel)
    kernel_type, name = max(by_kernel, key=lambda kernel: by_kernel[kernel].ns)
    (label,) = distinct_labels([name], among=names)
    top = by_kernel[kernel_type, name]
    share = percent(100 * top.ns / sum(each.ns for each in by_kernel.values()))
    spent = f"{duration(top.ns)} in {counted(top.launches, 'launch', 'launches')}"
    memory, graph = KernelType.MEMORY.name, KernelType.CUDA_GRAPH.name
    whole = _whole_time({each for each, _ in by_kernel})
    if kernel_type == graph:
        return f" {label} takes {share} of the {whole}: {spent}."
    noun = "operation" if kernel_type == memory else "kernel"
    words = type_words(kernel_type)
    return f" The top {noun}, {label} ({words}), takes {share} of the {whole}: {spent}."


def _whole_time(kernel_types: Collection[str]) -> str:
    """What the times of all rows add up to, in words."""
    rows = [
        "kernels",
        *(["graphs"] if KernelType.CUDA_GRAPH.name in kernel_types else []),
        *(["copies", "memsets"] if KernelType.MEMORY.name in kernel_types else []),
    ]
    if rows == ["kernels"]:
        return "kernel time"
    return f"time of {', '.join(rows[:-1])} and {rows[-1]}"


def _over_steps(times: Iterable[GpuTime]) -> str:
    """Sentence on the busy time if its share of the analysed time differs."""
    total = other_steps(times)
    if total is None:
        return ""
    return (
        f" GPU busy {percent(100 * total.steps_busy_ns / total.steps_ns)} of the analysed "
        f"{duration(total.steps_ns)} ({percent(100 * total.busy_ns / total.span_ns)} of the "
        f"{duration(total.span_ns)} between its first and last operation)."
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
        are absent. The rows add up to the busy time.
    kernels : DataFrame
        Statistics of the launches of each top kernel, per rank and type: ``name``, ``sum_ns``,
        ``max_ns``, ``min_ns`` (int64 ns), ``stddev_ns`` (sample, 0 for one launch), ``mean_ns``
        (float ns), ``kernel_type``, ``rank``, ``count`` (launches), ``folded`` (kernels that a row
        named ``others`` stands for; 0 in all other rows). Ordered by type, name, rank. CUDA graphs
        that were recorded as a whole are rows of the type ``CUDA_GRAPH``.
    every_kernel : DataFrame
        The same for every kernel, nothing folded. Ordered by rank, type, longest first.
    names : tuple of str
        Names of all GPU work of these ranks, whatever time is selected: what labels a kernel in a
        window labels it everywhere.
    """

    types: pd.DataFrame
    kernels: pd.DataFrame
    every_kernel: pd.DataFrame
    names: tuple[str, ...]


class _RankKernels(NamedTuple):
    """Part of one rank that no parameter changes: statistics of kernels, times (ns) of GPUs."""

    kernels: _Columns
    time_by_combination: Times
    gpu_times: tuple[GpuTime, ...]
    names: tuple[str, ...]


class _Top(NamedTuple):
    """Which kernels of a type are named: at most a number, and no more than reach a share.

    As in HTA, a type with no more kernels than the number has all of them named.
    """

    number: int
    share: float

    @classmethod
    def of(cls, duration_ratio: float, num_kernels: int) -> _Top:
        if not 0 <= duration_ratio <= 1:
            msg = f"duration_ratio must be between 0 and 1, got {duration_ratio}"
            raise ParameterError(msg)
        check_least("num_kernels", num_kernels, 0)
        is_number_given = not isinstance(num_kernels, DefaultNumber)
        is_share_given = not isinstance(duration_ratio, DefaultRatio)
        share = duration_ratio if is_share_given and not is_number_given else 1.0
        return cls(num_kernels, share)


def kernel_breakdown(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    duration_ratio: float = DURATION_RATIO,
    num_kernels: int = NUM_KERNELS,
    include_memory_kernels: bool = True,
    steps: Iterable[int] | None = None,
    window_ns: Sequence[int] | None = None,
) -> KernelBreakdown:
    """Break down GPU time by kernel type and by kernel.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks when not given.
    duration_ratio : float
        Share of the time of each type, on each rank, that the named kernels have to reach: the
        fewest longest-running kernels that reach it are named, if there are more than `num_kernels`
        of the type. It is ignored if `num_kernels` is given, too.
    num_kernels : int
        Number of longest-running kernels of each type, on each rank, to name. A kernel named on one
        rank is named on all. The rest of each type is one row ``others`` per rank.
    include_memory_kernels : bool
        Include copies and memsets.
    steps : iterable of int, optional
        Only these ProfilerSteps; all of the time when not given or empty. A launch that crosses the
        edge of a step counts as one, with its part inside (see `TimeSelection`).
    window_ns : pair of int, optional
        Only the time between these two, in ns since the first event of all ranks.
    """
    top = _Top.of(duration_ratio, num_kernels)
    chosen = select_ranks(job, ranks)
    selection = TimeSelection.of(job, chosen, steps=steps, window_ns=window_ns)
    of_ranks = job.reduce(_kernels_of_rank, chosen, selection).values()
    statistics = {
        name: np.concatenate([each.kernels[name] for each in of_ranks]) for name in _COLUMNS
    }
    if not include_memory_kernels:
        statistics = _rows(statistics, statistics["kernel_type"] != KernelType.MEMORY.name)
    every_kernel = _table(statistics)
    lacking = job.lacking(chosen, Recorded.KERNELS)
    times = [each.time_by_combination for each in of_ranks]
    table = _time_by_type(np.stack(times).sum(axis=0), include_memory=include_memory_kernels)
    names = tuple(dict.fromkeys(name for each in of_ranks for name in each.names))
    is_any_named = names and not lacking and not table.empty
    said = (
        _type_finding(table, every_kernel, place_of(selection)),
        _kernel_finding(every_kernel, names) if is_any_named else "",
        _over_steps([time for each in of_ranks for time in each.gpu_times]),
    )
    return KernelBreakdown(
        types=table,
        kernels=_table(_folded(statistics, top)),
        every_kernel=every_kernel,
        names=names,
        finding="".join(said),
        notices=(*job.notices_for(chosen), *lacking),
    )


def _table(statistics: _Columns) -> pd.DataFrame:
    texts = {name: shared_texts(statistics[name]) for name in ("name", "kernel_type")}
    return pd.DataFrame({**statistics, **texts})


def _kernels_of_rank(rank: Rank, selection: TimeSelection | None) -> _RankKernels:
    times = tuple(selected_times(rank, selection).values())
    by_device = selected_work(rank, selection)
    work = rank.gpu_work if selection is None else GpuWork.joined(by_device.values())
    return _RankKernels(
        _launch_statistics(rank.trace.rank, work),
        _time_by_combination(by_device.values()),
        times,
        rank.gpu_work.names_in_use,
    )


def _time_by_combination(by_device: Iterable[GpuWork]) -> Times:
    """Time (ns) by the combination of types running, over all devices."""
    total = np.zeros(2 ** len(_TYPES), dtype=np.int64)
    for work in by_device:
        total += time_by_combination([work.busy_by_type[each] for each in _TYPES])
    return total


def _time_by_type(total: Times, *, include_memory: bool) -> pd.DataFrame:
    if not include_memory:
        total = _without_memory(total)
    order = 1 + np.argsort(-total[1:], kind="stable")
    combinations = order[total[order] > 0]
    names = [
        OVERLAPPING.join(each.name for bit, each in enumerate(_TYPES) if combination >> bit & 1)
        for combination in combinations.tolist()
    ]
    sum_ns = total[combinations]
    return pd.DataFrame(
        {"kernel_type": names, "sum_ns": sum_ns, "percentage": 100 * sum_ns / max(sum_ns.sum(), 1)}
    )


def _without_memory(total: Times) -> Times:
    """Time by the combination of the other types, whether or not copies and memsets run, too."""
    by_bit = total.reshape(-1, 2, 1 << KernelType.MEMORY)
    merged = np.zeros_like(by_bit)
    merged[:, 0] = by_bit.sum(axis=1)
    return merged.ravel()


def _launch_statistics(rank: int, work: GpuWork) -> _Columns:
    """Columns of statistics per type and name, longest first within a type."""
    # 100 k kernels take 2.5 ms (with pandas 4.3); a million take 41 (39).
    kernels = grouped(work.type, work.name)
    one_each, count, duration_ns = kernels.first, kernels.sizes, work.duration_ns
    sum_ns = kernels.reduce(np.add, duration_ns)
    mean_ns = sum_ns / count
    names = [work.names[code] for code in work.name[one_each].tolist()]
    types = [KernelType(code).name for code in work.type[one_each].tolist()]
    columns = {
        "name": np.array(names, dtype=object),
        "sum_ns": sum_ns,
        "max_ns": kernels.reduce(np.maximum, duration_ns),
        "min_ns": kernels.reduce(np.minimum, duration_ns),
        "stddev_ns": _deviations(kernels, duration_ns, mean_ns),
        "mean_ns": mean_ns,
        "kernel_type": np.array(types, dtype=object),
        "rank": np.full(count.size, rank),
        "count": count,
        "folded": np.zeros(count.size, dtype=np.int64),
    }
    # Sorting a DataFrame by the three columns takes more than a millisecond per rank.
    keys = [*zip(types, (-sum_ns).tolist(), names, strict=True)]
    return _rows(columns, sorted(range(len(keys)), key=keys.__getitem__))


def _deviations(kernels: Groups, duration_ns: Times, mean_ns: Float64Array) -> Float64Array:
    """Sample standard deviation of the durations of each kernel; 0 for a single launch."""
    differences = duration_ns[kernels.order] - np.repeat(mean_ns, kernels.sizes)
    squares = reduce_runs(np.add, np.square(differences), kernels.edges[:-1])
    return np.asarray(np.sqrt(squares / np.maximum(kernels.sizes - 1, 1)))


def _rows(columns: _Columns, wanted: Any) -> _Columns:  # noqa: ANN401  # whatever numpy takes
    return {name: column[wanted] for name, column in columns.items()}


def _folded(statistics: _Columns, top: _Top) -> _Columns:
    """Keep the top kernels of each rank and type on all ranks; the rest of each becomes one row."""
    first = np.flatnonzero(opens_run(statistics["rank"], statistics["kernel_type"]))
    group = np.repeat(np.arange(first.size), np.diff(first, append=statistics["rank"].size))
    named = _on_all_ranks(statistics, _are_top(statistics["sum_ns"], first, group, top))
    rows, others = _rows(statistics, named), _others(_rows(statistics, ~named), group[~named])
    table = {name: np.concatenate([rows[name], others[name]]) for name in _COLUMNS}
    keys = [table[name].tolist() for name in ("kernel_type", "name", "rank")]
    order = sorted(range(len(keys[0])), key=[*zip(*keys, strict=True)].__getitem__)
    return _rows(table, order)


def _are_top(sum_ns: Times, first: Int64Array, group: Int64Array, top: _Top) -> Mask:
    """Which kernels are among the top ones of their rank and type; each group starts at `first`."""
    named = np.arange(group.size) - first[group] < top.number
    if top.share == 1:
        return named
    before = np.cumsum(sum_ns) - sum_ns
    needed = _time_to_reach(reduce_runs(np.add, sum_ns, first), top.share)
    is_few = np.diff(first, append=group.size) <= top.number
    return named & ((before - before[first][group] < needed[group]) | is_few[group])


def _on_all_ranks(statistics: _Columns, named: Mask) -> Mask:
    """Rows of all kernels that are named on any rank.

    Otherwise, a sum by name over the ranks would miss ranks on which the kernel is among the
    others.
    """
    kernels = [*zip(statistics["kernel_type"].tolist(), statistics["name"].tolist(), strict=True)]
    chosen = set(compress(kernels, named.tolist()))
    return np.array([kernel in chosen for kernel in kernels], dtype=np.bool_)


def _time_to_reach(totals: Times, ratio: float) -> Times:
    """The given share of each total time (ns), rounded up, in exact arithmetic."""
    share = Fraction(str(ratio))
    return np.array([math.ceil(share * total) for total in totals.tolist()], dtype=np.int64)


def _others(rest: _Columns, group: Int64Array) -> _Columns:
    """One row per group with the statistics over all launches of its kernels."""
    first = np.flatnonzero(np.diff(group, prepend=-1))
    kernels = np.diff(first, append=group.size)
    count = rest["count"]
    launches = reduce_runs(np.add, count, first)
    sum_ns = reduce_runs(np.add, rest["sum_ns"], first)
    mean_ns = sum_ns / launches
    within = np.square(rest["stddev_ns"]) * (count - 1)
    between = count * np.square(rest["mean_ns"] - np.repeat(mean_ns, kernels))
    squares = reduce_runs(np.add, within + between, first)
    return {
        "name": np.full(first.size, OTHERS, dtype=object),
        "sum_ns": sum_ns,
        "max_ns": reduce_runs(np.maximum, rest["max_ns"], first),
        "min_ns": reduce_runs(np.minimum, rest["min_ns"], first),
        "stddev_ns": np.sqrt(squares / np.maximum(launches - 1, 1)),
        "mean_ns": mean_ns,
        "kernel_type": rest["kernel_type"][first],
        "rank": rest["rank"][first],
        "count": launches,
        "folded": kernels,
    }
