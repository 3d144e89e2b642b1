"""How each GPU spends its time: computing, busy without computing, or idle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from hta_widgets.analyses.result import Result
from hta_widgets.quantities import duration, percent
from hta_widgets.trace.job import Job
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
        work), ``kernel_time_ns`` (first start to last end of GPU work), ``idle_time_ns`` (of it,
        with no work running), ``compute_time_ns`` (with at least one COMPUTATION kernel running),
        ``non_compute_time_ns`` (the rest: only communication, copies or other work), all int64 ns;
        ``operations`` (number of kernels, copies and memsets).
    """

    ranks: pd.DataFrame


def temporal_breakdown(job: Job, ranks: Iterable[int] | None = None) -> TemporalBreakdown:
    """Break down the time of each GPU into idle, compute and non-compute time.

    Parameters
    ----------
    job : Job
    ranks : iterable of int, optional
        All ranks when not given.

    Returns
    -------
    TemporalBreakdown

    Raises
    ------
    UnknownRankError
        If the job lacks a rank.
    """
    chosen = job.select_ranks(ranks)
    by_rank = job.reduce(_rows, chosen)
    table = pd.DataFrame([row for rows in by_rank.values() for row in rows])
    return TemporalBreakdown(
        ranks=table, finding=_time_finding(table), notices=job.notices_for(chosen)
    )


def _rows(rank: Rank) -> list[dict[str, int]]:
    """One row per device."""
    return [
        _row(rank.trace.rank, device, work) for device, work in rank.gpu_work.by_device().items()
    ]


def _row(rank: int, device: int, work: GpuWork) -> dict[str, int]:
    busy_ns = work.busy.length
    compute_ns = work.busy_by_type[KernelType.COMPUTATION].length
    return {
        "rank": rank,
        "device": device,
        "kernel_time_ns": work.span_ns,
        "idle_time_ns": work.span_ns - busy_ns,
        "compute_time_ns": compute_ns,
        "non_compute_time_ns": busy_ns - compute_ns,
        "operations": len(work),
    }


def _time_finding(table: pd.DataFrame) -> str:
    working = table[table["kernel_time_ns"] > 0]
    if working.empty:
        return "No GPU work was recorded on the selected ranks."
    idle = 100 * working["idle_time_ns"] / working["kernel_time_ns"]
    total_ns, idle_ns = working["kernel_time_ns"].sum(), working["idle_time_ns"].sum()
    compute_share = 100 * (working["compute_time_ns"].sum() / total_ns)
    overall = (
        f"idle {percent(100 * (idle_ns / total_ns))} of the time ({duration(idle_ns)} of "
        f"{duration(total_ns)}) and computing {percent(compute_share)}"
    )
    if len(working) == 1:
        return f"The GPU of rank {working['rank'].iloc[0]} is {overall}."
    most, least = working["rank"].iloc[idle.argmax()], working["rank"].iloc[idle.argmin()]
    return (
        f"The {len(working)} GPUs are {overall}; the idle share ranges from {percent(idle.min())} "
        f"(rank {least}) to {percent(idle.max())} (rank {most})."
    )
