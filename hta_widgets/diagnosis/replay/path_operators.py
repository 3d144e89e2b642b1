"""The operators that the pieces of a critical path on one rank belong to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.budget.idle_segments import NOBODY, IdleSegments, OwnerTimeline, joined
from hta_widgets.analyses.time.calls import Calls, calls_of, nearest_at_or_above
from hta_widgets.analyses.time.patterns import BACKWARD_WAIT
from hta_widgets.arrays import Int64Array
from hta_widgets.intervals import Times
from hta_widgets.trace.ranks.rank import Rank

BETWEEN_CALLS: Final = "between calls"
NOT_RECORDED: Final = "launch not recorded"

AT_ONCE: Final = 2**15
"""Number of pieces to cut together: 0.2 M at once give 1.2 M segments, which take 100 MB."""


class RankPieces(NamedTuple):
    """Pieces of a path on one rank, on its own clock."""

    start_ns: Times
    end_ns: Times
    """Times of the pieces on the host."""
    call: Int64Array
    call_before: Int64Array
    """Rows of the calls that end and start these, -1 for none."""
    operation: Int64Array
    """Row of the operation of each other piece."""
    operation_ns: Times
    """Length of each other piece."""


class OperatorTimes(NamedTuple):
    """Time of each operator on the path of one rank."""

    operator: list[str]
    host_ns: Int64Array
    gpu_ns: Int64Array

    @classmethod
    def of_host(cls, operator: str, ns: int) -> OperatorTimes:
        """Times of one operator that takes time on the host only."""
        return cls([operator], np.array([ns]), np.zeros(1, dtype=np.int64))


def operators_of(rank: Rank, pieces: RankPieces) -> OperatorTimes:
    """Time on the host and on the GPU by operator, or by frame if there is none.

    Calls of the runtime belong to what makes them; the times add up to those of the pieces.
    """
    calls, events = calls_of(rank), rank.trace.events
    launch = np.full(events.start_ns.size, NOBODY, dtype=np.int32)
    launch[rank.gpu_work.rows] = rank.gpu_work.launch
    gpu = calls.places_of(launch[pieces.operation].astype(np.int64))
    del launch  # 6 MB, not to be held while the host's pieces are cut
    nobody = calls.name.dtype.type(NOBODY)
    of_call = np.append(calls.name, nobody)[
        nearest_at_or_above(calls.forest, ~calls.is_launch_call)
    ]
    of_call = np.append(of_call, nobody)
    # by code of a name; the last entry is for what has none
    on_host, on_gpu = np.zeros((2, len(events.name.values) + 1), dtype=np.int64)
    for segments in on_threads(calls, pieces):
        np.add.at(on_host, of_call[segments.owner], segments.length_ns)
    np.add.at(on_gpu, of_call[gpu], pieces.operation_ns)
    known, of_gpu = np.flatnonzero(on_host), np.flatnonzero(on_gpu)
    host_ns, gpu_ns = on_host[known], on_gpu[of_gpu]
    of_host, of_work = ((*events.name.values, none) for none in (BETWEEN_CALLS, NOT_RECORDED))
    texts = [of_host[code] for code in known.tolist()]
    texts += [of_work[code] for code in of_gpu.tolist()]
    return OperatorTimes(
        texts,
        np.concatenate((host_ns, np.zeros_like(gpu_ns))),
        np.concatenate((np.zeros_like(host_ns), gpu_ns)),
    )


def on_threads(calls: Calls, pieces: RankPieces) -> Iterator[IdleSegments]:
    """Pieces of the host, cut by the innermost calls, a batch at a time.

    The calls are those of the thread that makes the call at the end; where it does nothing, or
    waits for the backward pass, those of the thread that made the call at the start.
    """
    after, before = (_threads(calls, rows) for rows in (pieces.call, pieces.call_before))
    after, before = (
        np.where(after == NOBODY, before, after),
        np.where(before == NOBODY, after, before),
    )
    waits = np.append(calls.named(BACKWARD_WAIT.search), True)
    every = IdleSegments.of(pieces.start_ns, pieces.end_ns)
    timelines: dict[int, OwnerTimeline] = {}
    for first in range(0, every.gap.size, AT_ONCE):
        some = every.take(np.arange(first, min(first + AT_ONCE, every.gap.size)))
        cut = _cut(calls, some, after, timelines)
        asked = waits[cut.owner] & (before != after)[cut.gap]
        yield cut.take(~asked)
        yield _cut(calls, cut.take(asked), before, timelines)


def _threads(calls: Calls, rows: Int64Array) -> Int64Array:
    """Thread of each call, `NOBODY` for none."""
    places = calls.places_of(rows)
    return np.where(places == NOBODY, NOBODY, calls.thread_of(places))


def _cut(
    calls: Calls, segments: IdleSegments, thread: Int64Array, timelines: dict[int, OwnerTimeline]
) -> IdleSegments:
    """Cut each segment by the calls of its thread; where it makes none, the owner stays."""
    threads = thread[segments.gap]
    found = [segments.take(threads == NOBODY)]
    for number in np.unique(threads[threads != NOBODY]).tolist():
        if number not in timelines:
            timelines[number] = OwnerTimeline.innermost(calls, calls.threads[number])
        own = segments.take(threads == number)
        cut, source = timelines[number].cut(own)
        found.append(
            cut._replace(owner=np.where(cut.owner == NOBODY, own.owner[source], cut.owner))
        )
    return joined(found)
