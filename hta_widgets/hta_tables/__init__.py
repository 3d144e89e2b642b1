"""Results as HTA's tables: its column names, column order, sort order and units (µs)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hta_widgets.lazy_modules import LazyModule
from hta_widgets.trace.cache.derived_columns import Columns

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = LazyModule("pandas")

_DESCRIBED = ("count", "mean", "std", "min", "25%", "50%", "75%", "max")


def tables_of(columns: Mapping[int, Columns]) -> dict[int, pd.DataFrame]:
    """Make a table of each rank's columns, without copying them.

    All columns are computed before the first table is made: numpy work between two tables would
    evict pandas from the CPU's caches and make each table take seven times as long.
    """
    return {rank: pd.DataFrame(of_rank, copy=False) for rank, of_rank in columns.items()}


def device_column(table: pd.DataFrame) -> dict[str, pd.Series]:
    """Column ``device``, only for jobs with several devices on a rank."""
    return {"device": table["device"]} if table["rank"].duplicated().any() else {}


def statistics_table(
    table: pd.DataFrame, keys: Sequence[str], columns: Sequence[str], of: str
) -> pd.DataFrame:
    """Columns with the eight statistics, shaped like ``groupby(keys)[[of]].describe()``."""
    shown = table.set_index(list(keys))[list(columns)].astype(np.float64)
    shown.columns = pd.MultiIndex.from_product([[of], _DESCRIBED])
    return shown
