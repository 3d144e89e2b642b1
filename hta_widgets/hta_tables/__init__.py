"""Results as HTA's tables: its column names, column order, sort order and units (µs)."""

from __future__ import annotations

import pandas as pd

NS_PER_US = 1000


def device_column(table: pd.DataFrame) -> dict[str, pd.Series]:
    """Column ``device``, which only jobs with several devices on a rank have."""
    return {"device": table["device"]} if table["rank"].duplicated().any() else {}
