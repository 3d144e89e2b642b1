"""Which call of the CPU runs inside which, thread by thread."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hta_widgets.intervals import Times
from hta_widgets.trace.events import Events, Kind

NO_PARENT = -1
_EVER = np.iinfo(np.int64).max
CPU_CALLS = (
    Kind.CPU_OP,
    Kind.RUNTIME,
    Kind.DRIVER,
    Kind.ANNOTATION,
    Kind.PYTHON,
    Kind.OTHER,
)


def parent_rows(events: Events) -> NDArray[np.int64]:
    """Find the innermost call around each call of the CPU.

    A call's parent is the one begun last, on the same process and thread, of those still running
    when the call starts; of several that start at once the longest is outermost. Where clocks make
    a call end after its parent, it stays its child.

    Returns
    -------
    ndarray of int64, one per event
        Row of the parent; `NO_PARENT` for outermost calls and for all other events.
    """
    parents = np.full(len(events), NO_PARENT, dtype=np.int64)
    rows = calls_outside_in(events)
    thread = np.stack([events.pid[rows], events.tid[rows]])
    begins_thread = np.ones(rows.size, dtype=bool)
    begins_thread[1:] = np.any(thread[:, 1:] != thread[:, :-1], axis=0)
    place = _last_still_running(events.start_ns[rows], events.end_ns[rows], begins_thread)
    inside = place != NO_PARENT
    parents[rows[inside]] = rows[place[inside]]
    return parents


def calls_outside_in(events: Events) -> NDArray[np.int64]:
    """Rows of the calls of the CPU, thread by thread, each before the calls inside it."""
    rows = events.rows_of(*CPU_CALLS)
    keys = (-events.duration_ns[rows], events.start_ns[rows], events.tid[rows], events.pid[rows])
    return np.asarray(rows[np.lexsort(keys)])


def ancestors(parents: NDArray[np.int64], row: int) -> Iterator[int]:
    """Yield the calls around a call, innermost first."""
    parent = int(parents[row])
    while parent != NO_PARENT:
        yield parent
        parent = int(parents[parent])


def _last_still_running(
    starts: Times, ends: Times, begins_thread: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """For each call, the last one before it on its thread that ends after it starts.

    Where one has ended, all calls between it and its own candidate have, too: calls go on to the
    candidate of their candidate, all at once, until none has to.
    """
    outside = np.int64(0)
    candidate = np.where(begins_thread, outside, np.arange(starts.size))
    candidate = np.concatenate(([outside], candidate))
    starts = np.concatenate(([_EVER], starts))
    ends = np.concatenate(([_EVER], ends))
    waiting = np.arange(1, starts.size)
    while waiting.size:
        waiting = waiting[ends[candidate[waiting]] <= starts[waiting]]
        candidate[waiting] = candidate[candidate[waiting]]
    return candidate[1:] - 1
