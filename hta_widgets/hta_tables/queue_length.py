"""The queue length as HTA's tables."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from hta_widgets.analyses.queue_length import QueueLength
from hta_widgets.analyses.step_statistics import PER_CHANGE
from hta_widgets.hta_tables import NS_PER_US, statistics_table
from hta_widgets.trace.shelf import Columns


def queue_length_time_series(changes: Mapping[int, Columns]) -> dict[int, pd.DataFrame]:
    """Return the tables that `TraceAnalysis.get_queue_length_time_series` documents."""
    return {rank: _table(of_rank) for rank, of_rank in changes.items() if of_rank["event"].size}


def queue_length_summary(result: QueueLength) -> pd.DataFrame | None:
    """Return the table that `TraceAnalysis.get_queue_length_summary` documents."""
    streams = result.streams
    if streams.empty:
        return None
    several = streams.groupby("rank")["device"].nunique().max() > 1
    keys = ["rank", "stream", *(["device"] if several else [])]
    return statistics_table(streams.sort_values(keys), keys, PER_CHANGE, "queue_length")


def _table(changes: Columns) -> pd.DataFrame:
    device = changes["device"]
    several = device.min() != device.max()
    copied = ("pid", "tid", "stream", "queue_length", *(("device",) if several else ()))
    columns = {"ts": changes["time_ns"] / NS_PER_US}
    columns |= {name: changes[name].copy() for name in copied}
    return pd.DataFrame(columns, index=pd.Index(changes["event"].copy(), name="index"), copy=False)
