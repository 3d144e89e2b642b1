"""Intervals of the selected finding, which the timeline highlights on all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.intervals import Intervals

MOST_LIT: Final = 6_000
"""Maximum intervals sent to a page, over all ranks: this many outside the window, and inside."""

LitRank = tuple[int, list[int]]
"""A rank, and the alternating starts and ends (ns, on the common clock) of its intervals."""


def lit(intervals: pd.DataFrame, window_ns: Sequence[int] | None) -> list[LitRank]:
    """Highlighted intervals of each rank, merged if too many; the window has its own limit.

    Parameters
    ----------
    intervals : DataFrame
        `Proof.intervals`.
    window_ns : pair of int, optional
        The selected window.
    """
    ranks = intervals["rank"].unique().tolist()
    most = max(MOST_LIT // max(len(ranks), 1), 1)
    found = []
    for rank in ranks:
        own = intervals[intervals["rank"] == rank]
        whole = Intervals.union(own["start_ns"].to_numpy(), own["end_ns"].to_numpy())
        window = Intervals.union(*(([each] for each in window_ns) if window_ns else ([], [])))
        shown = coarse(whole - window, most) | coarse(whole & window, most)
        found.append((rank, np.column_stack((shown.starts, shown.ends)).ravel().tolist()))
    return found


def coarse(intervals: Intervals, most: int) -> Intervals:
    """The intervals, with the shortest gaps closed so that at most `most` intervals remain."""
    if len(intervals) <= most:
        return intervals
    gaps_ns = intervals.starts[1:] - intervals.ends[:-1]
    kept = np.sort(np.argsort(-gaps_ns, kind="stable")[: most - 1])
    starts = np.concatenate((intervals.starts[:1], intervals.starts[1:][kept]))
    ends = np.concatenate((intervals.ends[:-1][kept], intervals.ends[-1:]))
    return Intervals.union(starts, ends)
