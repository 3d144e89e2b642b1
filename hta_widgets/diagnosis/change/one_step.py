"""A step of one job, to show next to a step of another, and where in it something is seen."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.budget.classes import CLASS_OF
from hta_widgets.analyses.collectives import rank_splits
from hta_widgets.analyses.communication.partition import RankSplit
from hta_widgets.analyses.time.modules import of_classes
from hta_widgets.analyses.timeline.lanes import RankLanes
from hta_widgets.analyses.timeline.overview import Span, overview_of
from hta_widgets.arrays import Int64Array
from hta_widgets.diagnosis.change.time_spent import coded_pieces
from hta_widgets.diagnosis.change.waterfall import LEVELS
from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.facts import has_gpu_work
from hta_widgets.trace.ranks.rank import Rank

BINS: Final = 348
"""Number of columns of a picture without a kernel."""


class OneStep(NamedTuple):
    """A step of one rank of a job; times are ns since it started on the device."""

    job: str
    rank: int
    step: int
    """The step is -1 for the GPU span, without steps."""
    typical: int
    """The step of the rank with the median length; of an even number of steps, the shorter of the
    two in the middle."""
    length_ns: int
    seen: pd.DataFrame
    """``start_ns`` and ``end_ns`` of what belongs to a row of the waterfall, ascending."""
    covered_ns: Int64Array
    """Time of each class in each of `BINS` equal parts of the step."""


def one_step(
    job: Job, path: tuple[str, ...] = (), *, rank: int | None = None, step: int | None = None
) -> OneStep | None:
    """A step of a job, and where in it a row of the waterfall is seen; None without GPU work.

    Parameters
    ----------
    job : Job
    path : tuple of str
        Texts of `LEVELS`, as far down as the row is; empty for no row.
    rank, step : int, optional
        If not given, or if they do not exist, the first rank with GPU work, and its typical step.
    """
    busy = [each for each, works in job.reduce(has_gpu_work, job.ranks).items() if works]
    if not busy:
        return None
    chosen = rank if rank in busy else busy[0]
    split = job.remember(rank_splits)[chosen]
    asked = {chosen: (split, step, path)}
    found = job.reduce_each(_step_of_rank, asked)[chosen]
    return None if found is None else found._replace(job=job.name, rank=chosen)


def _step_of_rank(
    rank: Rank, split: RankSplit, asked: int | None, path: tuple[str, ...]
) -> OneStep | None:
    lanes = RankLanes(rank, split)
    edges, numbers = lanes.steps.edges, lanes.steps.number
    lengths = np.diff(edges)
    if not lengths.size:
        return None
    known = np.flatnonzero(numbers == (-1 if asked is None else asked))
    median = int(np.argsort(lengths, kind="stable")[(lengths.size - 1) // 2])
    place = int(known[0]) if known.size else median
    start_ns, end_ns = int(edges[place]), int(edges[place + 1])
    number = int(numbers[place])
    return OneStep(
        "",
        0,
        number,
        int(numbers[median]),
        end_ns - start_ns,
        _seen(rank, split, number, path, start_ns),
        overview_of(lanes, Span(start_ns, end_ns), BINS).covered_ns,
    )


def _seen(
    rank: Rank, split: RankSplit, step: int, path: tuple[str, ...], start_ns: int
) -> pd.DataFrame:
    nothing = np.zeros(0, dtype=np.int64)
    if not path:
        return pd.DataFrame({"start_ns": nothing, "end_ns": nothing})
    pieces, codes = coded_pieces(rank, split, (step,))
    kept = np.ones(pieces.start_ns.size, dtype=np.bool_)
    for name, text in zip(LEVELS, path, strict=False):
        code, texts = codes["part" if name == "class" else name]
        kept &= np.array([_is(name, each, text) for each in texts], dtype=np.bool_)[code]
    times = {"start_ns": pieces.start_ns[kept], "end_ns": pieces.end_ns[kept]}
    seen = pd.DataFrame(times) - start_ns
    return seen.sort_values("start_ns", kind="stable", ignore_index=True)


def _is(level: str, text: str, asked: str) -> bool:
    """Whether a text belongs to a row; jobs may be compared by the classes of their modules."""
    if level == "class":
        return CLASS_OF[text] == asked
    return asked in (text, of_classes(text)) if level == "module" else text == asked
