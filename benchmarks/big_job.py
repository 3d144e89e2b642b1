"""Repeat a loaded rank in memory until it has the requested number of kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hta_widgets.trace.cache.trace_file import LoadedTrace
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.events import Events, SideTable, TextColumn

GAP_NS = 1_000_000
Column = NDArray[Any] | TextColumn


def with_kernels(job: Job, kernels: int) -> Job:
    """Return a job of one rank, the first of `job`, with at least this many GPU operations."""
    number = job.ranks[0]
    times = -(-kernels // max(1, len(job.gpu_work(number))))
    trace = job.rank(number).trace
    big = Job({number: job.sources[number]}, name=job.name, include_last_profiler_step=True)
    big.add(LoadedTrace(replace(trace, events=repeated(trace.events, times)), {}))
    return big


def repeated(events: Events, times: int) -> Events:
    """Put copies of events one after the other; each copy has its own correlations."""
    span = int(events.end_ns.max()) + GAP_NS
    ids = int(events.correlation.max()) + 1
    copies = np.arange(times)

    def shifted(values: NDArray[np.int64], by: int) -> NDArray[np.int64]:
        return (values + by * copies[:, np.newaxis]).ravel()

    def tiled(column: Column) -> Column:
        if isinstance(column, TextColumn):
            return TextColumn(np.tile(column.codes, times), column.values)
        return np.tile(column, times)

    linked = np.tile(events.correlation >= 0, times)
    as_they_are: dict[str, Any] = {
        key: tiled(getattr(events, key))
        for key in ("duration_ns", "kind", "name", "pid", "tid", "device", "stream")
    }
    return replace(
        events,
        start_ns=shifted(events.start_ns, span),
        correlation=np.where(linked, shifted(events.correlation, ids), -1),
        index=shifted(events.index, int(events.index.max()) + 1),
        side={
            name: SideTable(
                shifted(table.rows, len(events)),
                {key: tiled(column) for key, column in table.columns.items()},
            )
            for name, table in events.side.items()
        },
        **as_they_are,
    )
