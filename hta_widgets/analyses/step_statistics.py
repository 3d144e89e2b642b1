"""Statistics of a quantity that changes in steps: over its changes, and over time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.intervals import Times

PER_CHANGE = ("count", "mean", "std", "min", "q25", "median", "q75", "max")
QUARTILES = {"q25": 0.25, "median": 0.5, "q75": 0.75}
OVER_TIME = tuple(f"{name}_over_time" for name in ("mean", "std", *QUARTILES))


def statistics_per_change(values: NDArray[Any]) -> dict[str, float]:
    """Count the values that changes lead to, and describe them as pandas does."""
    described = _describe(values) if values.dtype.kind == "i" and values.size else None
    return dict(zip(PER_CHANGE, described or pd.Series(values).describe(), strict=True))


def statistics_over_time(values: NDArray[Any], held_ns: Times) -> dict[str, float]:
    """Mean, standard deviation and quartiles of values that hold for the given times.

    A quartile is the least value that is not exceeded for its share of the time.

    Parameters
    ----------
    values : ndarray
    held_ns : ndarray of int64
        How long each value holds.

    Returns
    -------
    dict
        By the names in `OVER_TIME`; NaN when all times are 0.
    """
    total_ns = int(held_ns.sum())
    if not total_ns:
        return dict.fromkeys(OVER_TIME, np.nan)
    distinct, time_ns = _time_by_value(values, held_ns)
    mean = float(np.average(distinct, weights=time_ns))
    std = float(np.sqrt(np.average(np.square(distinct - mean), weights=time_ns)))
    reached_ns = np.cumsum(time_ns)
    places = [np.searchsorted(reached_ns, total_ns * share) for share in QUARTILES.values()]
    quartiles = [float(distinct[place]) for place in places]
    return dict(zip(OVER_TIME, (mean, std, *quartiles), strict=True))


def _time_by_value(values: NDArray[Any], held_ns: Times) -> tuple[NDArray[Any], Times]:
    """Values, ascending, and how long each holds in all."""
    if values.dtype.kind == "f":
        distinct, number = np.unique(values, return_inverse=True)
    else:
        distinct, number = _range(values), values - values.min()
    time_ns = np.zeros(distinct.size, dtype=np.int64)
    np.add.at(time_ns, number, held_ns)
    return distinct, time_ns


def _range(values: NDArray[Any]) -> NDArray[np.int64]:
    return np.arange(int(values.min()), int(values.max()) + 1)


def _describe(values: NDArray[Any]) -> tuple[float, ...]:
    """Eight statistics of whole numbers that lie close together, from how often each occurs."""
    distinct, total = _range(values), values.size
    counts = np.bincount(values - distinct[0])
    reached = np.cumsum(counts)
    mean = float(np.average(distinct, weights=counts))
    squares = float(np.average(np.square(distinct - mean), weights=counts)) * total
    std = math.sqrt(squares / (total - 1)) if total > 1 else math.nan

    def quantile(share: float) -> float:
        place = share * (total - 1)
        low, high = np.searchsorted(reached, [math.floor(place), math.ceil(place)], side="right")
        return float(distinct[low] + (distinct[high] - distinct[low]) * (place % 1))

    quartiles = map(quantile, QUARTILES.values())
    return (total, mean, std, float(distinct[0]), *quartiles, float(distinct[-1]))
