"""Which call of the CPU runs inside which, thread by thread."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hta_widgets.trace.events import Events, Kind

NO_PARENT = -1
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
    changes = np.any(thread[:, 1:] != thread[:, :-1], axis=0)
    for calls in np.split(rows, np.flatnonzero(changes) + 1):
        parents[calls] = _parents_on_thread(events, calls)
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


def _parents_on_thread(events: Events, calls: NDArray[np.int64]) -> list[int]:
    """Parents of one thread's calls, which come in order of start, longest first."""
    running: list[tuple[int, int]] = []
    parents = []
    starts, ends = events.start_ns[calls].tolist(), events.end_ns[calls].tolist()
    for row, start, end in zip(calls.tolist(), starts, ends, strict=True):
        while running and running[-1][0] <= start:
            running.pop()
        parents.append(running[-1][1] if running else NO_PARENT)
        running.append((end, row))
    return parents
