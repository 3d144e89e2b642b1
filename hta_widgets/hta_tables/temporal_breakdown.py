"""The temporal breakdown as HTA's table."""

from __future__ import annotations

import pandas as pd

from hta_widgets.analyses.temporal_breakdown import TemporalBreakdown
from hta_widgets.hta_tables import device_column
from hta_widgets.quantities import NS_PER_US

_PARTS = ("idle_time", "compute_time", "non_compute_time")


def temporal_breakdown(result: TemporalBreakdown) -> pd.DataFrame:
    """Return the columns that `TraceAnalysis.get_temporal_breakdown` documents."""
    table = result.ranks.assign(
        non_compute_time_ns=result.ranks["non_compute_time_ns"] + result.ranks["graph_time_ns"]
    )
    whole = table["kernel_time_ns"].where(table["kernel_time_ns"] > 0)
    columns = {"rank": table["rank"]}
    columns |= {f"{part}(us)": table[f"{part}_ns"] / NS_PER_US for part in (*_PARTS, "kernel_time")}
    columns |= {f"{part}_pctg": (100 * table[f"{part}_ns"] / whole).round(2) for part in _PARTS}
    return pd.DataFrame(columns | device_column(table))
