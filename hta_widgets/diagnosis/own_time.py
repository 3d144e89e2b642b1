"""Which ranks need longer than the others, and when: own time compared with the median."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.arrays import Float64Array
from hta_widgets.diagnosis.job.steps import usual_own


class OwnTime(NamedTuple):
    """Time that each rank needs itself, compared with the others."""

    own_ns: pd.DataFrame
    """A row for each rank, a column for each step from the first to the last; NaN where a step was
    not analysed."""
    percent: pd.DataFrame
    """How much more each value is than that of the median rank in the same step, in percent. With
    two ranks, the faster one is the reference; with a single rank, its median step."""
    usual_percent: pd.Series[float]
    """How much more the median rank needs in each step than in the median step."""


def own_time(steps: pd.DataFrame) -> OwnTime:
    """Compare the own time of ranks, from `Diagnosis.steps`."""
    own = steps.set_index(["rank", "step"])["own_ns"].unstack().astype(float)  # noqa: PD010
    own = own.reindex(columns=range(int(own.columns.min()), int(own.columns.max()) + 1))
    values = own.to_numpy()
    usual = usual_own(values)
    by_step = _more_than(np.nanmedian(usual), usual)
    longer = by_step[np.newaxis] if len(own) == 1 else _more_than(usual, values)
    return OwnTime(
        own_ns=own,
        percent=pd.DataFrame(longer, own.index, own.columns),
        usual_percent=pd.Series(by_step, own.columns),
    )


def _more_than(usual: Float64Array | float, own: Float64Array) -> Float64Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(100 * (own / usual - 1))
