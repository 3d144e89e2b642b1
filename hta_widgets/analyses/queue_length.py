"""How many operations wait on each stream: launched, but not yet begun."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.result import Result
from hta_widgets.analyses.step_statistics import (
    OVER_TIME,
    PER_CHANGE,
    statistics_over_time,
    statistics_per_change,
)
from hta_widgets.intervals import Times
from hta_widgets.quantities import duration, number, percent
from hta_widgets.trace.formats import Recorded
from hta_widgets.trace.gpu_work import GpuWork
from hta_widgets.trace.job import Job
from hta_widgets.trace.notices import Notice, summed_over_ranks

FULL_LENGTH = 1022
"""Waiting launches at which a queue counts as full. CUDA takes 1,024 per stream; of these the one
running and one more do not wait, and traces in which launches block stand at exactly 1,022."""

_CHANGES = (
    *("device", "stream", "time_ns", "queue_length", "launches"),
    *("pid", "tid", "event"),
)
_STREAMS = (
    *("rank", "device", "stream", "operations", *PER_CHANGE, *OVER_TIME),
    *("observed_ns", "empty_ns", "full_ns"),
)


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


class _Queues(NamedTuple):
    """Queues of one rank."""

    changes: pd.DataFrame
    streams: pd.DataFrame
    notices: tuple[Notice, ...]


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
    queues = {rank: _queues_of(job, rank) for rank in chosen}
    streams = pd.concat([each.streams for each in queues.values()], ignore_index=True)
    notices = {rank: each.notices for rank, each in queues.items()}
    return QueueLength(
        changes={rank: each.changes.copy(deep=False) for rank, each in queues.items()},
        streams=streams,
        finding=_finding(streams, any(len(job.gpu_work(rank)) for rank in chosen)),
        notices=(
            *job.notices_for(chosen),
            *job.lacking(chosen, Recorded.KERNELS),
            *summed_over_ranks(notices, name_ranks=len(job.ranks) > 1),
        ),
    )


def _queues_of(job: Job, rank: int) -> _Queues:
    """Queues of one rank, which no parameter changes."""
    return job.remember(("queue length", rank), lambda: _build(job, rank))


def _build(job: Job, rank: int) -> _Queues:
    work = job.gpu_work(rank)
    launched = work.take(np.flatnonzero(work.launch >= 0))
    launched_ns = job.rank(rank).trace.events.start_ns[launched.launch]
    early = int((launched.start_ns < launched_ns).sum())
    changes = _changes(job, rank, launched, launched_ns)
    rows = [_stream_row(rank, of_stream) for of_stream in _by_stream(changes)]
    streams = pd.DataFrame(rows, columns=list(_STREAMS)).astype(_stream_dtypes())
    return _Queues(changes, streams, tuple(_notices(len(work), len(launched), early)))


def _changes(job: Job, rank: int, launched: GpuWork, launched_ns: Times) -> pd.DataFrame:
    events = job.rank(rank).trace.events
    begun_ns = np.maximum(launched.start_ns, launched_ns)
    count = len(launched)
    time_ns = np.concatenate([launched_ns, begun_ns])
    codes = _stream_codes(launched)
    order = np.argsort(time_ns, kind="stable")
    order = order[np.argsort(codes[order % max(count, 1)], kind="stable")]
    operation = order % max(count, 1)
    step = np.where(order < count, 1, -1)
    rows = launched.rows
    event = np.concatenate([events.index[launched.launch], events.index[rows]])
    columns = {
        "device": launched.device[operation],
        "stream": launched.stream[operation],
        "time_ns": time_ns[order] + job.offset_ns(rank),
        # Each stream ends at 0, so that one running sum serves all.
        "queue_length": np.cumsum(step),
        "launches": np.cumsum(step * _first_of_launch(launched, codes)[operation]),
        "pid": events.ids_in_source(events.pid[rows])[operation],
        "tid": events.ids_in_source(events.tid[rows])[operation],
        "event": event[order],
    }
    return pd.DataFrame(columns, columns=list(_CHANGES))


def _stream_codes(work: GpuWork) -> NDArray[np.unsignedinteger]:
    """Number the streams by device and id, in few bits, which sorts fast."""
    streams, stream = np.unique(work.stream, return_inverse=True)
    devices, device = np.unique(work.device, return_inverse=True)
    code = device * streams.size + stream
    return code.astype(np.min_scalar_type(devices.size * streams.size))


def _first_of_launch(work: GpuWork, codes: NDArray[np.unsignedinteger]) -> NDArray[np.bool_]:
    """Tell which operation is the first that its launch begins on its stream."""
    call = work.launch * (int(codes.max(initial=0)) + 1) + codes
    order = np.argsort(call, kind="stable")
    first = np.empty(call.size, dtype=bool)
    first[order] = np.diff(call[order], prepend=-1) != 0
    return first


def _by_stream(changes: pd.DataFrame) -> Iterator[pd.DataFrame]:
    device, stream = changes["device"].to_numpy(), changes["stream"].to_numpy()
    differs = (device[1:] != device[:-1]) | (stream[1:] != stream[:-1])
    edges = [0, *(np.flatnonzero(differs) + 1).tolist(), len(changes)]
    for first, last in pairwise(edges):
        if last > first:
            yield changes.iloc[first:last]


def _stream_row(rank: int, changes: pd.DataFrame) -> dict[str, float]:
    length = changes["queue_length"].to_numpy()[:-1]
    held_ns = np.diff(changes["time_ns"].to_numpy())
    return {
        "rank": rank,
        "device": changes["device"].iloc[0],
        "stream": changes["stream"].iloc[0],
        "operations": len(changes) // 2,
        **statistics_per_change(changes["queue_length"].to_numpy()),
        **statistics_over_time(length, held_ns),
        "observed_ns": held_ns.sum(),
        "empty_ns": held_ns[length == 0].sum(),
        "full_ns": held_ns[changes["launches"].to_numpy()[:-1] >= FULL_LENGTH].sum(),
    }


def _stream_dtypes() -> dict[str, type]:
    decimal = {*PER_CHANGE, *OVER_TIME} - {"count", "min", "max"}
    return {column: np.float64 if column in decimal else np.int64 for column in _STREAMS}


def _notices(operations: int, launched: int, early: int) -> Iterator[Notice]:
    if launched < operations:
        words = "{} of {} GPU operations are not in the queue lengths: they have no launch"
        yield Notice(words, (operations - launched, operations))
    if early:
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
