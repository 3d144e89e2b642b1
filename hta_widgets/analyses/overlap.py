"""How much of the communication is hidden behind computation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.selection import TimeSelection, place_of, selected_work
from hta_widgets.intervals import time_of_both
from hta_widgets.quantities import duration, percent
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank


@dataclass(frozen=True, kw_only=True, eq=False)
class Overlap(Result):
    """Communication and computation of each GPU.

    Attributes
    ----------
    ranks : DataFrame
        One row per rank and device, ascending: ``rank``, ``device`` (-1 for a rank without GPU
        work), ``communication_time_ns``, ``computation_time_ns``, ``cuda_graph_time_ns`` (time with
        at least one such kernel, or CUDA graph recorded as a whole, running), ``overlap_time_ns``
        (communication and computation), ``beside_graph_ns`` (communication without computation, but
        with such a graph: whether the graph computes is not known), ``exposed_communication_ns``
        (communication without either), all int64 ns; ``overlap_percent`` (100 × overlap ÷
        communication; NaN without communication).
    """

    ranks: pd.DataFrame


def overlap(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    steps: Iterable[int] | None = None,
    window_ns: Sequence[int] | None = None,
) -> Overlap:
    """Measure how much of each GPU's communication time overlaps its computation.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks when not given.
    steps : iterable of int, optional
        Only these ProfilerSteps; all of the time when not given or empty. Work that crosses the
        edge of a step counts with its part inside (see `TimeSelection`).
    window_ns : pair of int, optional
        Only the time between these two, in ns since the first event of all ranks.
    """
    chosen = select_ranks(job, ranks)
    selection = TimeSelection.of(job, chosen, steps=steps, window_ns=window_ns)
    by_rank = job.reduce(_rows, chosen, selection)
    table = pd.DataFrame([row for rows in by_rank.values() for row in rows])
    communication = table["communication_time_ns"]
    table["overlap_percent"] = (
        100 * table["overlap_time_ns"] / communication.where(communication > 0)
    )
    return Overlap(
        ranks=table,
        finding=_overlap_finding(table, place_of(selection)),
        notices=job.notices_for(chosen),
    )


def _rows(rank: Rank, selection: TimeSelection | None) -> list[dict[str, int]]:
    """One row per device."""
    return [
        _row(rank.trace.rank, device, work)
        for device, work in selected_work(rank, selection).items()
    ]


def _row(rank: int, device: int, work: GpuWork) -> dict[str, int]:
    communication = work.busy_by_type[KernelType.COMMUNICATION]
    computation = work.busy_by_type[KernelType.COMPUTATION]
    overlap_ns = time_of_both(communication, computation)
    graphs = work.busy_by_type[KernelType.CUDA_GRAPH]
    beside_graph_ns = ((communication & graphs) - computation).length if len(graphs) else 0
    return {
        "rank": rank,
        "device": device,
        "communication_time_ns": communication.length,
        "computation_time_ns": computation.length,
        "cuda_graph_time_ns": graphs.length,
        "overlap_time_ns": overlap_ns,
        "beside_graph_ns": beside_graph_ns,
        "exposed_communication_ns": communication.length - overlap_ns - beside_graph_ns,
    }


def _overlap_finding(table: pd.DataFrame, place: str) -> str:
    busy = ["communication_time_ns", "computation_time_ns", "cuda_graph_time_ns"]
    if not table[busy].any(axis=None):
        return f"No kernels were recorded {place}."
    communicating = table[table["communication_time_ns"] > 0]
    graphs_ns = int(table["cuda_graph_time_ns"].sum())
    said = [_communication_finding(communicating, place)]
    if graphs_ns:
        said.append(
            "It is not known whether the CUDA graphs that were recorded as a whole "
            f"({duration(graphs_ns)}) communicate."
        )
    elif communicating.empty:
        said.append(
            "If there are any, add a rule: kernel_rules={'COMMUNICATION': ['part_of_the_name']}."
        )
    return " ".join(said)


def _communication_finding(communicating: pd.DataFrame, place: str) -> str:
    if communicating.empty:
        return f"No communication kernels were recognised {place}."
    total_ns = communicating["communication_time_ns"].sum()
    exposed_ns = communicating["exposed_communication_ns"].sum()
    overall = (
        f"{percent(100 * (exposed_ns / total_ns))} of the communication time is not hidden "
        f"({duration(exposed_ns)} of {duration(total_ns)})"
    )
    if beside_ns := communicating["beside_graph_ns"].sum():
        overall += (
            f" and {percent(100 * (beside_ns / total_ns))} runs alongside CUDA graphs of unknown "
            f"content ({duration(beside_ns)})"
        )
    if len(communicating) == 1:
        return f"On rank {communicating['rank'].iloc[0]}, {overall}."
    exposed = communicating["exposed_communication_ns"]
    most, least = duration(exposed.max()), duration(exposed.min())
    each = f", {least} to {most} on each" if most != least else ""
    return f"Across {len(communicating)} GPUs, {overall}{each}."
