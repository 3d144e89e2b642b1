"""When the queues of GPU streams change: at each launch, and at each start of an operation."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.grouping import narrow
from hta_widgets.intervals import Times
from hta_widgets.trace.gpu_work import GpuWork
from hta_widgets.trace.job import Job
from hta_widgets.trace.rank import NEVER, Rank
from hta_widgets.trace.shelf import Columns

_COLUMNS = (
    *("device", "stream", "time_ns", "queue_length", "launches"),
    *("pid", "tid", "event"),
)


def queue_changes(job: Job, rank: int) -> Columns:
    """Columns of `QueueLength.changes` of one rank, which no parameter touches; not to be written.

    Raises
    ------
    UnknownRankError
        If the job lacks the rank.
    """
    of_rank, offset_ns = job.rank(rank), job.offset_ns(rank)

    def build() -> Columns:
        columns = dict(of_rank.derived("queue changes", lambda: _changes(of_rank)))
        if offset_ns:
            columns["time_ns"] = columns["time_ns"] + offset_ns
        return {name: columns[name] for name in _COLUMNS}

    return of_rank.remember(("queue changes", offset_ns), build)


def queue_changes_table(job: Job, rank: int) -> pd.DataFrame:
    """`QueueLength.changes` of one rank."""
    table = job.rank(rank).remember(
        ("queue changes table", job.offset_ns(rank)),
        lambda: pd.DataFrame(queue_changes(job, rank), copy=False),
    )
    return table.copy(deep=False)


def _changes(rank: Rank) -> dict[str, NDArray[Any]]:
    """Columns of the changes, times by the rank's own origin."""
    events, launched = rank.trace.events, _launched(rank.gpu_work)
    launched_ns, streams = rank.launched_ns[rank.launched_ns < NEVER], launched.streams
    parts = [
        _of_stream(launched, launched_ns, streams.order[first:last])
        for first, last in pairwise(streams.edges.tolist())
    ] or [_of_stream(launched, launched_ns, streams.order)]
    operation, step, launch_step, time_ns = map(np.concatenate, zip(*parts, strict=True))
    rows, lengths = launched.rows, 2 * streams.sizes
    launches, operations = narrow(events.index[launched.launch]), narrow(events.index[rows])
    return {
        "device": np.repeat(narrow(launched.device[streams.first]), lengths),
        "stream": np.repeat(narrow(launched.stream[streams.first]), lengths),
        "time_ns": time_ns,
        # Each stream ends at 0, so that one running sum serves all.
        "queue_length": np.cumsum(step, dtype=np.int32),
        "launches": np.cumsum(launch_step, dtype=np.int32),
        "pid": narrow(events.ids_in_source(events.pid[rows]))[operation],
        "tid": narrow(events.ids_in_source(events.tid[rows]))[operation],
        "event": np.where(step > 0, launches[operation], operations[operation]),
    }


def _launched(work: GpuWork) -> GpuWork:
    has_launch = work.launch >= 0
    return work if has_launch.all() else work.take(np.flatnonzero(has_launch))


def _of_stream(
    launched: GpuWork, launched_ns: Times, positions: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.int8], Times]:
    """Operation of each change of a queue, change in operations and launches, and time."""
    called_ns = launched_ns[positions]
    time_ns = np.concatenate([called_ns, np.maximum(launched.start_ns[positions], called_ns)])
    # Both halves ascend, or nearly so: a stable sort merges them.
    order = np.argsort(time_ns, kind="stable")
    is_launch = order < positions.size
    operation = np.where(is_launch, order, order - positions.size)
    step = np.where(is_launch, np.int8(1), np.int8(-1))
    begins = _begins_launch(launched.launch[positions])
    return positions[operation], step, step * begins[operation], time_ns[order]


def _begins_launch(launch: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which operations of a stream are the first of their launch."""
    if (launch[1:] > launch[:-1]).all():
        return np.ones(launch.size, dtype=bool)
    first = np.zeros(launch.size, dtype=bool)
    first[np.unique(launch, return_index=True)[1]] = True
    return first
