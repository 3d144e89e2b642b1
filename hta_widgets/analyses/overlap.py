"""How much of the communication is hidden behind computation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from hta_widgets.analyses.result import Result
from hta_widgets.intervals import Intervals
from hta_widgets.quantities import duration, percent
from hta_widgets.trace.job import Job
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
        work), ``communication_time_ns``, ``computation_time_ns`` (time with at least one such
        kernel running), ``overlap_time_ns`` (with both), ``exposed_communication_ns``
        (communication without computation), all int64 ns; ``overlap_percent`` (100 × overlap ÷
        communication; NaN without communication).
    """

    ranks: pd.DataFrame


def overlap(job: Job, ranks: Iterable[int] | None = None) -> Overlap:
    """Measure how much of each GPU's communication time overlaps its computation.

    Parameters
    ----------
    job : Job
    ranks : iterable of int, optional
        All ranks when not given.

    Returns
    -------
    Overlap

    Raises
    ------
    UnknownRankError
        If the job lacks a rank.
    """
    chosen = job.select_ranks(ranks)
    by_rank = job.reduce(_rows, chosen)
    table = pd.DataFrame([row for rows in by_rank.values() for row in rows])
    communication = table["communication_time_ns"]
    table["overlap_percent"] = (
        100 * table["overlap_time_ns"] / communication.where(communication > 0)
    )
    return Overlap(
        ranks=table, finding=_communication_finding(table), notices=job.notices_for(chosen)
    )


def _rows(rank: Rank) -> list[dict[str, int]]:
    """One row per device."""
    return [
        _row(rank.trace.rank, device, work) for device, work in rank.gpu_work.by_device().items()
    ]


def _row(rank: int, device: int, work: GpuWork) -> dict[str, int]:
    communication = work.busy_by_type[KernelType.COMMUNICATION]
    computation = work.busy_by_type[KernelType.COMPUTATION]
    overlap_ns = _time_of_both(communication, computation)
    return {
        "rank": rank,
        "device": device,
        "communication_time_ns": communication.length,
        "computation_time_ns": computation.length,
        "overlap_time_ns": overlap_ns,
        "exposed_communication_ns": communication.length - overlap_ns,
    }


def _time_of_both(one: Intervals, other: Intervals) -> int:
    """Time that both cover: how much of the other lies in each interval of the shorter list."""
    few, many = sorted((one, other), key=len)
    return int((many.covered_until(few.ends) - many.covered_until(few.starts)).sum())


def _communication_finding(table: pd.DataFrame) -> str:
    communicating = table[table["communication_time_ns"] > 0]
    if communicating.empty:
        return (
            "No communication kernels were recognised on the selected ranks. If there are any, add "
            "a rule: kernel_rules={'COMMUNICATION': ['part_of_the_name']}."
        )
    total_ns = communicating["communication_time_ns"].sum()
    exposed_ns = communicating["exposed_communication_ns"].sum()
    overall = (
        f"{percent(100 * (exposed_ns / total_ns))} of the communication time is exposed "
        f"({duration(exposed_ns)} of {duration(total_ns)})"
    )
    if len(communicating) == 1:
        return f"On rank {communicating['rank'].iloc[0]}, {overall}."
    most = communicating.iloc[communicating["exposed_communication_ns"].argmax()]
    return (
        f"Across {len(communicating)} GPUs, {overall}; rank {int(most['rank'])} has the most "
        f"({duration(most['exposed_communication_ns'])})."
    )
