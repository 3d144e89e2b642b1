"""The memory bandwidth as HTA's tables."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from hta_widgets.analyses.memory_bandwidth import UNIT
from hta_widgets.analyses.time.step_statistics import PER_CHANGE
from hta_widgets.hta_tables import statistics_table, tables_of
from hta_widgets.quantities import NS_PER_US
from hta_widgets.trace.cache.derived_columns import Columns


def memory_bw_time_series(changes: Mapping[int, Columns]) -> dict[int, pd.DataFrame]:
    """Return the tables that `TraceAnalysis.get_memory_bw_time_series` documents."""
    columns = {
        rank: {
            "ts": each["time_ns"] / NS_PER_US,
            "pid": each["pid"].copy(),
            "name": each["name"].copy(),
            "memory_bw_gbps": each["bandwidth_gb_per_s"].copy(),
        }
        for rank, each in changes.items()
        if each["pid"].size
    }
    return tables_of(columns)


def memory_bw_summary(transfers: pd.DataFrame) -> pd.DataFrame | None:
    """Return the table that `TraceAnalysis.get_memory_bw_summary` documents."""
    if transfers.empty:
        return None
    moving = transfers[transfers["count"] > 0]
    columns = ["count", *(f"{name}{UNIT}" for name in PER_CHANGE[1:])]
    return statistics_table(moving, ["rank", "name"], columns, "memory_bw_gbps")
