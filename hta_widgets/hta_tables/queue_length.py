"""The queue length as HTA's tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.queue_length import QueueLength
from hta_widgets.analyses.time.step_statistics import PER_CHANGE
from hta_widgets.hta_tables import statistics_table, tables_of
from hta_widgets.quantities import NS_PER_US
from hta_widgets.trace.cache.derived_columns import Columns


def queue_length_time_series(changes: Mapping[int, Columns]) -> dict[int, pd.DataFrame]:
    """Return the tables that `TraceAnalysis.get_queue_length_time_series` documents."""
    columns = {rank: _columns(each) for rank, each in changes.items() if each["event"].size}
    indexes = {rank: changes[rank]["event"].copy() for rank in columns}
    tables = tables_of(columns)
    for rank, table in tables.items():
        table.index = pd.Index(indexes[rank], name="index")
    return tables


def queue_length_summary(result: QueueLength) -> pd.DataFrame | None:
    """Return the table that `TraceAnalysis.get_queue_length_summary` documents."""
    streams = result.streams
    if streams.empty:
        return None
    several = streams.groupby("rank")["device"].nunique().max() > 1
    keys = ["rank", "stream", *(["device"] if several else [])]
    return statistics_table(streams.sort_values(keys), keys, PER_CHANGE, "queue_length")


def _columns(changes: Columns) -> dict[str, NDArray[Any]]:
    device = changes["device"]
    several = device.min() != device.max()
    copied = ("pid", "tid", "stream", "queue_length", *(("device",) if several else ()))
    columns = {"ts": changes["time_ns"] / NS_PER_US}
    return columns | {name: changes[name].copy() for name in copied}
