"""Times of two jobs side by side, and how much each job recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hta_widgets.analyses.overlap import overlap
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.analyses.time.duration_categories import (
    CATEGORY_NAMES,
    DurationCategory,
    categories_of_ranks,
)
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.steps import analysed_steps
from hta_widgets.trace.ranks.rank import Rank

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
"""Times that are compared, each with the time that it is a percentage of."""
GRAPH_TIMES = ("graph", "beside_graph")
"""Those of CUDA graphs recorded as a whole, which few jobs have."""

TIME_COLUMNS = (
    *("time", "first_ns", "second_ns", "delta_ns"),
    *("percent_of", "first_percent", "second_percent", "delta_percentage_points"),
)
TAIL_COLUMNS = (
    *("category", "percent", "count_first", "count_second", "k_first", "k_second"),
    *("mean_first_ns", "mean_second_ns", "ratio_mean"),
)


@dataclass(frozen=True)
class Recording:
    """How much a job recorded."""

    ranks: int
    steps: int
    """ProfilerSteps that are analysed, summed over the ranks."""
    all_have_steps: bool
    """Every rank has a ProfilerStep."""
    times_ns: Mapping[str, int]
    """Times of `TIMES` in ns, summed over the GPUs."""

    def share(self, *, per_rank: bool, per_step: bool) -> float:
        """Divisor that turns sums over the ranks into means."""
        ranks = self.ranks if per_rank else 1
        return ranks * self.steps / self.ranks if per_step else ranks


def recording(job: Job, ranks: tuple[int, ...]) -> Recording:
    """Measure what some ranks recorded, once per choice of ranks."""
    return job.remember(_recording, ranks)


def compared_times(
    first: Recording, second: Recording, shares: tuple[float, float] | None
) -> pd.DataFrame:
    """Put the times of two jobs side by side.

    Parameters
    ----------
    shares : tuple of float, optional
        Divisors of the times of each job; without them the times stay integers.

    Returns
    -------
    DataFrame
        See `Compare.times`.
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
    """Put the longest events of two jobs side by side.

    Parameters
    ----------
    ranks : tuple of two tuples of int
        Ranks of each job, whose events are combined.

    Returns
    -------
    DataFrame
        See `Compare.tails`.
    """
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


def _recording(job: Job, ranks: tuple[int, ...]) -> Recording:
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
