"""Statistics of a quantity that changes in steps: over its changes, and over time."""

from __future__ import annotations

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
    return dict(zip(PER_CHANGE, pd.Series(values).describe(), strict=True))


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
    mean = float(np.average(values, weights=held_ns))
    std = float(np.sqrt(np.average(np.square(values - mean), weights=held_ns)))
    order = np.argsort(values, kind="stable")
    reached_ns = np.cumsum(held_ns[order])
    places = [np.searchsorted(reached_ns, total_ns * share) for share in QUARTILES.values()]
    quartiles = [float(values[order[place]]) for place in places]
    return dict(zip(OVER_TIME, (mean, std, *quartiles), strict=True))
