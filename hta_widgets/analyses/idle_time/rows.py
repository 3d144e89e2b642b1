"""Rows of the tables of idle time of one rank."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.idle_time.gaps import Gaps
from hta_widgets.analyses.idle_time.split import IDLE_SPLIT, SplitGaps
from hta_widgets.arrays import Float64Array, Int64Array

Columns = dict[str, NDArray[np.generic]]

IDLE_CATEGORIES = ("host_wait", "kernel_wait", "other")
"""HTA's causes of an idle interval, each of which has one."""

_QUARTILES = {"q25_ns": 0.25, "median_ns": 0.5, "q75_ns": 0.75}
_NO_NUMBER = float("nan")


def category_rows(rank: int, gaps: Gaps, delay_ns: int) -> Columns:
    """One row per stream, or device, and cause."""
    edges = gaps.category_edges(delay_ns)
    idle_ns = np.diff(gaps.total_ns[edges])
    return {
        "rank": np.full(idle_ns.size, rank, dtype=np.int64),
        "device": np.repeat(gaps.device, len(IDLE_CATEGORIES)),
        "stream": np.repeat(gaps.stream, len(IDLE_CATEGORIES)),
        "idle_category": np.tile(np.arange(len(IDLE_CATEGORIES), dtype=np.int8), gaps.device.size),
        "idle_time_ns": idle_ns,
        "idle_percent": _share_of_group(idle_ns, len(IDLE_CATEGORIES)),
        **_statistics(gaps, idle_ns, edges),
        "unknown_launches": gaps.unknown_launches(delay_ns),
        "span_ns": np.repeat(gaps.span_ns, len(IDLE_CATEGORIES)),
    }


def split_rows(rank: int, gaps: SplitGaps, delay_ns: int) -> Columns:
    """One row per stream, or device, and part of its idle time."""
    idle_ns, count = gaps.by_part(delay_ns)
    return {
        "rank": np.full(idle_ns.size, rank, dtype=np.int64),
        "device": np.repeat(gaps.device, len(IDLE_SPLIT)),
        "stream": np.repeat(gaps.stream, len(IDLE_SPLIT)),
        "split": np.tile(np.arange(len(IDLE_SPLIT), dtype=np.int8), gaps.device.size),
        "idle_time_ns": idle_ns.ravel(),
        "idle_percent": _share_of_group(idle_ns.ravel(), len(IDLE_SPLIT)),
        "count": count.ravel(),
        "span_ns": np.repeat(gaps.span_ns, len(IDLE_SPLIT)),
    }


def _share_of_group(idle_ns: Int64Array, size: int) -> Float64Array:
    """Share (%) of each row in its group of rows of one stream or device."""
    whole_ns = np.repeat(idle_ns.reshape(-1, size).sum(axis=1), size)
    share = _undefined(idle_ns.size)
    np.divide(100 * idle_ns, whole_ns, out=share, where=whole_ns > 0)
    return share


def _statistics(gaps: Gaps, sum_ns: Int64Array, edges: Int64Array) -> Columns:
    """Statistics of runs of intervals that each ascend in length."""
    count, length_ns = np.diff(edges), gaps.length_ns
    filled = np.flatnonzero(count)
    first, number = edges[:-1][filled], count[filled]
    mean = sum_ns[filled] / number

    def spread(values: Float64Array) -> Float64Array:
        column = _undefined(count.size)
        column[filled] = values
        return column

    return {
        "count": count,
        "mean_ns": spread(mean),
        "std_ns": spread(_deviations(length_ns, mean, first, number)),
        "min_ns": spread(length_ns[first].astype(np.float64)),
        **{
            name: spread(_quantiles(length_ns, first, number, share))
            for name, share in _QUARTILES.items()
        },
        "max_ns": spread(length_ns[first + number - 1].astype(np.float64)),
    }


def _deviations(
    length_ns: Int64Array,
    mean: Float64Array,
    first: Int64Array,
    number: Int64Array,
) -> Float64Array:
    """Sample standard deviation of each run; NaN for single intervals."""
    deviations = np.full(mean.size, _NO_NUMBER)
    for run in np.flatnonzero(number > 1).tolist():
        difference = length_ns[first[run] : first[run] + number[run]] - mean[run]
        # A step of the slider at 1 M kernels: 7 ms; 14 to 38 ms with `difference @ difference`,
        # which starts threads. Prefix sums cancel where short intervals stand beside long ones.
        squares = np.einsum("i,i->", difference, difference)
        deviations[run] = np.sqrt(squares / (number[run] - 1))
    return deviations


def _quantiles(
    length_ns: Int64Array,
    first: Int64Array,
    number: Int64Array,
    share: float,
) -> Float64Array:
    """Quantile of each run, linear between its neighbours."""
    place = share * (number - 1)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, number - 1)
    low, high = length_ns[first + below], length_ns[first + above]
    return np.asarray(low + (high - low) * (place - below))


def _undefined(size: int) -> Float64Array:
    return np.full(size, _NO_NUMBER)
