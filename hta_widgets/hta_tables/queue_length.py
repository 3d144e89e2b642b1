"""The queue length as HTA's tables."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hta_widgets.analyses.queue_length import QueueLength
from hta_widgets.analyses.step_statistics import PER_CHANGE
from hta_widgets.hta_tables import NS_PER_US, statistics_table

_COLUMNS = ["ts", "pid", "tid", "stream", "queue_length"]


def queue_length_time_series(result: QueueLength) -> dict[int, pd.DataFrame]:
    """Return the tables that `TraceAnalysis.get_queue_length_time_series` documents."""
    return {rank: _table(changes) for rank, changes in result.changes.items() if len(changes)}


def queue_length_summary(result: QueueLength) -> pd.DataFrame | None:
    """Return the table that `TraceAnalysis.get_queue_length_summary` documents."""
    streams = result.streams
    if streams.empty:
        return None
    several = streams.groupby("rank")["device"].nunique().max() > 1
    keys = ["rank", "stream", *(["device"] if several else [])]
    return statistics_table(streams.sort_values(keys), keys, PER_CHANGE, "queue_length")


def _table(changes: pd.DataFrame) -> pd.DataFrame:
    table = changes.assign(ts=changes["time_ns"] / NS_PER_US)
    table = table.set_index(pd.Index(changes["event"], name="index"))
    several = len(np.unique(changes["device"])) > 1
    return table[[*_COLUMNS, "device"] if several else _COLUMNS]
