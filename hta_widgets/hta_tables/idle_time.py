"""The idle time breakdown as HTA's two tables."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hta_widgets.arrays import Int64Array
from hta_widgets.quantities import NS_PER_US

_ALWAYS = "other"
_STATISTICS = {
    "mean_ns": "mean",
    "std_ns": "std",
    "min_ns": "min",
    "q25_ns": "25%",
    "median_ns": "50%",
    "q75_ns": "75%",
    "max_ns": "max",
}


def idle_time(streams: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of the first table of `TraceAnalysis.get_idle_time_breakdown`."""
    table = _rows_of_hta(streams)
    columns = {
        "rank": table["rank"],
        **_device_column(table),
        "stream": table["stream"],
        "idle_category": table["idle_category"].astype(str),
        "idle_time": (table["idle_time_ns"] / NS_PER_US).round(2),
        "idle_time_ratio": (table["idle_percent"] / 100).round(2),
    }
    return pd.DataFrame(columns).set_index(_place_on_rank(table["rank"].to_numpy()))


def idle_interval_statistics(streams: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of the second table of `TraceAnalysis.get_idle_time_breakdown`."""
    table = _rows_of_hta(streams)
    columns = {
        "rank": table["rank"],
        **_device_column(table),
        "stream": table["stream"],
        "count": table["count"].astype(float),
        **{name: (table[ours] / NS_PER_US).round(2) for ours, name in _STATISTICS.items()},
    }
    index = pd.Index(table["idle_category"].astype(str), name="idle_category")
    return pd.DataFrame(columns).set_index(index)


def _rows_of_hta(streams: pd.DataFrame) -> pd.DataFrame:
    """Drop causes that do not occur on a stream, except `other`."""
    kept = (streams["count"] > 0) | (streams["idle_category"] == _ALWAYS)
    return streams[kept].reset_index(drop=True)


def _place_on_rank(rank: Int64Array) -> Int64Array:
    """Number the rows of each rank from 0; rows of a rank are contiguous."""
    first = np.flatnonzero(np.diff(rank, prepend=-1))
    return np.arange(rank.size) - np.repeat(first, np.diff(first, append=rank.size))


def _device_column(table: pd.DataFrame) -> dict[str, pd.Series]:
    """Column ``device``, only if the streams of a rank are on several devices."""
    several = table[["rank", "device"]].drop_duplicates()["rank"].duplicated().any()
    return {"device": table["device"]} if several else {}
