"""One step of a job, as a comparison draws it above that of another: what it is spent on."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.collectives.analysis import rank_splits
from hta_widgets.analyses.communication.partition import RankSplit
from hta_widgets.analyses.time.modules import of_classes
from hta_widgets.analyses.timeline.classes import BUDGET_CLASSES
from hta_widgets.analyses.timeline.lanes import RankLanes
from hta_widgets.analyses.timeline.overview import Span, overview_edges, overview_of
from hta_widgets.diagnosis.change.summary import CLASS_OF
from hta_widgets.diagnosis.change.time_spent import coded_pieces
from hta_widgets.diagnosis.change.waterfall import LEVELS
from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.facts import has_gpu_work
from hta_widgets.trace.ranks.rank import Rank

BINS: Final = 1_000
"""Of the longer of two steps, about a pixel each."""


class OneStep(NamedTuple):
    """A step of one rank of a job; times are ns since it began on the device.

    Attributes
    ----------
    job : str
    rank, step : int
        The step is -1 for the GPU span, without steps.
    length_ns : int
    runs : DataFrame
        ``class`` (of the budget), ``start_ns`` and ``end_ns``: in equal bins, what most of each is
        spent on; nothing where that is none of the classes.
    seen : DataFrame
        ``start_ns`` and ``end_ns`` of what belongs to a row of the waterfall, ascending.
    """

    job: str
    rank: int
    step: int
    length_ns: int
    runs: pd.DataFrame
    seen: pd.DataFrame

    @property
    def words(self) -> str:
        """Which step it is."""
        where = f"step {self.step}" if self.step >= 0 else "GPU span"
        return f"{self.job}, rank {self.rank}, {where}"


def one_step(
    job: Job, path: tuple[str, ...] = (), *, rank: int | None = None, step: int | None = None
) -> OneStep | None:
    """A step of a job, and where in it a row of the waterfall is seen; None without GPU work.

    Parameters
    ----------
    job : Job
    path : tuple of str
        Texts of `LEVELS`, as far down as the row is; nothing for no row.
    rank, step : int, optional
        The first rank with GPU work, and the step of it whose length is nearest the mean, where
        these are not given or do not exist.
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
    nearest = int(np.abs(lengths - lengths.mean()).argmin())
    place = int(known[0]) if known.size else nearest
    start_ns, end_ns = int(edges[place]), int(edges[place + 1])
    number = int(numbers[place])
    return OneStep(
        "",
        0,
        number,
        end_ns - start_ns,
        _runs(lanes, Span(start_ns, end_ns)),
        _seen(rank, split, number, path, start_ns),
    )


def _runs(lanes: RankLanes, span: Span) -> pd.DataFrame:
    covered_ns = overview_of(lanes, span, BINS).covered_ns[: len(BUDGET_CLASSES)]
    edges = overview_edges(span, BINS) - span.start_ns
    most = np.where(covered_ns.any(axis=0), covered_ns.argmax(axis=0), -1)
    first = np.flatnonzero(np.diff(most, prepend=-2))
    last = np.append(first[1:], most.size)
    kept = most[first] >= 0
    return pd.DataFrame(
        {
            "class": [BUDGET_CLASSES[code] for code in most[first][kept].tolist()],
            "start_ns": edges[first][kept],
            "end_ns": edges[last][kept],
        }
    )


def _seen(
    rank: Rank, split: RankSplit, step: int, path: tuple[str, ...], start_ns: int
) -> pd.DataFrame:
    nothing = np.zeros(0, dtype=np.int64)
    if not path:
        return pd.DataFrame({"start_ns": nothing, "end_ns": nothing})
    pieces, codes = coded_pieces(rank, split, (step,))
    kept = np.ones(len(pieces), dtype=np.bool_)
    for name, text in zip(LEVELS, path, strict=False):
        code, texts = codes["part" if name == "class" else name]
        kept &= np.array([_is(name, each, text) for each in texts], dtype=np.bool_)[code]
    seen = pieces.loc[kept, ["start_ns", "end_ns"]] - start_ns
    return seen.sort_values("start_ns", kind="stable", ignore_index=True)


def _is(level: str, text: str, asked: str) -> bool:
    """Whether a text is that of a row; jobs may be compared by the classes of their modules."""
    if level == "class":
        return CLASS_OF[text] == asked
    return asked in (text, of_classes(text)) if level == "module" else text == asked
