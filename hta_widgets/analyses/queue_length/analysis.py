"""How many operations wait on each stream: launched but not yet started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.queue_length.changes import (
    aligned_changes,
    queue_changes_table,
)
from hta_widgets.analyses.queue_length.full import full_queue
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.rows import table_of
from hta_widgets.analyses.time.step_statistics import (
    OVER_TIME,
    PER_CHANGE,
    statistics_over_time,
    statistics_per_change,
)
from hta_widgets.quantities import counted, duration, percent
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.notices import Notice, merge_notices
from hta_widgets.trace.ranks.rank import NEVER, Rank

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


@dataclass(frozen=True, kw_only=True, eq=False)
class QueueLength(Result):
    """Operations launched but not yet started, stream by stream.

    Attributes
    ----------
    changes : mapping of rank to DataFrame
        One row per change, by ``device``, ``stream`` and ``time_ns`` (int64 ns since the job's
        origin, ranks aligned): ``queue_length`` from then on; ``launches``, the calls none of whose
        operations on the stream has started, so that a graph counts once; ``pid``, ``tid`` of the
        GPU operation; ``event``, position in the file of the launch (where the length rises) or of
        the operation (where it falls).
    streams : DataFrame
        One row per ``rank``, ``device`` and ``stream``: ``operations`` counted; ``count``,
        ``mean``, ``std``, ``min``, ``q25``, ``median``, ``q75``, ``max`` over the changes, as in
        HTA; ``mean_over_time`` etc., weighted by how long each length holds; ``observed_ns`` (first
        to last change), and of it ``empty_ns`` (length 0) and ``full_ns`` (at least
        ``full_launches`` launches, the fewest in front of a call that is held up; 0 if none is: see
        `full_queue`); ``blocked_calls`` (launch calls that are), ``blocked_ns`` (how much longer
        they take than the median call of their name, in total).
    """

    changes: Mapping[int, pd.DataFrame]
    streams: pd.DataFrame


class _RankQueues(NamedTuple):
    """Parameter-independent part of the analysis of one rank."""

    changes: pd.DataFrame
    streams: list[dict[str, float]]
    notices: tuple[Notice, ...]
    has_work: bool


def queue_length(job: Job, ranks: Iterable[int] | None = None) -> QueueLength:
    """Count the operations that are launched but not yet started.

    The start of a launch call adds its operations to the queue of their stream (a graph launch all
    those of the graph); the start of an operation removes it. Any launch call counts. At equal
    times, launches come first. An operation that starts before its launch, according to the clocks,
    leaves the queue at its launch. Operations whose launch is not in the trace are left out.

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
    by_rank = {rank: _queues_of_rank(job, rank) for rank in chosen}
    streams = table_of([row for each in by_rank.values() for row in each.streams], _STREAMS)
    notices = {rank: each.notices for rank, each in by_rank.items()}
    return QueueLength(
        changes={rank: each.changes for rank, each in by_rank.items()},
        streams=streams,
        finding=_queue_finding(streams, any(each.has_work for each in by_rank.values())),
        notices=(
            *job.notices_for(chosen),
            *job.lacking(chosen, Recorded.KERNELS),
            *merge_notices(notices, name_ranks=len(job.ranks) > 1),
        ),
    )


def _queues_of_rank(job: Job, rank: int) -> _RankQueues:
    of_rank = job.rank(rank)
    return _RankQueues(
        changes=queue_changes_table(job, rank),
        streams=of_rank.remember(_stream_rows),
        notices=of_rank.remember(_queue_notices),
        has_work=len(of_rank.gpu_work) > 0,
    )


def _stream_rows(rank: Rank) -> list[dict[str, float]]:
    changes = aligned_changes(rank)
    device, stream = changes["device"], changes["stream"]
    differs = (device[1:] != device[:-1]) | (stream[1:] != stream[:-1])
    edges = [0, *(np.flatnonzero(differs) + 1).tolist(), device.size]
    return [
        _stream_row(rank, {name: column[first:last] for name, column in changes.items()})
        for first, last in pairwise(edges)
        if last
    ]


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
    return tuple(_unplaced_operations(rank))


def _unplaced_operations(rank: Rank) -> Iterator[Notice]:
    work, launched_ns = rank.gpu_work, rank.launched_ns
    if (launched_ns == NEVER).any():
        yield Notice(_WITHOUT_LAUNCH)
    if early := int(((work.start_ns < launched_ns) & (launched_ns < NEVER)).sum()):
        yield Notice(_BEFORE_LAUNCH, (early, len(work)))


def _queue_finding(streams: pd.DataFrame, worked: bool) -> str:  # noqa: FBT001
    """Sentence on the stream on which the waits of all operations add up to most.

    The average of another may be larger, if it is that of a shorter time.
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
        f"Operations wait most on stream {longest['stream']:.0f} of rank {longest['rank']:.0f}, "
        f"{duration(waiting.max())} added up: {counted(longest['mean_over_time'], 'operation')} on "
        f"average over time, {longest['max']:,.0f} at most. The queue is empty {empty} of the time"
    )
    full_ns = longest["full_ns"]
    if not full_ns:
        return f"{text} and never full."
    full = f"full {percent(100 * full_ns / observed_ns)} ({duration(full_ns)})"
    calls = counted(longest["blocked_calls"], "launch call")
    longer = duration(longest["blocked_ns"])
    return f"{text} and {full}: {calls} had to wait, {longer} in all."
