"""Results as HTA's tables: its column names, column order, sort order and units (µs)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from hta_widgets.trace.cache.derived_columns import Columns

_DESCRIBED = ("count", "mean", "std", "min", "25%", "50%", "75%", "max")


def tables_of(columns: Mapping[int, Columns]) -> dict[int, pd.DataFrame]:
    """Make a table of each rank's columns, which it takes over.

    All of them after all columns: numpy's work between two tables would make each take seven times
    as long, as pandas then has to be fetched into the CPU's caches again.
    """
    return {rank: pd.DataFrame(of_rank, copy=False) for rank, of_rank in columns.items()}


def device_column(table: pd.DataFrame) -> dict[str, pd.Series]:
    """Column ``device``, which only jobs with several devices on a rank have."""
    return {"device": table["device"]} if table["rank"].duplicated().any() else {}


def statistics_table(
    table: pd.DataFrame, keys: Sequence[str], columns: Sequence[str], of: str
) -> pd.DataFrame:
    """Columns with the eight statistics, in the form of ``groupby(keys)[[of]].describe()``."""
    shown = table.set_index(list(keys))[list(columns)].astype(np.float64)
    shown.columns = pd.MultiIndex.from_product([[of], _DESCRIBED])
    return shown
