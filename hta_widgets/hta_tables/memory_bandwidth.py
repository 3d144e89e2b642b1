"""The memory bandwidth as HTA's tables."""

from __future__ import annotations

import pandas as pd

from hta_widgets.analyses.memory_bandwidth import UNIT, MemoryBandwidth
from hta_widgets.analyses.step_statistics import PER_CHANGE
from hta_widgets.hta_tables import NS_PER_US, statistics_table


def memory_bw_time_series(result: MemoryBandwidth) -> dict[int, pd.DataFrame]:
    """Return the tables that `TraceAnalysis.get_memory_bw_time_series` documents."""
    return {
        rank: pd.DataFrame(
            {
                "ts": changes["time_ns"] / NS_PER_US,
                "pid": changes["pid"],
                "name": changes["name"],
                "memory_bw_gbps": changes["bandwidth_gb_per_s"],
            }
        )
        for rank, changes in result.changes.items()
        if len(changes)
    }


def memory_bw_summary(result: MemoryBandwidth) -> pd.DataFrame | None:
    """Return the table that `TraceAnalysis.get_memory_bw_summary` documents."""
    transfers = result.transfers
    if transfers.empty:
        return None
    moving = transfers[transfers["count"] > 0]
    columns = ["count", *(f"{name}{UNIT}" for name in PER_CHANGE[1:])]
    return statistics_table(moving, ["rank", "name"], columns, "memory_bw_gbps")
