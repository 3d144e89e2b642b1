"""Queues that are full: launches wait, and the calls that add one take long."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.grouping import grouped
from hta_widgets.intervals import Times
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.ranks.rank import Rank

LEAST_LAUNCHES: Final = 900
"""Launches that wait in the shortest queue that can be full. CUDA accepts 1,024 per stream, some of
them markers and events, so traces in which launches block stay at up to 1,022."""
NEARLY_FULL: Final = 0.9
"""Share of the most launches that ever wait on a stream, from which on a call may be held up."""
LONG_MEDIANS: Final = 20
"""A call takes long if it takes more than this many medians of the calls of its name, and …"""
LONG_NS: Final = 50_000
"""… more than this (ns)."""
LEAST_HELD_UP: Final = 0.05
"""Share of the calls at a nearly full queue, copies aside, that take long where it is full."""

Rows = NDArray[np.int64]


class FullQueue(NamedTuple):
    """When launches block because the queue of a stream is full.

    Attributes
    ----------
    launches : int
        Fewest launches that wait in front of a call that is held up; 0 if none is: then the queue
        is never full, however long it is.
    blocked_calls : int
        Calls that are held up.
    blocked_ns : int
        How much longer these take than the median call of their name, in total.
    """

    launches: int
    blocked_calls: int
    blocked_ns: int


NEVER_FULL: Final = FullQueue(0, 0, 0)


def full_queue(rank: Rank, changes: Columns) -> FullQueue:
    """Find the launch calls that are held up by a full queue.

    A call is held up if it takes long (`LONG_MEDIANS`, `LONG_NS`) and begins while nearly as many
    launches wait on its stream as ever do (`NEARLY_FULL`), that is as many as a queue can hold
    (`LEAST_LAUNCHES`), and it is not the only one (`LEAST_HELD_UP`). Copies alone are no evidence:
    from pageable memory, they take long at any length. So may a call that loads a module.

    Parameters
    ----------
    rank : Rank
    changes : mapping of str to ndarray
        Columns of `QueueLength.changes` of one stream.
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


def _calls(rank: Rank, device: int, stream: int) -> tuple[Rows, NDArray[np.bool_]]:
    """Calls that launch work on a stream, by start, and which of them launch only copies."""
    events, work = rank.trace.events, rank.gpu_work
    on_stream = (work.device == device) & (work.stream == stream) & (work.launch >= 0)
    other = on_stream & (events.kind[work.rows] != Kind.MEMCPY)
    launches, launches_other = np.zeros((2, len(events)), dtype=bool)
    launches[work.launch[on_stream]] = launches_other[work.launch[other]] = True
    calls = np.flatnonzero(launches)
    return calls, ~launches_other[calls]


def _beyond_median_ns(rank: Rank) -> Times:
    """How much longer each launch call that takes long does than the median; 0 for other events."""
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
