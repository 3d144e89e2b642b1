"""Comparison of two jobs: kernels, times, and the longest events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pandas as pd

from hta_widgets.analyses.compare.kernels import (
    compared_kernels,
    kernel_totals,
    only_in_one,
)
from hta_widgets.analyses.compare.sides import Sides, sides_of
from hta_widgets.analyses.compare.times import compared_tails, compared_times
from hta_widgets.analyses.result import Result
from hta_widgets.errors import ParameterError
from hta_widgets.names.shorten import distinct_names
from hta_widgets.quantities import duration, percent
from hta_widgets.trace.job import Job

_ALIKE_PERCENT = 0.05

PER: Final = ("rank", "job")


def comparison_notices(sides: Sides, *, per_step: bool) -> tuple[str, ...]:
    """How much each job recorded, what it lacks, and whether to compare per step."""
    steps = {side.recording.steps / side.recording.ranks for side in sides}
    have_steps = all(side.recording.all_have_steps for side in sides)
    advice = (
        "the jobs have different numbers of ProfilerSteps; per_step=True compares them per step"
    )
    said = [notice for side in sides for notice in side.notices()]
    return (*([advice] if len(steps) > 1 and have_steps and not per_step else []), *said)


def comparison_finding(sides: Sides, times: pd.DataFrame, kernels: pd.DataFrame, unit: str) -> str:
    """Sentence on how long both take, and on the kernels that change most."""
    span = times[times["time"] == "span"]
    first_ns, second_ns = float(span["first_ns"].iloc[0]), float(span["second_ns"].iloc[0])
    idle = [side.name for side, ns in zip(sides, (first_ns, second_ns), strict=True) if not ns]
    if idle:
        return f"There is no GPU work in {' and '.join(idle)}, so there is nothing to compare."
    change = 100 * (second_ns / first_ns - 1)
    names, per = [side.name for side in sides], f" {unit}" if unit else ""
    clock = f"{per}, from the first to the last GPU operation."
    changes = _largest_changes(kernels)
    if abs(change) < _ALIKE_PERCENT:
        took = f"{names[1]} takes as long as {names[0]}: {duration(second_ns)}"
        return f"{took}{clock}{changes}"
    takes = f"takes {percent(abs(change))} {'longer' if change > 0 else 'less time'} than"
    return (
        f"{names[1]} {takes} {names[0]}: {duration(second_ns)} instead of {duration(first_ns)}"
        f"{clock}{changes}"
    )


def _largest_changes(kernels: pd.DataFrame) -> str:
    """Sentence on the kernels with the largest increase and decrease; empty without changes."""
    changes = kernels["delta_total_ns"]
    more, less = kernels[changes > 0].head(1), kernels[changes < 0].head(1)
    largest = pd.concat([more, less])
    labels = distinct_names(largest["kernel"].tolist())
    said = [
        f"increase: {label} (+{duration(ns)})"
        if ns > 0
        else f"decrease: {label} (−{duration(-ns)})"
        for label, ns in zip(labels, largest["delta_total_ns"].tolist(), strict=True)
    ]
    return f" Largest {'; largest '.join(said)}." if said else ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Compare(Result):
    """Two jobs side by side; every delta is the second minus the first.

    Counts and times are means per rank or sums over the ranks, of the whole recording or per
    ProfilerStep. Sums over the whole recording are int64, all others float.

    Attributes
    ----------
    kernels : DataFrame
        One row per kernel, matched by `normalised_kernel_name`, and one for all CUDA graphs that
        were recorded as a whole (their numbers differ from run to run), largest change of the total
        time first: ``kernel`` (readable name), ``in`` (``both``, ``first`` or ``second``),
        ``kernel_type``, ``name_first``, ``name_second`` (as recorded; missing where the job lacks
        the kernel), ``count_first``, ``count_second``, ``total_first_ns``, ``total_second_ns`` (0
        where it lacks the kernel), ``mean_first_ns``, ``mean_second_ns`` (per launch; NaN there),
        ``delta_count``, ``delta_total_ns``, ``delta_mean_ns``, ``ratio_mean`` (second ÷ first). No
        rows if one of the formats has no kernels.
    only_in_one : DataFrame
        The kernels that one job lacks, by job and longest first: ``in``, ``kernel``,
        ``kernel_type``, ``count``, ``total_ns``, ``share_percent`` (of the time of all kernels and
        copies of the job that has it).
    tails : DataFrame
        One row per category (kernel, memcpy, memset, graph, runtime, driver) and percentage:
        ``category``, ``percent``, ``count_first``, ``count_second`` (events of all the ranks),
        ``k_first``, ``k_second`` (number of the longest events, rounded down),
        ``mean_first_ns``, ``mean_second_ns`` (of these), ``ratio_mean`` (second ÷ first; NaN where
        either ``k`` is 0).
    times : DataFrame
        ``time`` (``span`` from the first start to the last end of GPU work, and of it ``busy``,
        ``idle``, ``compute``, ``graph``, ``non_compute``, ``communication``; of that ``overlap``,
        ``beside_graph`` and ``exposed_communication``; those of CUDA graphs only if a job recorded
        some as a whole), ``first_ns``, ``second_ns``, ``delta_ns``, ``percent_of``
        (``span`` or ``communication``), ``first_percent``, ``second_percent``,
        ``delta_percentage_points``. A rank with several GPUs counts the time of each.
    recorded : DataFrame
        One row per job: ``job``, ``ranks``, ``steps`` (ProfilerSteps per rank), ``span_ns`` (per
        rank).
    first, second : str
        Names of the jobs.
    unit : str
        What counts and times refer to, such as ``per rank and ProfilerStep``; empty for sums.
    """

    kernels: pd.DataFrame
    only_in_one: pd.DataFrame
    tails: pd.DataFrame
    times: pd.DataFrame
    recorded: pd.DataFrame
    first: str
    second: str
    unit: str


def compare(
    first: Job,
    second: Job,
    *,
    ranks: Iterable[int] | None = None,
    per: str = "rank",
    per_step: bool = False,
) -> Compare:
    """Compare two jobs, in any formats.

    Parameters
    ----------
    ranks : iterable of int, optional
        Ranks of both jobs; all ranks of each when not given.
    per : {"rank", "job"}
        Means over the ranks, to compare jobs of any size, or sums over them.
    per_step : bool
        Divide by the number of ProfilerSteps, to compare recordings of any length.

    Raises
    ------
    UnknownRankError
        If a job lacks a rank.
    ParameterError
        If `per` has another value, or `per_step` is set and a rank has no ProfilerStep.
    """
    sides = sides_of(first, second, ranks)
    _check(sides, per, per_step=per_step)
    shares = _shares(sides, per, per_step=per_step)
    kernels = _kernels(sides, shares)
    times = compared_times(sides[0].recording, sides[1].recording, shares)
    unit = _unit(sides, per, per_step=per_step)
    return Compare(
        kernels=kernels,
        only_in_one=only_in_one(kernels),
        tails=compared_tails(first, second, (sides[0].ranks, sides[1].ranks)),
        times=times,
        recorded=pd.DataFrame([side.recorded() for side in sides]),
        first=sides[0].name,
        second=sides[1].name,
        unit=unit,
        finding=comparison_finding(sides, times, kernels, unit),
        notices=comparison_notices(sides, per_step=per_step),
    )


def _check(sides: Sides, per: str, *, per_step: bool) -> None:
    if per not in PER:
        msg = f"per must be one of {', '.join(map(repr, PER))}, got {per!r}"
        raise ParameterError(msg)
    without = [side.name for side in sides if not side.recording.all_have_steps]
    if per_step and without:
        msg = (
            "per_step=True needs ProfilerSteps on every rank of both jobs, but some are missing in "
            f"{' and '.join(without)}; use per_step=False"
        )
        raise ParameterError(msg)


def _shares(sides: Sides, per: str, *, per_step: bool) -> tuple[float, float] | None:
    """Divisor of the sums of each job; None if sums are wanted."""
    if per == "job" and not per_step:
        return None
    first, second = (
        side.recording.share(per_rank=per == "rank", per_step=per_step) for side in sides
    )
    return first, second


def _kernels(sides: Sides, shares: tuple[float, float] | None) -> pd.DataFrame:
    first, second = (kernel_totals(side.job, side.ranks) for side in sides)
    if any(side.lacks_kernels for side in sides):
        first, second = first.iloc[:0], second.iloc[:0]
    return compared_kernels(first, second, shares)


def _unit(sides: Sides, per: str, *, per_step: bool) -> str:
    """What counts and times refer to; empty for sums, and for means over a single rank."""
    several = any(len(side.ranks) > 1 for side in sides)
    parts = ["rank"] * (per == "rank" and several) + ["ProfilerStep"] * per_step
    return f"per {' and '.join(parts)}" if parts else ""
