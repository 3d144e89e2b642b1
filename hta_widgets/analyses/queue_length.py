"""How many operations wait on each stream: launched, but not yet begun."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.result import Result
from hta_widgets.analyses.rows import table_of
from hta_widgets.analyses.step_statistics import (
    OVER_TIME,
    PER_CHANGE,
    statistics_over_time,
    statistics_per_change,
)
from hta_widgets.grouping import narrow
from hta_widgets.intervals import Times
from hta_widgets.quantities import duration, number, percent
from hta_widgets.trace.formats import Recorded
from hta_widgets.trace.gpu_work import GpuWork
from hta_widgets.trace.job import Job
from hta_widgets.trace.notices import Notice, summed_over_ranks
from hta_widgets.trace.rank import NEVER, Rank

FULL_LENGTH = 1022
"""Waiting launches at which a queue counts as full. CUDA takes 1,024 per stream; of these the one
running and one more do not wait, and traces in which launches block stand at exactly 1,022."""

_CHANGES = (
    *("device", "stream", "time_ns", "queue_length", "launches"),
    *("pid", "tid", "event"),
)
_WHOLE = {"count", "min", "max"}
_STREAMS = {
    **dict.fromkeys(("rank", "device", "stream", "operations"), np.int64),
    **{name: np.int64 if name in _WHOLE else np.float64 for name in (*PER_CHANGE, *OVER_TIME)},
    **dict.fromkeys(("observed_ns", "empty_ns", "full_ns"), np.int64),
}
"""Columns of `QueueLength.streams` and their types."""


@dataclass(frozen=True, kw_only=True, eq=False)
class QueueLength(Result):
    """Operations launched and not yet begun, stream by stream.

    Attributes
    ----------
    changes : mapping of rank to DataFrame
        One row per change, by ``device``, ``stream`` and ``time_ns`` (int64 ns since the job's
        origin, ranks aligned): ``queue_length`` from then on; ``launches``, the calls of whose
        operations on the stream none has begun, so that a graph counts once; ``pid``, ``tid`` of
        the GPU operation; ``event``, position in the file of the launch (where the length rises) or
        of the operation (where it falls).
    streams : DataFrame
        One row per ``rank``, ``device`` and ``stream``: ``operations`` counted; ``count``,
        ``mean``, ``std``, ``min``, ``q25``, ``median``, ``q75``, ``max`` over the changes, as in
        HTA; ``mean_over_time`` etc., weighted by how long each length holds; ``observed_ns`` (first
        to last change), and of it ``empty_ns`` (length 0) and ``full_ns`` (at least `FULL_LENGTH`
        launches).
    """

    changes: Mapping[int, pd.DataFrame]
    streams: pd.DataFrame


def queue_length(job: Job, ranks: Iterable[int] | None = None) -> QueueLength:
    """Count the operations that are launched and not yet begun.

    The start of a launch adds its operations to the queue of their stream, a graph launch all of
    its graph; the start of an operation takes it off. Any launching call counts. At equal times
    launches come first. An operation that, by the clocks, starts before its launch is taken off at
    its launch. Operations whose launch is not in the trace are left out.

    Parameters
    ----------
    job : Job
    ranks : iterable of int, optional
        All ranks when not given.

    Returns
    -------
    QueueLength

    Raises
    ------
    UnknownRankError
        If the job lacks a rank.
    """
    chosen = job.select_ranks(ranks)
    streams = table_of([row for rank in chosen for row in _rows_of(job, rank)], _STREAMS)
    notices = {rank: _notices_of(job, rank) for rank in chosen}
    return QueueLength(
        changes=queue_changes(job, chosen),
        streams=streams,
        finding=_finding(streams, any(len(job.gpu_work(rank)) for rank in chosen)),
        notices=(
            *job.notices_for(chosen),
            *job.lacking(chosen, Recorded.KERNELS),
            *summed_over_ranks(notices, name_ranks=len(job.ranks) > 1),
        ),
    )


def queue_changes(job: Job, ranks: Iterable[int] | None = None) -> dict[int, pd.DataFrame]:
    """Count by rank, as `QueueLength.changes`."""
    chosen = job.select_ranks(ranks)
    return {rank: _changes_of(job, rank).copy(deep=False) for rank in chosen}


def _changes_of(job: Job, rank: int) -> pd.DataFrame:
    """Changes on one rank, which no parameter touches."""

    def build() -> pd.DataFrame:
        of_rank = job.rank(rank)
        columns = dict(of_rank.derived("queue changes", lambda: _changes(of_rank)))
        if offset_ns := job.offset_ns(rank):
            columns["time_ns"] = columns["time_ns"] + offset_ns
        return pd.DataFrame(columns, columns=list(_CHANGES), copy=False)

    return job.remember(("queue changes", rank), build)


def _rows_of(job: Job, rank: int) -> list[dict[str, float]]:
    """Statistics of one rank, which no parameter touches."""
    return job.remember(("queues", rank), lambda: _stream_rows(rank, _changes_of(job, rank)))


def _notices_of(job: Job, rank: int) -> tuple[Notice, ...]:
    return job.remember(("queue notices", rank), lambda: tuple(_notices(job, rank)))


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


def _stream_rows(rank: int, changes: pd.DataFrame) -> list[dict[str, float]]:
    device, stream = changes["device"].to_numpy(), changes["stream"].to_numpy()
    differs = (device[1:] != device[:-1]) | (stream[1:] != stream[:-1])
    edges = [0, *(np.flatnonzero(differs) + 1).tolist(), len(changes)]
    return [_stream_row(rank, changes.iloc[first:last]) for first, last in pairwise(edges) if last]


def _stream_row(rank: int, changes: pd.DataFrame) -> dict[str, float]:
    lengths, launches = changes["queue_length"].to_numpy(), changes["launches"].to_numpy()
    held_ns = np.diff(changes["time_ns"].to_numpy())
    return {
        "rank": rank,
        "device": changes["device"].iloc[0],
        "stream": changes["stream"].iloc[0],
        "operations": len(changes) // 2,
        **statistics_per_change(lengths),
        **statistics_over_time(lengths[:-1], held_ns),
        "observed_ns": held_ns.sum(),
        "empty_ns": held_ns[lengths[:-1] == 0].sum(),
        "full_ns": held_ns[launches[:-1] >= FULL_LENGTH].sum(),
    }


def _notices(job: Job, rank: int) -> Iterator[Notice]:
    work, launched_ns = job.gpu_work(rank), job.rank(rank).launched_ns
    if without := int((launched_ns == NEVER).sum()):
        words = "{} of {} GPU operations are not in the queue lengths: they have no launch"
        yield Notice(words, (without, len(work)))
    if early := int(((work.start_ns < launched_ns) & (launched_ns < NEVER)).sum()):
        words = "{} GPU operations start before their launch, by the clocks; counted as if at it"
        yield Notice(words, (early,))


def _finding(streams: pd.DataFrame, worked: bool) -> str:  # noqa: FBT001
    if streams.empty and worked:
        return "No GPU operation on these ranks has its launch in the trace."
    if streams.empty:
        return "No GPU work was recorded on these ranks."
    waiting = streams["mean_over_time"].fillna(0) * streams["observed_ns"]
    longest = streams.iloc[waiting.argmax()]
    observed_ns = longest["observed_ns"]
    empty = percent(100 * longest["empty_ns"] / observed_ns) if observed_ns else "0 %"
    text = (
        f"Most waits on stream {longest['stream']:.0f} of rank {longest['rank']:.0f}: "
        f"{number(longest['mean_over_time'])} operations on average over time, at most "
        f"{longest['max']:,.0f}. The queue is empty {empty} of the time"
    )
    full_ns = longest["full_ns"]
    if not full_ns:
        return f"{text}; it is never full."
    full = f"{percent(100 * full_ns / observed_ns)} ({duration(full_ns)})"
    return f"{text} and full, so that launches block, {full}."
