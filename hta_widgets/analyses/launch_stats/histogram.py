"""Histograms of sorted times, whose cost does not grow with the number of events."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np
from numpy.typing import NDArray

from hta_widgets.intervals import Times

_LEADING_DIGITS = (1, 2, 5)


def histogram(
    parts: Sequence[Times], lowest: int, bins_at_most: int
) -> tuple[Times, NDArray[np.int64]]:
    """Count times in bins of equal width.

    Parameters
    ----------
    parts : sequence of ndarray of int64
        Times (ns), each part ascending, none below `lowest`.
    lowest : int
        Lower edge of the first bin.
    bins_at_most : int
        Maximum number of bins. Their width is the smallest that this allows of 1, 2 or 5 times a
        power of ten, so that whole µs fall evenly into the bins.

    Returns
    -------
    edges : ndarray of int64
        One more than bins; bins are half-open.
    counts : ndarray of int64
        Empty when there are no times.

    Examples
    --------
    >>> edges, counts = histogram([np.array([3, 4, 11])], 0, 4)
    >>> edges.tolist(), counts.tolist()
    ([0, 5, 10, 15], [2, 0, 1])
    """
    filled = [times for times in parts if times.size]
    if not filled:
        return np.array([lowest], dtype=np.int64), np.zeros(0, dtype=np.int64)
    highest = max(int(times[-1]) for times in filled)
    width = _nice_width((highest - lowest + 1) / bins_at_most)
    bins = (highest - lowest) // width + 1
    edges = lowest + width * np.arange(bins + 1, dtype=np.int64)
    counts = sum(np.diff(np.searchsorted(times, edges)) for times in filled)
    return edges, np.asarray(counts, dtype=np.int64)


def _nice_width(least: float) -> int:
    widths = (digit * 10**power for power in count() for digit in _LEADING_DIGITS)
    return int(next(width for width in widths if width >= least))
