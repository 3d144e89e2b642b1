"""How many operations wait on each stream: launched but not yet started."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.rows import TablesOfRanks, table_of
from hta_widgets.analyses.time.step_statistics import (
    OVER_TIME,
    PER_CHANGE,
    statistics_over_time,
    statistics_per_change,
)
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.grouping import grouped, opens_run
from hta_widgets.intervals import Times
from hta_widgets.quantities import counted, duration, percent
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import NEVER, Rank

LEAST_LAUNCHES: Final = 900
"""Fewest launches in a queue that can be full. CUDA accepts 1,024 per stream, some of which are
markers and events, so traces in which launches block stay at up to 1,022."""

NEARLY_FULL: Final = 0.9
"""Share of the most launches that ever wait on a stream at which a call may be held up."""

LONG_MEDIANS: Final = 20
"""A call is long if it takes more than this many times the median of the calls of its name …"""

LONG_NS: Final = 50_000
"""… and more than this (ns)."""

LEAST_HELD_UP: Final = 0.05
"""Share of the calls at a nearly full queue, not counting copies, that are long if it is full."""


_WITHOUT_LAUNCH = "GPU operations without a launch in the trace are left out of the queue lengths"

_BEFORE_LAUNCH = (
    "according to the clocks, {} of {} GPU operations started before their launch; they leave the "
    "queue at their launch"
)

_WHOLE = {"count", "min", "max"}

_STREAMS = {
    **dict.fromkeys(("rank", "device", "stream", "operations"), np.int64),
    **{name: np.int64 if name in _WHOLE else np.float64 for name in (*PER_CHANGE, *OVER_TIME)},
    **dict.fromkeys(("observed_ns", "empty_ns", "full_ns"), np.int64),
    **dict.fromkeys(("full_launches", "blocked_calls", "blocked_ns"), np.int64),
}
"""Columns of `QueueLength.streams` and their types."""


@asked_once
def aligned_changes(rank: Rank, offset_ns: int) -> Columns:
    """Columns of the changes of a rank, its times shifted by an offset (ns)."""
    events, launched = rank.trace.events, _launched(rank.gpu_work)
    launched_ns, streams = events.start_ns[launched.launch], launched.streams
    by_stream = streams.parts
    change, time_ns = _in_order(launched, launched_ns, by_stream)
    is_start = change >= len(launched)
    operation = change - len(launched) * is_start
    step = 1 - 2 * is_start.view(np.int8)
    begins = _begin_launches(launched, by_stream)
    # Each stream ends at 0, so one running sum serves all.
    length = np.cumsum(step, dtype=np.int32)
    launches = length if begins.all() else np.cumsum(step * begins[operation], dtype=np.int32)
    rows = launched.rows
    return {
        "device": np.repeat(_in_32_bits(launched.device[streams.first]), 2 * streams.sizes),
        "stream": np.repeat(_in_32_bits(launched.stream[streams.first]), 2 * streams.sizes),
        "time_ns": time_ns + offset_ns,
        "queue_length": length,
        "launches": launches,
        "pid": _of_each(events.ids_in_source(events.pid[rows]), operation),
        "tid": _of_each(events.ids_in_source(events.tid[rows]), operation),
        "event": np.concatenate([events.index[launched.launch], events.index[rows]])[change],
    }


def _of_each(values: NDArray[Any], operation: Int64Array) -> NDArray[Any]:
    """Value of the operation of each change; equal ones are not looked up, and take no memory."""
    narrow = _in_32_bits(values)
    if narrow.size and (narrow == narrow[0]).all():
        return np.broadcast_to(narrow[0], operation.shape)
    return narrow[operation]


def _in_32_bits(values: NDArray[Any]) -> NDArray[Any]:
    """Integers in 32 bits where they fit; anything else unchanged."""
    if values.dtype != np.int64 or not values.size:
        return values
    limits = np.iinfo(np.int32)
    fits = limits.min <= values.min() and values.max() <= limits.max
    return values.astype(np.int32) if fits else values


def _launched(work: GpuWork) -> GpuWork:
    has_launch = work.launch >= 0
    return work if has_launch.all() else work.take(np.flatnonzero(has_launch))


def _in_order(
    launched: GpuWork, launched_ns: Times, by_stream: Sequence[Int64Array]
) -> tuple[Int64Array, Times]:
    """Sort the changes of each stream: what changes, and when.

    A change is the position of an operation when it is launched, and that position plus the number
    of operations when it starts.
    """
    changes, times_ns = (np.empty(2 * len(launched), dtype=np.int64) for _ in range(2))
    first = 0
    for positions in by_stream:
        called_ns = launched_ns[positions]
        starts_ns = np.maximum(launched.start_ns[positions], called_ns)
        time_ns = np.concatenate([called_ns, starts_ns])
        # Both halves ascend, or nearly so: a stable sort merges them.
        order = np.argsort(time_ns, kind="stable")
        change = np.concatenate([positions, positions + len(launched)])
        span = slice(first, first + order.size)
        # "clip" writes to `out` directly: 2.8 ms for 2 M changes; assignment 4.5, "raise" 5.7.
        np.take(change, order, out=changes[span], mode="clip")
        np.take(time_ns, order, out=times_ns[span], mode="clip")
        first = span.stop
    return changes, times_ns


def _begin_launches(launched: GpuWork, by_stream: Iterable[Int64Array]) -> Mask:
    """Mask of the operations that are the first of their launch on their stream."""
    begin = np.ones(len(launched), dtype=bool)
    for positions in by_stream:
        launch = launched.launch[positions]
        if not (launch[1:] > launch[:-1]).all():
            begin[positions] = False
            begin[positions[np.unique(launch, return_index=True)[1]]] = True
    return begin


class FullQueue(NamedTuple):
    """When launches block because the queue of a stream is full."""

    launches: int
    """Fewest launches that wait in front of a call that is held up. 0 if no call is: then the queue
    is never full, however long it is."""
    blocked_calls: int
    """Calls that are held up."""
    blocked_ns: int
    """How much longer these take than the median call of their name, in total."""


NEVER_FULL: Final = FullQueue(0, 0, 0)


def full_queue(rank: Rank, changes: Columns) -> FullQueue:
    """Find the launch calls that are held up by a full queue, given the changes of one stream.

    A call is held up if it is long (`LONG_MEDIANS`, `LONG_NS`), starts while nearly as many
    launches wait on its stream as ever do (`NEARLY_FULL`), these are about as many as a queue can
    hold (`LEAST_LAUNCHES`), and it is not the only one (`LEAST_HELD_UP`). Copies from pageable
    memory, and a call that loads a module, may be long at any length of the queue.
    """
    launches = changes["launches"]
    most = int(launches.max(initial=0))
    if most < LEAST_LAUNCHES:
        return NEVER_FULL
    calls, is_copy = _calls(rank, changes["device"][0], changes["stream"][0])
    # One rise for each call, in order of start; it counts the call itself.
    waiting = launches[np.diff(launches, prepend=0) > 0]
    beyond_ns = rank.remember(_beyond_median_ns)[calls]
    nearly_full = waiting >= NEARLY_FULL * most
    held_up = nearly_full & (beyond_ns > 0)
    if (held_up & ~is_copy).sum() <= LEAST_HELD_UP * (nearly_full & ~is_copy).sum():
        return NEVER_FULL
    return FullQueue(
        launches=int(waiting[held_up].min()) - 1,
        blocked_calls=int(held_up.sum()),
        blocked_ns=int(beyond_ns[held_up].sum()),
    )


def _calls(rank: Rank, device: int, stream: int) -> tuple[Int64Array, Mask]:
    """Calls that launch work on a stream, by start, and which of them launch only copies."""
    events, work = rank.trace.events, rank.gpu_work
    on_stream = (work.device == device) & (work.stream == stream) & (work.launch >= 0)
    other = on_stream & (events.kind[work.rows] != Kind.MEMCPY)
    launches, launches_other = np.zeros((2, len(events)), dtype=bool)
    launches[work.launch[on_stream]] = launches_other[work.launch[other]] = True
    calls = np.flatnonzero(launches)
    return calls, ~launches_other[calls]


def _beyond_median_ns(rank: Rank) -> Times:
    """How much longer than the median each long launch call takes; 0 for other events."""
    events, launch = rank.trace.events, rank.gpu_work.launch
    is_launch = np.zeros(len(events), dtype=bool)
    is_launch[launch[launch >= 0]] = True
    calls, beyond_ns = np.flatnonzero(is_launch), np.zeros(len(events), dtype=np.int64)
    for positions in grouped(events.name.codes[calls]).parts:
        own = calls[positions]
        took_ns = events.duration_ns[own]
        median_ns = round(float(np.median(took_ns)))
        long = (took_ns > LONG_MEDIANS * median_ns) & (took_ns > LONG_NS)
        beyond_ns[own[long]] = took_ns[long] - median_ns
    return beyond_ns


@dataclass(frozen=True, kw_only=True, eq=False)
class QueueLength(Result):
    """Operations launched but not yet started, stream by stream.

    Attributes
    ----------
    changes : mapping of rank to DataFrame
        One row per change, by ``device``, ``stream`` and ``time_ns`` (int64 ns since the job's
        origin, ranks aligned): ``queue_length`` from then on; ``launches``, the calls none of whose
        operations on the stream has started, so that a graph counts once; ``pid``, ``tid`` of the
        GPU operation; ``event``, position in the file of the launch (if the length rises) or of
        the operation (if it falls).
    streams : DataFrame
        One row per ``rank``, ``device`` and ``stream``: ``operations`` counted; ``count``,
        ``mean``, ``std``, ``min``, ``q25``, ``median``, ``q75``, ``max`` over the changes, as in
        HTA; ``mean_over_time`` etc., weighted by how long each length lasts; ``observed_ns`` (first
        to last change), and its parts ``empty_ns`` (length 0) and ``full_ns`` (at least
        ``full_launches`` launches); ``full_launches`` (the fewest launches in front of a call that
        is held up, 0 if none is: see `full_queue`); ``blocked_calls`` (launch calls that are held
        up), ``blocked_ns`` (how much longer they take than the median call of their name, in
        total).
    """

    changes: TablesOfRanks
    streams: pd.DataFrame


def queue_length(job: Job, ranks: Iterable[int] | None = None) -> QueueLength:
    """Count the operations that are launched but not yet started.

    The start of a launch call adds its operations to the queue of their stream (a graph launch adds
    all operations of the graph); the start of an operation removes it. Any launch call counts. At
    equal times, launches come first. An operation that starts before its launch, according to the
    clocks, leaves the queue at its launch. Operations whose launch is not in the trace are left
    out.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks when not given.
    """
    chosen = select_ranks(job, ranks)
    changes, notices, has_work = dict[int, Columns](), dict[int, tuple[Notice, ...]](), False
    rows: list[dict[str, float]] = []
    for number in chosen:
        rank, offset_ns = job.rank(number), job.offset_ns(number)
        changes[number] = aligned_changes(rank, offset_ns)
        rows += rank.remember(_stream_rows, offset_ns)
        notices[number] = rank.remember(_queue_notices)
        has_work |= len(rank.gpu_work) > 0
    streams = table_of(rows, _STREAMS)
    return QueueLength(
        changes=TablesOfRanks(changes),
        streams=streams,
        finding=_queue_finding(streams, has_work),
        notices=(*job.notices_for(chosen, Recorded.KERNELS), *job.merged(notices)),
    )


def changes_by_stream(rank: Rank, offset_ns: int) -> list[Columns]:
    """The `aligned_changes` of each stream, ascending by device and stream."""
    changes = aligned_changes(rank, offset_ns)
    starts = np.flatnonzero(opens_run(changes["device"], changes["stream"])).tolist()
    return [
        {name: column[first:last] for name, column in changes.items()}
        for first, last in pairwise([*starts, changes["device"].size])
    ]


def _stream_rows(rank: Rank, offset_ns: int) -> list[dict[str, float]]:
    return [_stream_row(rank, changes) for changes in changes_by_stream(rank, offset_ns)]


def _stream_row(rank: Rank, changes: Columns) -> dict[str, float]:
    lengths, launches = changes["queue_length"], changes["launches"]
    held_ns, full = np.diff(changes["time_ns"]), full_queue(rank, changes)
    return {
        "rank": rank.trace.rank,
        "device": int(changes["device"][0]),
        "stream": int(changes["stream"][0]),
        "operations": lengths.size // 2,
        **statistics_per_change(lengths),
        **statistics_over_time(lengths[:-1], held_ns),
        "observed_ns": held_ns.sum(),
        "empty_ns": held_ns[lengths[:-1] == 0].sum(),
        "full_ns": held_ns[launches[:-1] >= full.launches].sum() if full.launches else 0,
        "full_launches": full.launches,
        "blocked_calls": full.blocked_calls,
        "blocked_ns": full.blocked_ns,
    }


def _queue_notices(rank: Rank) -> tuple[Notice, ...]:
    work, launched_ns = rank.gpu_work, rank.launched_ns
    early = int(((work.start_ns < launched_ns) & (launched_ns < NEVER)).sum())
    without = [Notice(_WITHOUT_LAUNCH)] if (launched_ns == NEVER).any() else []
    return (*without, *([Notice(_BEFORE_LAUNCH, (early, len(work)))] if early else ()))


def _queue_finding(streams: pd.DataFrame, worked: bool) -> str:  # noqa: FBT001
    """Sentence on the stream on which the waits of all operations add up to the most time.

    The average of another stream may be larger, but over a shorter time.
    """
    if streams.empty and worked:
        return "No GPU operation on the selected ranks has its launch in the trace."
    if streams.empty:
        return "No GPU work was recorded on the selected ranks."
    waiting = streams["mean_over_time"].fillna(0) * streams["observed_ns"]
    longest = streams.iloc[waiting.argmax()]
    observed_ns = longest["observed_ns"]
    empty = percent(100 * longest["empty_ns"] / observed_ns) if observed_ns else "0 %"
    text = (
        f"The longest queue is that of stream {longest['stream']:.0f} of rank "
        f"{longest['rank']:.0f}: {counted(longest['mean_over_time'], 'operation')} on average, "
        f"{longest['max']:,.0f} at most. The queue is empty {empty} of the time"
    )
    full_ns = longest["full_ns"]
    if not full_ns:
        return f"{text} and never full."
    full = f"full {percent(100 * full_ns / observed_ns)} ({duration(full_ns)})"
    calls = counted(longest["blocked_calls"], "launch call")
    longer = duration(longest["blocked_ns"])
    return f"{text} and {full}: {calls} had to wait, {longer} in total."
