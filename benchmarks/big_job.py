"""Repeat a loaded rank in memory until it has the requested number of kernels."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hta_widgets.trace.cache.trace_file import LoadedTrace
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.events import Events, SideTable, TextColumn

GAP_NS = 1_000_000
STEP = re.compile(r"ProfilerStep\s*#\s*(\d+)")
Column = NDArray[Any] | TextColumn


def with_kernels(job: Job, kernels: int) -> Job:
    """Return a job of one rank, the first of `job`, with at least this many GPU operations."""
    number = job.ranks[0]
    times = -(-kernels // max(1, len(job.gpu_work(number))))
    trace = job.rank(number).trace
    big = Job({number: job.sources[number]}, name=job.name, include_last_profiler_step=True)
    big.add(LoadedTrace(replace(trace, events=repeated(trace.events, times)), {}))
    return big


def long_job(job: Job, kernels: int) -> Job:
    """Return a job of the same ranks, which take more steps until they have as many GPU operations.

    The last step of each copy lasts until the first of the next.
    """
    times = -(-kernels // max(1, sum(len(job.gpu_work(rank)) for rank in job.ranks)))
    traces = [job.rank(rank).trace for rank in job.ranks]
    span_ns = max(int(trace.events.end_ns.max()) for trace in traces) + GAP_NS
    big = Job(job.sources, name=job.name, include_last_profiler_step=True)
    for trace in traces:
        events = repeated(trace.events, times, span_ns)
        big.add(LoadedTrace(replace(trace, events=with_steps_numbered(events, times)), {}))
    return big


def with_steps_numbered(events: Events, times: int) -> Events:
    """Give the ProfilerSteps of so many copies numbers that go on."""
    values, codes = [*events.name.values], events.name.codes.copy()
    found = {code: STEP.fullmatch(name) for code, name in enumerate(values)}
    numbers = {code: int(match[1]) for code, match in found.items() if match}
    copies = codes.reshape(times, -1)
    for copy in range(1, times):
        for code, number in numbers.items():
            copies[copy][copies[0] == code] = len(values)
            values.append(f"ProfilerStep#{number + copy * len(numbers)}")
    return replace(events, name=TextColumn(codes, values))


def repeated(events: Events, times: int, span_ns: int | None = None) -> Events:
    """Put copies of events one after the other; each copy has its own correlations.

    A copy begins `span_ns` after the one before, by default when that has ended.
    """
    span = span_ns or int(events.end_ns.max()) + GAP_NS
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
