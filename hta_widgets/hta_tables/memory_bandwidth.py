"""The memory bandwidth as HTA's tables."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from hta_widgets.analyses.memory_bandwidth import UNIT
from hta_widgets.analyses.step_statistics import PER_CHANGE
from hta_widgets.hta_tables import NS_PER_US, statistics_table
from hta_widgets.trace.shelf import Columns


def memory_bw_time_series(changes: Mapping[int, Columns]) -> dict[int, pd.DataFrame]:
    """Return the tables that `TraceAnalysis.get_memory_bw_time_series` documents."""
    return {
        rank: pd.DataFrame(
            {
                "ts": of_rank["time_ns"] / NS_PER_US,
                "pid": of_rank["pid"].copy(),
                "name": of_rank["name"].copy(),
                "memory_bw_gbps": of_rank["bandwidth_gb_per_s"].copy(),
            },
            copy=False,
        )
        for rank, of_rank in changes.items()
        if of_rank["pid"].size
    }


def memory_bw_summary(transfers: pd.DataFrame) -> pd.DataFrame | None:
    """Return the table that `TraceAnalysis.get_memory_bw_summary` documents."""
    if transfers.empty:
        return None
    moving = transfers[transfers["count"] > 0]
    columns = ["count", *(f"{name}{UNIT}" for name in PER_CHANGE[1:])]
    return statistics_table(moving, ["rank", "name"], columns, "memory_bw_gbps")
