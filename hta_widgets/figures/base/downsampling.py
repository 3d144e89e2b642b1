"""Reduce a step line to the changes that a screen can show, so that peaks stay visible."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Int64Array
from hta_widgets.intervals import Times

_KEPT_PER_INTERVAL = 3


def steps_to_draw(
    time_ns: Times, values: NDArray[Any], start_ns: int, end_ns: int, points: int
) -> Int64Array:
    """Choose the changes of a step line that are needed to draw it between two times, inclusive.

    If there are more changes than points, the time is cut into equal intervals, and the minimum,
    maximum and last value of each interval are kept: peaks stay visible, and the line has its true
    height between intervals. The value that holds at the start is always kept as well.

    Times must ascend, and values must not be NaN. Returns ascending positions in both.
    """
    first = max(int(np.searchsorted(time_ns, start_ns, side="right")) - 1, 0)
    last = int(np.searchsorted(time_ns, end_ns, side="right"))
    if last - first <= points:
        return np.arange(first, last)
    intervals = max(points // _KEPT_PER_INTERVAL, 1)
    inner = np.ceil(np.linspace(start_ns, end_ns, intervals + 1)[1:-1]).astype(np.int64)
    cuts = first + np.searchsorted(time_ns[first:last], inner)
    edges = dict.fromkeys((first, *cuts.tolist(), last))
    # M4 (Jugel et al., VLDB 2014) without the first value of an interval: a step line holds the
    # last value of the interval before it.
    kept = [first]
    for begin, end in pairwise(edges):
        run = values[begin:end]
        kept += (begin + int(run.argmin()), begin + int(run.argmax()), end - 1)
    return np.array(sorted({*kept}), dtype=np.int64)
