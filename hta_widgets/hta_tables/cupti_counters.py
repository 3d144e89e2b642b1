"""The performance counters as HTA's tables."""

from __future__ import annotations

import pandas as pd

from hta_widgets.analyses.cupti_counters import CuptiCounters
from hta_widgets.hta_tables.event_columns import as_whole
from hta_widgets.quantities import NS_PER_US

CATEGORY = "cuda_profiler_range"
_PLACE = ["index", "cat", "name", "pid", "tid", "ts", "dur"]
_OPERATORS = ["index_runtime", "op_stack", "top_level_op", "bottom_level_op"]


def cupti_counters(result: CuptiCounters) -> list[pd.DataFrame]:
    """Return the tables that `TraceAnalysis.get_cupti_counter_data_with_operators` documents."""
    ranges = result.ranges
    table = ranges.assign(
        cat=CATEGORY, ts=ranges["start_ns"] / NS_PER_US, dur=ranges["duration_ns"] / NS_PER_US
    )
    return [_of_rank(of_rank, result) for _, of_rank in table.groupby("rank", sort=False)]


def _of_rank(table: pd.DataFrame, result: CuptiCounters) -> pd.DataFrame:
    """Counters of whole numbers as integers, as in the trace."""
    counters = _counters_of(result, table)
    whole = {name: as_whole(table[name].to_numpy(dtype=float)) for name in counters}
    return table[[*_PLACE, *counters, *_OPERATORS]].assign(**whole).reset_index(drop=True)


def _counters_of(result: CuptiCounters, of_rank: pd.DataFrame) -> list[str]:
    return [name for name in result.counters if of_rank[name].notna().any()]
