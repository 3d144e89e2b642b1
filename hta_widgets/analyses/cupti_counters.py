"""Performance counters of kernels, with the operators that launched them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.selection import TimeSelection
from hta_widgets.arrays import Int64Array
from hta_widgets.quantities import counted, named_numbers
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.events import LAUNCH_CALLS, Events, Kind, TextColumn
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.links import NO_LAUNCH
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.clock import JobClock
from hta_widgets.trace.ranks.rank import Rank

TOP, BOTTOM = "top_level_op", "bottom_level_op"
LEVELS = (TOP, BOTTOM)

_KERNEL_LAUNCH = re.compile(r"(cuda|cu|hip|mc|mu).*Launch(Cooperative)?Kernel")
_NO_COUNTERS = frozenset({"correlation", "device", "stream", "context", "External id"})
_COLUMNS = (
    *("rank", "index", "name", "pid", "tid", "start_ns", "duration_ns"),
    *("index_runtime", "op_stack", TOP, BOTTOM),
)
_OPERATOR_COLUMNS = ("level", "operator", "counter", "kernels", "sum", "mean")


@dataclass(frozen=True, kw_only=True, eq=False)
class CuptiCounters(Result):
    """Counters that CUPTI's range profiler measured for each kernel.

    Attributes
    ----------
    counters : tuple of str
        Names of the counters, in order.
    ranges : DataFrame
        One row per measured kernel, by rank, then in order of measurement: ``rank``, ``index``
        (position in the trace file), ``name`` (of the kernel), ``pid``, ``tid``, ``start_ns``
        (aligned over the ranks), ``duration_ns`` (int64 ns, both as the profiler spread them, not
        as the kernel ran), ``index_runtime`` (position in the file of the launch call, -1 if it
        is not known), ``op_stack`` (list of the operators around the launch, outermost first),
        ``top_level_op`` and ``bottom_level_op`` (its first and last, None if it is empty), and one
        column per counter (float, NaN if the kernel lacks it).
    operators : DataFrame
        Each counter by operator: ``level`` (``top_level_op`` or ``bottom_level_op``), ``operator``
        (None for kernels without one), ``counter``, ``kernels`` (number that have the counter),
        ``sum``, ``mean`` over them. Ordered by level, counter, largest sum first.
    """

    counters: tuple[str, ...]
    ranges: pd.DataFrame
    operators: pd.DataFrame


def cupti_counters(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    steps: Iterable[int] | None = None,
    window_ns: Sequence[int] | None = None,
) -> CuptiCounters:
    """Attribute the performance counters of kernels to operators.

    A measured kernel (an event ``cuda_profiler_range``) belongs to the launch with its correlation
    id. Without an id, the first measured kernel belongs to the first call that launches a kernel,
    the second to the second and so on, if there are equally many of both. If not, the kernels keep
    their counters but get no operators, and a notice says so.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks when not given.
    steps : iterable of int, optional
        Only kernels launched in these ProfilerSteps; all that are analysed when not given or empty.
    window_ns : pair of int, optional
        Only kernels launched between these two, in ns since the first event of all ranks. The
        start of the measurement counts for kernels whose launch is not known.
    """
    chosen = select_ranks(job, ranks)
    selection = TimeSelection.of(job, chosen, steps=steps, window_ns=window_ns)
    parts = job.reduce(_measured, chosen, job.clock, selection)
    frames = [ranges.assign(rank=rank) for rank, (ranges, _) in parts.items() if len(ranges)]
    counters = tuple(sorted({str(name) for each in frames for name in each} - {*_COLUMNS}))
    columns = [*_COLUMNS, *counters]
    table = (
        pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)
    )
    return CuptiCounters(
        counters=counters,
        ranges=table,
        operators=_by_operator(table, counters),
        finding=_counter_finding(table, counters, chosen),
        notices=(
            *job.notices_for(chosen, Recorded.COUNTERS),
            *(f"rank {rank}: {each}" for rank, (_, said) in parts.items() for each in said),
        ),
    )


def _measured(
    rank: Rank, clock: JobClock, selection: TimeSelection | None
) -> tuple[pd.DataFrame, list[str]]:
    """Measured kernels with their counters, and notices."""
    events, offset_ns = rank.trace.events, clock.offset_ns(rank.trace)
    rows = events.rows_of(Kind.PROFILER_RANGE)
    if not rows.size:  # of 256 ranks, empty tables took 0.2 s of each page
        return pd.DataFrame(), []
    launches, notices = _launches(rank, rows)
    asked = np.where(launches == NO_LAUNCH, rows, launches)
    kept = rank.analysed[asked]
    if selection is not None:
        kept &= selection.holds(rank, events.start_ns[asked])
    rows, launches = rows[kept], launches[kept]
    stacks = _operator_stacks(rank, launches)
    table = pd.DataFrame(
        {
            "index": events.index[rows],
            "name": events.names_at(rows),
            "pid": events.ids_in_source(events.pid[rows]),
            "tid": events.ids_in_source(events.tid[rows]),
            "start_ns": events.start_ns[rows] + offset_ns,
            "duration_ns": events.duration_ns[rows],
            "index_runtime": np.where(launches < 0, NO_LAUNCH, events.index[launches]),
            "op_stack": pd.Series(stacks, dtype=object),
            TOP: pd.Series([stack[0] if stack else None for stack in stacks], dtype=object),
            BOTTOM: pd.Series([stack[-1] if stack else None for stack in stacks], dtype=object),
        }
    )
    return pd.concat([table, _counter_values(events, rows)], axis=1), notices


def _launches(rank: Rank, rows: Int64Array) -> tuple[Int64Array, list[str]]:
    """Row of the launch of each measured kernel, -1 if it is not known."""
    launches = rank.launches[rows].astype(np.int64)
    without = np.flatnonzero(launches == NO_LAUNCH)
    if not without.size:
        return launches, []
    calls = np.setdiff1d(_kernel_launches(rank), launches)
    if calls.size != without.size:
        words = (
            f"no operators for {counted(without.size, 'measured kernel')}, which cannot be matched "
            f"by order to {counted(calls.size, 'kernel launch', 'kernel launches')}"
        )
        return launches, [words]
    launches[without] = calls
    return launches, []


def _kernel_launches(rank: Rank) -> Int64Array:
    """Calls that launch one kernel, in order of start; nested calls are the same launch."""
    events = rank.trace.events
    names = [_KERNEL_LAUNCH.match(name) is not None for name in events.name.values]
    calls = events.rows_of(*LAUNCH_CALLS)
    calls = calls[np.array(names, dtype=bool)[events.name.codes[calls]]]
    return np.asarray(calls[~np.isin(rank.parents[calls], calls)])


def _operator_stacks(rank: Rank, calls: Int64Array) -> list[list[str]]:
    """Names of the operators around each call, outermost first."""
    events, parents = rank.trace.events, rank.parents
    known: dict[int, list[str]] = {NO_PARENT: []}

    def stack(row: int) -> list[str]:
        """Operators around and including a call."""
        path = []
        while row not in known:
            path.append(row)
            row = int(parents[row])
        names = known[row]
        for each in reversed(path):
            is_operator = events.kind[each] == Kind.CPU_OP
            names = [*names, *events.names_at(np.array([each]))] if is_operator else names
            known[each] = names
        return names

    return [stack(call) for call in calls.tolist()]


def _counter_values(events: Events, rows: Int64Array) -> pd.DataFrame:
    """One column per counter, one row per measured kernel."""
    table = events.side.get("counters")
    if table is None or not rows.size:
        return pd.DataFrame(index=range(rows.size))
    column = table.columns["counter"]
    if not isinstance(column, TextColumn):
        msg = "the counters' names are text"
        raise TypeError(msg)
    place = np.minimum(np.searchsorted(rows, table.rows), rows.size - 1)
    belongs = rows[place] == table.rows
    values = np.full((rows.size, len(column.values)), np.nan)
    values[place[belongs], column.codes[belongs]] = np.asarray(table.columns["value"])[belongs]
    frame = pd.DataFrame(values, columns=pd.Index(column.values, dtype=object))
    wanted = [
        name for name in frame.columns if name not in _NO_COUNTERS and frame[name].notna().any()
    ]
    return frame[wanted]


def _by_operator(table: pd.DataFrame, counters: Sequence[str]) -> pd.DataFrame:
    parts = [_sums_at_level(table, counters, level) for level in LEVELS if len(table)]
    if not parts or not counters:
        return pd.DataFrame(columns=list(_OPERATOR_COLUMNS))
    return pd.concat(parts, ignore_index=True).sort_values(
        ["level", "counter", "sum", "operator"],
        ascending=[False, True, False, True],
        ignore_index=True,
    )


def _sums_at_level(table: pd.DataFrame, counters: Sequence[str], level: str) -> pd.DataFrame:
    long = table.melt([level], list(counters), "counter", "value").dropna(subset=["value"])
    grouped = long.groupby([level, "counter"], dropna=False, sort=False)["value"]
    sums = grouped.agg(["count", "sum", "mean"]).reset_index()
    sums = sums.rename(columns={level: "operator", "count": "kernels"}).assign(level=level)
    operator = sums["operator"].astype(object)
    sums["operator"] = operator.where(operator.notna(), None)
    return sums[list(_OPERATOR_COLUMNS)]


def _counter_finding(table: pd.DataFrame, counters: Sequence[str], ranks: Sequence[int]) -> str:
    where = named_numbers("rank", ranks)
    if table.empty:
        return (
            f"The trace of {where} has no performance counters (no cuda_profiler_range events). "
            "Record it with CUPTI's range profiler: "
            "experimental_config=_ExperimentalConfig(profiler_metrics=[...])."
        )
    operators = table[TOP].dropna()
    measured = (
        f"The profiler measured {counted(len(counters), 'counter')} for "
        f"{counted(len(table), 'kernel')} on {where}"
    )
    if operators.empty:
        return f"{measured}; no kernel could be matched to an operator."
    kernels = operators.value_counts()
    top, matched = kernels.index[0], f"{len(operators):,} of these"
    if len(kernels) == 1:
        return f"{measured}; the top-level operator {top} launched {matched}."
    return (
        f"{measured}; {len(kernels):,} top-level operators launched {matched}, most of all {top} "
        f"({kernels.iloc[0]:,})."
    )
