"""How each GPU spends its time: computing, in CUDA graphs, busy otherwise, or idle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.gpu_time import GpuTime, over_steps, span_in_words
from hta_widgets.analyses.time.selection import (
    TimeSelection,
    place_of,
    selected_times,
    selected_work,
)
from hta_widgets.intervals import time_of_both
from hta_widgets.quantities import duration, percent
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank


@dataclass(frozen=True, kw_only=True, eq=False)
class TemporalBreakdown(Result):
    """Time of each GPU by activity.

    Attributes
    ----------
    ranks : DataFrame
        One row per rank and device, ascending: ``rank``, ``device`` (-1 for a rank without GPU
        work), ``kernel_time_ns`` (first start to last end of GPU work), and its four parts:
        ``idle_time_ns`` (no work runs), ``compute_time_ns`` (at least one COMPUTATION kernel runs),
        ``graph_time_ns`` (none runs, but a CUDA graph that was recorded as a whole: what it
        does is not known), ``non_compute_time_ns`` (the rest), all int64 ns. The rest is divided
        into ``copy_time_ns`` (copies and memsets run), ``communication_time_ns`` (communication
        runs without these, and nothing hides it) and ``other_time_ns``. ``operations`` (number of
        kernels, copies, memsets and whole graphs);
        ``steps_ns`` (the analysed time, see `GpuTime`; 0 without steps) and its parts
        ``steps_idle_ns`` (no work runs) and ``steps_compute_ns`` (a COMPUTATION kernel runs),
        int64 ns.
    """

    ranks: pd.DataFrame


def temporal_breakdown(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    steps: Iterable[int] | None = None,
    window_ns: Sequence[int] | None = None,
) -> TemporalBreakdown:
    """Break down the time of each GPU into idle, compute, graph and non-compute time.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks when not given.
    steps : iterable of int, optional
        Only these ProfilerSteps; all of the time when not given or empty.
    window_ns : pair of int, optional
        Only the time between these two, in ns since the first event of all ranks.

        With either, ``kernel_time_ns`` is all of the selected time (see `TimeSelection`): time
        before the first and after the last work is idle, and ``operations`` counts all work that
        lies at least partly inside.
    """
    chosen = select_ranks(job, ranks)
    selection = TimeSelection.of(job, chosen, steps=steps, window_ns=window_ns)
    by_rank = job.reduce(_rows, chosen, selection)
    table = pd.DataFrame([row for rows in by_rank.values() for row in rows])
    return TemporalBreakdown(
        ranks=table,
        finding=_time_finding(table, selection),
        notices=job.notices_for(chosen),
    )


def _rows(rank: Rank, selection: TimeSelection | None) -> list[dict[str, int]]:
    """One row per device."""
    times = selected_times(rank, selection)
    return [
        _row(rank.trace.rank, device, work, times[device])
        for device, work in selected_work(rank, selection).items()
    ]


def _row(rank: int, device: int, work: GpuWork, time: GpuTime) -> dict[str, int]:
    computation = work.busy_by_type[KernelType.COMPUTATION]
    graphs = work.busy_by_type[KernelType.CUDA_GRAPH]
    graph_ns = graphs.length - time_of_both(graphs, computation)
    copies = work.busy_by_type[KernelType.MEMORY]
    communication = work.busy_by_type[KernelType.COMMUNICATION]
    computing = computation | graphs
    copy_ns = copies.length - time_of_both(copies, computing)
    communication_ns = communication.length - time_of_both(communication, computing | copies)
    other_ns = time.busy_ns - computation.length - graph_ns
    return {
        "rank": rank,
        "device": device,
        "kernel_time_ns": time.span_ns,
        "idle_time_ns": time.span_ns - time.busy_ns,
        "compute_time_ns": computation.length,
        "graph_time_ns": graph_ns,
        "non_compute_time_ns": other_ns,
        "copy_time_ns": copy_ns,
        "communication_time_ns": communication_ns,
        "other_time_ns": other_ns - copy_ns - communication_ns,
        "operations": len(work),
        "steps_ns": time.steps_ns,
        "steps_idle_ns": time.steps_ns - time.steps_busy_ns,
        "steps_compute_ns": time.steps_compute_ns,
    }


def _gpu_times(table: pd.DataFrame) -> list[GpuTime]:
    """Times of the GPUs in `TemporalBreakdown.ranks`."""
    names = ("kernel_time", "idle_time", "steps", "steps_idle", "steps_compute")
    rows = zip(*(table[f"{name}_ns"].tolist() for name in names), strict=True)
    return [
        GpuTime(span_ns, span_ns - idle_ns, steps_ns, steps_ns - steps_idle_ns, compute_ns)
        for span_ns, idle_ns, steps_ns, steps_idle_ns, compute_ns in rows
    ]


def _time_finding(table: pd.DataFrame, selection: TimeSelection | None) -> str:
    working = table[table["kernel_time_ns"] > 0]
    if working.empty:
        return f"No GPU work was recorded {place_of(selection)}."
    parts = ("kernel", "idle", "compute", "graph")
    total_ns, *parts_ns = (int(working[f"{part}_time_ns"].sum()) for part in parts)
    idle, computing, graphs = (percent(100 * part_ns / total_ns) for part_ns in parts_ns)
    idle_ns, _, graph_ns = parts_ns
    in_graphs = f", in CUDA graphs of unknown content {graphs}" if graph_ns else ""
    overall = (
        f"idle {idle} of {span_in_words(len(working), is_selected=selection is not None)} "
        f"({duration(idle_ns)} of {duration(total_ns)}), computing {computing}{in_graphs}"
        f"{_others(working, total_ns)}"
    )
    who = f"The GPU of rank {working['rank'].iloc[0]} is"
    if len(working) > 1:
        who, overall = f"The {len(working)} GPUs are", overall + _range_of_idle_shares(working)
    return f"{who} {overall}.{over_steps(_gpu_times(working))}"


def _others(working: pd.DataFrame, total_ns: int) -> str:
    """Shares of the time that is neither computing nor idle, by what runs; without zeros."""
    parts = {
        "communicating (not hidden)": "communication_time_ns",
        "copying": "copy_time_ns",
        "in other work": "other_time_ns",
    }
    times = {words: int(working[column].sum()) for words, column in parts.items()}
    said = [f"{words} {percent(100 * ns / total_ns)}" for words, ns in times.items() if ns]
    return "".join(f", {each}" for each in said)


def _range_of_idle_shares(working: pd.DataFrame) -> str:
    """Lowest and highest idle share of the GPUs; empty if both are written the same."""
    idle = 100 * working["idle_time_ns"] / working["kernel_time_ns"]
    least, most = percent(idle.min()), percent(idle.max())
    if least == most:
        return ""
    lowest, highest = working["rank"].iloc[idle.argmin()], working["rank"].iloc[idle.argmax()]
    return f"; the idle share ranges from {least} (rank {lowest}) to {most} (rank {highest})"
