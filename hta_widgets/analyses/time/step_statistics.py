"""Statistics of a quantity that changes in steps: over its changes, and over time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.time.call_sums import sums_at
from hta_widgets.intervals import Times

PER_CHANGE = ("count", "mean", "std", "min", "q25", "median", "q75", "max")
QUARTILES = {"q25": 0.25, "median": 0.5, "q75": 0.75}
OVER_TIME = tuple(f"{name}_over_time" for name in ("mean", "std", *QUARTILES))


def statistics_per_change(values: NDArray[Any]) -> dict[str, float]:
    """Statistics of the values after each change, with pandas' definitions."""
    if not values.size:
        return dict.fromkeys(PER_CHANGE, math.nan) | {"count": 0}
    std = float(values.std(ddof=1)) if values.size > 1 else math.nan
    quantiles = np.quantile(values, (0, *QUARTILES.values(), 1)).tolist()
    return dict(zip(PER_CHANGE, (values.size, float(values.mean()), std, *quantiles), strict=True))


def statistics_over_time(values: NDArray[Any], held_ns: Times) -> dict[str, float]:
    """Mean, standard deviation and quartiles of values that hold for the given times: `OVER_TIME`.

    A quartile is the smallest value that is not exceeded for its share of the time. NaN if all
    times are 0.
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
    """Values, ascending, and the total time that each holds."""
    if values.dtype.kind == "f":
        distinct, number = np.unique(values, return_inverse=True)
    else:
        # Queue lengths are close together: this takes 10 ms for 2 M changes, sorting 108 ms.
        distinct, number = np.arange(values.min(), values.max() + 1), values - values.min()
    return distinct, sums_at(number, held_ns, distinct.size)
