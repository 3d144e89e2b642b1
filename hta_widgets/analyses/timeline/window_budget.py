"""The budget of a window of time: for each rank and step, the part inside."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import pandas as pd

from hta_widgets.analyses.budget.classes import BUDGET_CLASSES
from hta_widgets.analyses.collectives import rank_splits
from hta_widgets.analyses.communication.partition import RankSplit
from hta_widgets.analyses.time.selection import WindowNs, checked_window
from hta_widgets.analyses.timeline.lanes import RankLanes
from hta_widgets.analyses.timeline.lanes_of_job import job_lanes
from hta_widgets.analyses.timeline.overview import by_class
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.ranks.rank import Rank


def window_budget(
    job: Job,
    ranks: Iterable[int] | None,
    window_ns: Sequence[int],
    *,
    steps: Collection[int] = (),
) -> pd.DataFrame:
    """What the time of a window is spent on, as if the trace were cut at its edges.

    Why a rank idles or waits is decided by the whole trace, even if the cause lies outside.
    The job remembers the budgets of the windows that were requested last.

    Parameters
    ----------
    ranks : iterable of int or None
        All ranks when None.
    window_ns : pair of int
        Start and end (ns) since the first event of all ranks, on the common clock.
    steps : collection of int
        ProfilerSteps that count; all analysed ones if empty.

    Returns
    -------
    DataFrame
        One row per rank and step with time in the window: ``rank``, ``step`` (-1 without steps),
        ``period_ns`` (of the step, inside the window), and the classes of `budget` as int64, which
        add up to ``period_ns``.
    """
    chosen = select_ranks(job, ranks)
    window = checked_window(window_ns) or (0, 0)
    known = job.remember(_known_budgets, window)
    missing = [rank for rank in chosen if rank not in known]
    if missing:
        known.update(_budgets(job, missing, window))
    table = pd.concat([known[rank] for rank in chosen], ignore_index=True)
    return table[table["step"].isin(steps)].reset_index(drop=True) if steps else table


def _known_budgets(_: Job, __: WindowNs) -> dict[int, pd.DataFrame]:
    """Budgets that `window_budget` has already counted in a window, by rank."""
    return {}


def _budgets(job: Job, ranks: Sequence[int], window_ns: WindowNs) -> dict[int, pd.DataFrame]:
    start_ns, end_ns = window_ns
    lanes, splits = job_lanes(job), rank_splits(job)
    own = {
        rank: (start_ns - lanes.offsets_ns[rank], end_ns - lanes.offsets_ns[rank]) for rank in ranks
    }
    if job.too_many_to_hold(ranks):
        return job.reduce_each(_budget_of_rank, {rank: (splits[rank], own[rank]) for rank in ranks})
    return {rank: _budget_of(lanes.of(rank), own[rank]) for rank in ranks}


def _budget_of_rank(rank: Rank, split: RankSplit, window: WindowNs) -> pd.DataFrame:
    return _budget_of(RankLanes(rank, split), window)


def _budget_of(lanes: RankLanes, window: WindowNs) -> pd.DataFrame:
    """The budget of one rank in a window of its own clock."""
    edges, number = np.clip(lanes.steps.edges, *window), lanes.steps.number
    of_classes_ns = by_class(lanes, edges)  # those of the budget are first
    table = pd.DataFrame(
        {
            "rank": np.full(number.size, lanes.rank.trace.rank, dtype=np.int64),
            "step": number,
            "period_ns": np.diff(edges) if edges.size else edges,
            **{f"{name}_ns": of_classes_ns[at] for at, name in enumerate(BUDGET_CLASSES)},
        }
    )
    return table[table["period_ns"] > 0]
