"""How kernels are launched: grid, block, registers, shared memory, occupancy and waves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, get_args

import pandas as pd

from hta_widgets.analyses.launch_facts.rank_table import COLUMNS, FEW, By, launch_table
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.rows import stacked
from hta_widgets.analyses.time.selection import TimeSelection
from hta_widgets.errors import ParameterError
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import counted, percent
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.notices import merge_notices

WORTH_SAYING: Final = 0.03
"""Share of the time of all kernels from which one that leaves multiprocessors empty is named."""

NAME_WIDTH: Final = 60


def launch_finding(kernels: pd.DataFrame, few: pd.DataFrame) -> str:
    """Sentence on kernels that compute with fewer blocks than their GPU has multiprocessors.

    Parameters
    ----------
    kernels : DataFrame
        `LaunchFacts.kernels`.
    few : DataFrame
        `RankLaunches.few` of all ranks.
    """
    whole_ns = int(kernels["gpu_ns"].sum())
    times = few.groupby("name", sort=False)["gpu_ns"].sum().sort_values(ascending=False)
    times = times[times > WORTH_SAYING * whole_ns]
    if times.empty:
        return ""
    name, most_ns = str(times.index[0]), int(times.iloc[0])
    named = few[few["name"] == name].groupby(["blocks", "sms"], as_index=False)["gpu_ns"].sum()
    most = named["gpu_ns"].to_numpy().argmax()
    blocks, sms = (int(named[column].iloc[most]) for column in ("blocks", "sms"))
    has = "mostly has" if len(named) > 1 else "has"
    said = (
        f"{short_name(name, NAME_WIDTH)} fills {blocks:,} of {sms:,} SMs in "
        f"{_share(most_ns, whole_ns)}, because its grid {has} {counted(blocks, 'block')}"
    )
    others = times.iloc[1:]
    if len(others):
        more = counted(len(others), "other kernel")
        leave = "leaves" if len(others) == 1 else "leave"
        said += f"; {more} {leave} SMs empty in {_share(int(others.sum()), whole_ns)}"
    return f"{said}."


def _share(ns: int, whole_ns: int) -> str:
    return f"{percent(100 * ns / whole_ns)} of the kernel time"


@dataclass(frozen=True, kw_only=True, eq=False)
class LaunchFacts(Result):
    """How kernels are launched.

    Attributes
    ----------
    kernels : DataFrame
        One row per rank, device and kernel, or per configuration of it, longest first on each rank:
        ``rank``, ``device``, ``name``, ``kernel_type``, ``count`` (launches), ``gpu_ns`` (int64 ns,
        sum of their durations), ``configurations`` (different grids and blocks); ``grid`` and
        ``block`` (sizes such as ``128×2×1``, those of most of the time of the launches that record
        them, empty if none does).

        Over the launches of the row, the median (the lower of two) and as ``…_min`` and ``…_max``
        the least and the most of: ``blocks`` (of the grid), ``threads`` (of a block), ``registers``
        (of a thread), ``shared_bytes`` (of a block): int64, -1 where not recorded;
        ``occupancy_percent`` (running threads of the most that multiprocessors hold),
        ``blocks_per_sm`` (blocks of the grid by multiprocessors), ``waves`` (by blocks that fit on
        all multiprocessors at a time): float, NaN where not known.

        ``occupancy_source`` (``recorded`` by the profiler, else ``estimated`` here by the same
        rule; empty where not known), ``sms`` (multiprocessors of the GPU, 0 if not recorded),
        ``tensor_core`` (``yes``, ``no``, or empty where the kernel's name does not tell),
        ``operator`` (the innermost one around the launch call) and ``module`` (its path, names
        joined by `` › ``), each the one with most of the time.
    """

    kernels: pd.DataFrame


def launch_facts(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    by: By = "name",
    kernel: str | None = None,
    steps: Iterable[int] | None = None,
    window_ns: Sequence[int] | None = None,
) -> LaunchFacts:
    """List how kernels are launched, and how much of the GPU they can fill.

    Of exports of Nsight Systems, grids and blocks are read when they are first asked for.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks when not given.
    by : {"name", "configuration"}
        A row for each kernel, or for each grid and block of it.
    kernel : str, optional
        Only the kernel of this name.
    steps : iterable of int, optional
        Only these ProfilerSteps; all that are analysed when not given or empty.
    window_ns : pair of int, optional
        Only the time between these two, in ns since the first event of all ranks.

    Raises
    ------
    UnknownRankError
        If the job lacks a rank.
    UnknownStepError
        If none of the ranks has one of the steps.
    ParameterError
        If the window has no length, or `by` is something else.
    """
    if by not in get_args(By):
        msg = f"by must be one of {', '.join(map(repr, get_args(By)))}, got {by!r}"
        raise ParameterError(msg)
    chosen = job.select_ranks(ranks)
    selection = TimeSelection.of(job, chosen, steps=steps, window_ns=window_ns)
    by_rank = job.reduce(launch_table, chosen, selection, by, kernel)
    kernels = stacked([each.kernels for each in by_rank.values()], COLUMNS)
    missing = {rank: each.notices for rank, each in by_rank.items()}
    return LaunchFacts(
        kernels=kernels,
        finding=launch_finding(kernels, stacked([each.few for each in by_rank.values()], FEW)),
        notices=(
            *job.notices_for(chosen),
            *job.lacking(chosen, Recorded.KERNELS),
            *merge_notices(missing, name_ranks=len(job.ranks) > 1),
        ),
    )
