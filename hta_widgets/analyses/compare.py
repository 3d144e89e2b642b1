"""Comparison of two jobs: kernels, times, and the longest events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pandas as pd

from hta_widgets.analyses.overlap import overlap
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.analyses.time.duration_categories import (
    CATEGORY_NAMES,
    DurationCategory,
    categories_of_ranks,
)
from hta_widgets.arrays import Int32Array
from hta_widgets.errors import ParameterError, check_choice
from hta_widgets.names.demangling import demangled, is_mangled
from hta_widgets.names.normalise import normalised_kernel_name
from hta_widgets.names.readable import distinct_labels
from hta_widgets.quantities import counted, duration, percent
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.events import Events, Kind, TextColumn
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.model.steps import analysed_steps
from hta_widgets.trace.ranks.rank import Rank

_ALIKE_PERCENT = 0.05
PER: Final = ("rank", "job")
PERCENTAGES = (1, 5, 10)

TIMES = {
    "span": "span",
    "busy": "span",
    "idle": "span",
    "compute": "span",
    "graph": "span",
    "non_compute": "span",
    "communication": "span",
    "overlap": "communication",
    "beside_graph": "communication",
    "exposed_communication": "communication",
}
"""Times that are compared, each with the time of which it is a percentage."""

GRAPH_TIMES = ("graph", "beside_graph")
"""Times of CUDA graphs recorded as a whole, which few jobs have."""

TIME_COLUMNS = (
    *("time", "first_ns", "second_ns", "delta_ns"),
    *("percent_of", "first_percent", "second_percent", "delta_percentage_points"),
)

TAIL_COLUMNS = (
    *("category", "percent", "count_first", "count_second", "k_first", "k_second"),
    *("mean_first_ns", "mean_second_ns", "ratio_mean"),
)

BOTH, FIRST, SECOND = "both", "first", "second"

KERNEL_COLUMNS = (
    *("kernel", "in", "kernel_type", "name_first", "name_second"),
    *("count_first", "count_second", "total_first_ns", "total_second_ns"),
    *("mean_first_ns", "mean_second_ns"),
    *("delta_count", "delta_total_ns", "delta_mean_ns", "ratio_mean"),
)

ONLY_COLUMNS = ("in", "kernel", "kernel_type", "count", "total_ns", "share_percent")
_SUMS = ["launches", "total_ns"]

_GRAPHS = "CUDA graphs"
"""One name for all graphs recorded as a whole, because their numbers differ from run to run."""


def comparison_notices(sides: Sides, *, per_step: bool) -> tuple[str, ...]:
    """How much each job recorded, what it lacks, and whether to compare per step."""
    steps = {side.recording.steps / side.recording.ranks for side in sides}
    have_steps = all(side.recording.all_have_steps for side in sides)
    advice = "the jobs have different numbers of steps; per_step=True compares them per step"
    said = [notice for side in sides for notice in side.notices()]
    return (*([advice] if len(steps) > 1 and have_steps and not per_step else []), *said)


def comparison_finding(sides: Sides, times: pd.DataFrame, kernels: pd.DataFrame, unit: str) -> str:
    """Sentence on how long both jobs take, and on the kernels that change most."""
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
    labels = distinct_labels(largest["kernel"].tolist(), among=kernels["kernel"])
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

    Counts and times are means per rank or sums over the ranks, for the whole recording or per
    step. Sums over the whole recording are int64, all others float.

    Attributes
    ----------
    kernels : DataFrame
        One row per kernel, matched by `normalised_kernel_name`, and one for all CUDA graphs that
        were recorded as a whole (their numbers differ from run to run), largest change of the total
        time first: ``kernel`` (readable name), ``in`` (``both``, ``first`` or ``second``),
        ``kernel_type``, ``name_first``, ``name_second`` (as recorded; missing if the job lacks
        the kernel), ``count_first``, ``count_second``, ``total_first_ns``, ``total_second_ns`` (0
        if it lacks the kernel), ``mean_first_ns``, ``mean_second_ns`` (per launch; NaN if it does),
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
        ``mean_first_ns``, ``mean_second_ns`` (of these), ``ratio_mean`` (second ÷ first; NaN if
        either ``k`` is 0).
    times : DataFrame
        ``time`` (``span`` from the first start to the last end of GPU work; its parts ``busy``,
        ``idle``, ``compute``, ``graph``, ``non_compute`` and ``communication``; and the parts of
        communication, ``overlap``, ``beside_graph`` and ``exposed_communication``; those of CUDA
        graphs only if a job recorded some as a whole), ``first_ns``, ``second_ns``, ``delta_ns``,
        ``percent_of`` (``span`` or ``communication``), ``first_percent``, ``second_percent``,
        ``delta_percentage_points``. A rank with several GPUs counts the time of each.
    recorded : DataFrame
        One row per job: ``job``, ``ranks``, ``steps`` (number per rank), ``span_ns`` (per
        rank).
    first, second : str
        Names of the jobs.
    unit : str
        What counts and times refer to, such as ``per rank and step``; empty for sums.
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
        Divide by the number of steps, to compare recordings of any length; every rank must
        have some.
    """
    sides = sides_of(first, second, ranks)
    _check(sides, per, per_step=per_step)
    shares = _shares(sides, per, per_step=per_step)
    first_kernels, second_kernels = (kernel_totals(side.job, side.ranks) for side in sides)
    if any(side.lacks_kernels for side in sides):
        first_kernels, second_kernels = first_kernels.iloc[:0], second_kernels.iloc[:0]
    kernels = compared_kernels(first_kernels, second_kernels, shares)
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
    check_choice("per", per, PER)
    without = [side.name for side in sides if not side.recording.all_have_steps]
    if per_step and without:
        msg = (
            "per_step=True needs steps on every rank of both jobs, but some are missing in "
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


def _unit(sides: Sides, per: str, *, per_step: bool) -> str:
    """What counts and times refer to; empty for sums, and for means over a single rank."""
    several = any(len(side.ranks) > 1 for side in sides)
    parts = ["rank"] * (per == "rank" and several) + ["step"] * per_step
    return f"per {' and '.join(parts)}" if parts else ""


@dataclass(frozen=True)
class Side:
    """One of the two jobs."""

    job: Job
    ranks: tuple[int, ...]
    """Ranks that are compared."""
    name: str
    """Distinguishes the jobs."""

    @property
    def recording(self) -> Recording:
        """What its ranks recorded."""
        return recording(self.job, self.ranks)

    @property
    def lacks_kernels(self) -> tuple[str, ...]:
        """Notices on ranks whose format has no kernels."""
        return self.job.lacking(self.ranks, Recorded.KERNELS)

    def recorded(self) -> dict[str, object]:
        """Its row of `Compare.recorded`."""
        recorded = self.recording
        return {
            "job": self.name,
            "ranks": recorded.ranks,
            "steps": recorded.steps / recorded.ranks,
            "span_ns": recorded.times_ns["span"] / recorded.ranks,
        }

    def notices(self) -> list[str]:
        """How much was recorded, and what was left out."""
        recorded = self.recording
        amount = (
            f"{_number_of(recorded.ranks, 'rank')} with "
            f"{_number_of(recorded.steps / recorded.ranks, 'step')} and "
            f"{duration(recorded.times_ns['span'] / recorded.ranks)} from the first to the last "
            f"GPU operation{' each' if recorded.ranks > 1 else ''}"
        )
        said = (amount, *self.job.notices_for(self.ranks, Recorded.KERNELS))
        return [f"{self.name}: {notice}" for notice in said]


Sides: TypeAlias = tuple[Side, Side]


def _number_of(count: float, noun: str) -> str:
    return counted(count, noun) if count else f"no {noun}s"


def sides_of(first: Job, second: Job, ranks: Iterable[int] | None) -> Sides:
    """The ranks of both jobs that are compared; `UnknownRankError` if a job lacks one."""
    wanted = tuple(ranks) if ranks is not None else None
    ranks_of_both = select_ranks(first, wanted), select_ranks(second, wanted)
    names = job_names(first.name, second.name)
    return Side(first, ranks_of_both[0], names[0]), Side(second, ranks_of_both[1], names[1])


def job_names(first: str, second: str) -> tuple[str, str]:
    """Names of two jobs, made different if they are equal.

    Examples
    --------
    >>> job_names("run", "run")
    ('run (first)', 'run (second)')
    """
    return (first, second) if first != second else (f"{first} (first)", f"{second} (second)")


def steps_differ(first: Job, second: Job) -> bool:
    """Whether all ranks of both jobs have steps, but the jobs different numbers of them."""
    steps = [recording(job, job.ranks) for job in (first, second)]
    per_rank = {each.steps / each.ranks for each in steps}
    return all(each.all_have_steps for each in steps) and len(per_rank) > 1


@dataclass(frozen=True)
class Recording:
    """How much a job recorded."""

    ranks: int
    steps: int
    """Analysed steps, summed over the ranks."""
    all_have_steps: bool
    """Every rank has a step."""
    times_ns: Mapping[str, int]
    """Times of `TIMES` in ns, summed over the GPUs."""

    def share(self, *, per_rank: bool, per_step: bool) -> float:
        """Divisor that turns sums over the ranks into means."""
        ranks = self.ranks if per_rank else 1
        return ranks * self.steps / self.ranks if per_step else ranks


@asked_once
def recording(job: Job, ranks: tuple[int, ...]) -> Recording:
    """Measure what some ranks recorded, once per choice of ranks."""
    temporal = temporal_breakdown(job, ranks).ranks
    communication = overlap(job, ranks).ranks
    columns = {
        "span": temporal["kernel_time_ns"],
        "busy": temporal["kernel_time_ns"] - temporal["idle_time_ns"],
        "idle": temporal["idle_time_ns"],
        "compute": temporal["compute_time_ns"],
        "graph": temporal["graph_time_ns"],
        "non_compute": temporal["non_compute_time_ns"],
        "communication": communication["communication_time_ns"],
        "overlap": communication["overlap_time_ns"],
        "beside_graph": communication["beside_graph_ns"],
        "exposed_communication": communication["exposed_communication_ns"],
    }
    steps = job.reduce(_number_of_steps, ranks).values()
    return Recording(
        ranks=len(ranks),
        steps=sum(steps),
        all_have_steps=all(steps),
        times_ns={name: int(column.sum()) for name, column in columns.items()},
    )


def compared_times(
    first: Recording, second: Recording, shares: tuple[float, float] | None
) -> pd.DataFrame:
    """Put the times of two jobs side by side: `Compare.times`.

    `shares` are the divisors of the times of each job; without them, the times stay integers.
    """
    have_graphs = any(job.times_ns[time] for job in (first, second) for time in GRAPH_TIMES)
    wanted = [time for time in TIMES if have_graphs or time not in GRAPH_TIMES]
    table = pd.DataFrame({"time": wanted, "percent_of": [TIMES[time] for time in wanted]})
    for place, (side, job) in enumerate({"first": first, "second": second}.items()):
        times_ns = table["time"].map(dict(job.times_ns))
        whole_ns = table["percent_of"].map(dict(job.times_ns))
        table[f"{side}_ns"] = times_ns / shares[place] if shares else times_ns
        table[f"{side}_percent"] = 100 * times_ns / whole_ns.where(whole_ns > 0)
    table["delta_ns"] = table["second_ns"] - table["first_ns"]
    table["delta_percentage_points"] = table["second_percent"] - table["first_percent"]
    return table[list(TIME_COLUMNS)]


def compared_tails(
    first: Job, second: Job, ranks: tuple[tuple[int, ...], tuple[int, ...]]
) -> pd.DataFrame:
    """Put the longest events of some ranks of two jobs side by side: `Compare.tails`."""
    of_jobs = [
        categories_of_ranks(job, chosen) for job, chosen in zip((first, second), ranks, strict=True)
    ]
    rows = [
        {"category": category, "percent": percent}
        | _tail(of_jobs[0].get(category), percent, "first")
        | _tail(of_jobs[1].get(category), percent, "second")
        for category in CATEGORY_NAMES
        if any(category in categories for categories in of_jobs)
        for percent in PERCENTAGES
    ]
    table = pd.DataFrame(rows, columns=list(TAIL_COLUMNS))
    means = table[["mean_first_ns", "mean_second_ns"]].astype(float)
    table[means.columns] = means
    ratio = means["mean_second_ns"] / means["mean_first_ns"].replace(0, np.nan)
    return table.assign(ratio_mean=ratio)


def _number_of_steps(rank: Rank) -> int:
    included = rank.settings.include_last_profiler_step
    return len(analysed_steps(rank.steps, include_last_profiler_step=included))


def _tail(category: DurationCategory | None, percent: int, side: str) -> dict[str, float]:
    """Number of events, number of the longest ones for a percentage, and their mean (ns)."""
    count = category.durations.count if category else 0
    k = count * percent // 100
    mean_ns = np.nan
    if category and k:
        time_ns, _ = category.durations.longest(np.array([k]))
        mean_ns = float(time_ns[0] / k)
    return {f"count_{side}": count, f"k_{side}": k, f"mean_{side}_ns": mean_ns}


def compared_kernels(
    first: pd.DataFrame, second: pd.DataFrame, shares: tuple[float, float] | None
) -> pd.DataFrame:
    """Put the kernels of two jobs, from `kernel_totals`, side by side: `Compare.kernels`.

    `shares` are the divisors of the counts and totals of each job; without them, these stay
    integers.
    """
    table = first.add_suffix("_first").join(second.add_suffix("_second"), how="outer")
    for place, side in enumerate((FIRST, SECOND)):
        counts = table[f"launches_{side}"].fillna(0).astype(np.int64)
        totals_ns = table[f"total_ns_{side}"].fillna(0).astype(np.int64)
        table[f"mean_{side}_ns"] = totals_ns / counts.where(counts > 0)
        table[f"count_{side}"] = counts / shares[place] if shares else counts
        table[f"total_{side}_ns"] = totals_ns / shares[place] if shares else totals_ns
    for column in ("count{}", "total{}_ns", "mean{}_ns"):
        names = [column.format(f"_{side}") for side in (FIRST, SECOND)]
        table[f"delta_{column.format('')}"] = table[names[1]] - table[names[0]]
    table["ratio_mean"] = table["mean_second_ns"] / table["mean_first_ns"].replace(0, np.nan)
    in_both = table["name_first"].notna() & table["name_second"].notna()
    table["in"] = np.where(in_both, BOTH, np.where(table["name_first"].notna(), FIRST, SECOND))
    table["kernel_type"] = table["kernel_type_first"].fillna(table["kernel_type_second"])
    table["kernel"] = table["name_first"].fillna(table["name_second"]).map(demangled)
    return by_change(table[list(KERNEL_COLUMNS)])


def by_change(kernels: pd.DataFrame, column: str = "delta_total_ns") -> pd.DataFrame:
    """Sort kernels by the size of a change, largest first; kernels without one come last."""
    size = kernels[column].abs()
    order = kernels.assign(size=size).sort_values(["size", "kernel"], ascending=[False, True])
    return kernels.loc[order.index].reset_index(drop=True)


def only_in_one(kernels: pd.DataFrame) -> pd.DataFrame:
    """Kernels that occur in only one of the jobs: `Compare.only_in_one`."""
    parts = []
    for side in (FIRST, SECOND):
        own = kernels[kernels["in"] == side]
        whole_ns = kernels[f"total_{side}_ns"].sum()
        part = own.rename(columns={f"count_{side}": "count", f"total_{side}_ns": "total_ns"})
        part = part.assign(share_percent=100 * part["total_ns"] / (whole_ns or np.nan))
        parts.append(part[list(ONLY_COLUMNS)])
    table = pd.concat(parts)
    return table.sort_values(
        ["in", "total_ns", "kernel"], ascending=[True, False, True], ignore_index=True
    )


@asked_once
def kernel_totals(job: Job, ranks: tuple[int, ...]) -> pd.DataFrame:
    """Count and add up the work of each kernel over some ranks, once per choice of ranks.

    Indexed by the normalised name: ``name`` (if profilers or builds give a kernel several names,
    the one with the most time) and its ``kernel_type``, ``launches``, ``total_ns`` (int64 ns).
    """
    by_rank = job.reduce(_named_work, ranks)
    found = [named for of_rank in by_rank.values() for named in of_rank]
    table = pd.DataFrame(found, columns=["key", "name", "kernel_type", *_SUMS])
    by_name = table.groupby(["key", "name", "kernel_type"], as_index=False).sum()
    by_name = by_name.sort_values(["total_ns", "name"], ascending=[False, True])
    by_key = by_name.groupby("key", sort=True)
    totals = by_key[["name", "kernel_type"]].first().join(by_key[_SUMS].sum())
    return totals.astype(dict.fromkeys(_SUMS, np.int64))


def _named_work(rank: Rank) -> list[tuple[str, str, str, int, int]]:
    """Normalised name, name, type, launches and total time (ns) of each kernel of a rank."""
    work, events = rank.gpu_work, rank.trace.events
    wanted = np.flatnonzero(events.kind[work.rows] != Kind.BUSY)
    keys = [work.name[wanted], work.type[wanted]]
    kernels = pd.Series(work.duration_ns[wanted]).groupby(keys).agg(["size", "sum"])
    mangled = mangled_names(events)
    graphs = set(events.name.codes[events.rows_of(Kind.GRAPH)].tolist())
    return [
        (
            normalised_kernel_name(mangled.get(code, name)),
            name,
            KernelType(kernel_type).name,
            launches,
            total_ns,
        )
        for (code, kernel_type), launches, total_ns in kernels.itertuples()
        for name in [_GRAPHS if code in graphs else work.names[code]]
    ]


def mangled_names(events: Events) -> dict[int, str]:
    """Mangled names by the code of a name, if the trace has one that can be demangled."""
    side = events.side.get("mangled")
    column = side.columns["mangled"] if side else None
    if side is None or not isinstance(column, TextColumn):
        return {}
    pairs: Int32Array = np.unique(
        np.column_stack((events.name.codes[side.rows], column.codes)), axis=0
    )
    texts = {code: column.values[place] for code, place in pairs.tolist() if place >= 0}
    return {
        code: text
        for code, text in texts.items()
        if is_mangled(text) and not is_mangled(demangled(text))
    }
