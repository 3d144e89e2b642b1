"""What every rank does at each instant, for any window of time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from hta_widgets.analyses.budget.classes import BUDGET_CLASSES
from hta_widgets.analyses.clocks.aligned import alignment_notices
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.analyses.timeline.added import JobLaneKind
from hta_widgets.analyses.timeline.classes import LABELS
from hta_widgets.analyses.timeline.lanes_of_job import JobLanes, job_lanes
from hta_widgets.analyses.timeline.overview import OVERVIEW_CLASSES, RankOverview
from hta_widgets.quantities import counted, duration, percent
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.formats import Recorded

BINS = 2_000
"""Number of bins of the overview."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Timeline(Result):
    """What every rank does at each instant, on the common clock of the job.

    Attributes
    ----------
    lanes : JobLanes
        Answers what any window of any lane looks like.
    overviews : dict of int to RankOverview
        Each rank in `BINS` equal bins of the analysed time.
    coverage : DataFrame
        One row per rank: ``rank``, and the time of each class of the budget in the analysed steps
        (``compute_ns``, …, int64); the classes add up to ``period_ns``.
    steps : DataFrame
        One row per rank and analysed step: ``rank``, ``step`` (-1 without steps), ``start_ns``,
        ``end_ns`` (since the first event of all ranks).
    """

    lanes: JobLanes
    overviews: dict[int, RankOverview]
    coverage: pd.DataFrame
    steps: pd.DataFrame


def timeline(
    job: Job, ranks: Iterable[int] | None = None, *, kinds: tuple[JobLaneKind, ...] = ()
) -> Timeline:
    """Lay out what every rank does over time.

    The lane of a rank has the classes of the budget of a step (`budget`), from the same functions:
    the covered time of a step adds up to its budget to the nanosecond.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks when not given.
    kinds : tuple of JobLaneKind, optional
        More kinds of lanes that can be added.
    """
    chosen = select_ranks(job, ranks)
    lanes = job_lanes(job, kinds)
    overviews = lanes.overviews(chosen, BINS)
    coverage = _coverage(overviews)
    return Timeline(
        lanes=lanes,
        overviews=overviews,
        coverage=coverage,
        steps=_steps(lanes, overviews),
        finding=_timeline_finding(
            coverage, has_steps=any(NO_STEP not in each.steps.number for each in overviews.values())
        ),
        notices=(*job.notices_for(chosen, Recorded.KERNELS), *alignment_notices(job, chosen)),
    )


def _coverage(overviews: Mapping[int, RankOverview]) -> pd.DataFrame:
    by_rank = [each.by_step_ns.sum(axis=1) for each in overviews.values()]
    matrix = np.array(by_rank, dtype=np.int64).reshape(len(by_rank), len(OVERVIEW_CLASSES))
    of_budget = matrix[:, : len(BUDGET_CLASSES)]
    columns = {f"{name}_ns": of_budget[:, code] for code, name in enumerate(BUDGET_CLASSES)}
    ranks = np.array([*overviews], dtype=np.int64)
    return pd.DataFrame({"rank": ranks, "period_ns": of_budget.sum(axis=1), **columns})


def _steps(lanes: JobLanes, overviews: Mapping[int, RankOverview]) -> pd.DataFrame:
    rows = [
        (rank, step, start + lanes.offsets_ns[rank], end + lanes.offsets_ns[rank])
        for rank, each in overviews.items()
        for step, (start, end) in zip(
            each.steps.number.tolist(), pairwise(each.steps.edges.tolist()), strict=True
        )
    ]
    return pd.DataFrame(rows, columns=["rank", "step", "start_ns", "end_ns"], dtype=np.int64)


def _timeline_finding(coverage: pd.DataFrame, *, has_steps: bool) -> str:
    """Sentence on what all ranks together spend most of the time on."""
    total_ns = int(coverage["period_ns"].sum())
    if not total_ns:
        return "No GPU work was recorded on the selected ranks."
    sums = {name: int(coverage[f"{name}_ns"].sum()) for name in BUDGET_CLASSES}
    compute = percent(100 * sums.pop("compute") / total_ns)
    most = max(sums, key=lambda name: sums[name])
    whole = "the steps" if has_steps else "the GPU span"
    text = f"The GPUs compute {compute} of {whole} of {counted(len(coverage), 'rank')}"
    if not sums[most]:
        return f"{text}."
    rest = percent(100 * sums[most] / total_ns)
    mean = duration(sums[most] / len(coverage))
    return f"{text}; most of the rest is {LABELS[most]}: {rest}, {mean} a rank."
