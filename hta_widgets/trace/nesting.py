"""Which call of the CPU runs inside which, thread by thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hta_widgets.trace.events import Events, Kind, KindSet

NO_PARENT = -1
_NO_THREAD = -1
_CALLS_AT_ONCE = 1 << 16
"""As many as the processor's cache holds what is looked up for."""

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
    rows = calls_outside_in(events)
    parents = np.full(len(events), NO_PARENT, dtype=np.int64)
    for first in range(1, rows.size, _CALLS_AT_ONCE):
        calls = rows[first : first + _CALLS_AT_ONCE]
        before = rows[first - 1 :][: calls.size]
        same_thread = events.pid[calls] == events.pid[before]
        same_thread &= events.tid[calls] == events.tid[before]
        parents[calls] = np.where(same_thread, before, NO_PARENT)
        _move_outwards(events, parents, calls)
    return parents


def calls_outside_in(events: Events) -> NDArray[np.int64]:
    """Rows of the calls of the CPU, thread by thread, each before the calls inside it."""
    threads = _thread_codes(events)
    threads[~KindSet(CPU_CALLS).among(events.kind)] = _NO_THREAD
    rows = np.argsort(threads, kind="stable")
    rows = rows[np.searchsorted(threads, _NO_THREAD, side="right", sorter=rows) :]
    _put_longest_first(events, rows, threads)
    return rows


def ancestors(parents: NDArray[np.int64], row: int) -> Iterator[int]:
    """Yield the calls around a call, innermost first."""
    parent = int(parents[row])
    while parent != NO_PARENT:
        yield parent
        parent = int(parents[parent])


def _thread_codes(events: Events) -> NDArray[np.signedinteger[Any]]:
    """Number the threads by process and thread, in a type so narrow that numpy sorts by radix."""
    processes, threads = _distinct(events.pid), _distinct(events.tid)
    narrow = np.min_scalar_type(-processes.size * threads.size - 1)
    codes = np.searchsorted(processes, events.pid).astype(narrow)
    codes *= threads.size
    codes += np.searchsorted(threads, events.tid).astype(narrow)
    return codes


def _distinct(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what `numpy.unique` does, which imports all of `numpy.ma` to do so."""
    ids = np.sort(ids)
    is_first = np.ones(ids.size, dtype=bool)
    is_first[1:] = ids[1:] != ids[:-1]
    return ids[is_first]


def _put_longest_first(
    events: Events, rows: NDArray[np.int64], threads: NDArray[np.signedinteger[Any]]
) -> None:
    """Reorder calls that start at once on a thread; `rows` ascend by thread and start."""
    starts = events.start_ns[rows]
    follows = starts[1:] == starts[:-1]
    codes = threads[rows]
    follows &= codes[1:] == codes[:-1]
    at_once = np.zeros(rows.size, dtype=bool)
    at_once[1:] = follows
    at_once[:-1] |= follows
    places = np.flatnonzero(at_once)
    calls = rows[places]
    order = np.lexsort((-events.duration_ns[calls], starts[places], codes[places]))
    rows[places] = calls[order]


def _move_outwards(events: Events, parents: NDArray[np.int64], waiting: NDArray[np.int64]) -> None:
    """Replace parents that have ended when their call starts.

    Where one has ended, all calls between it and its own parent have, too: calls go on to the
    parent of their parent, all at once, until none has to. Calls that come before are settled.
    """
    while waiting.size:
        above = parents[waiting]
        ended = events.start_ns[above] + events.duration_ns[above] <= events.start_ns[waiting]
        ended &= above != NO_PARENT
        waiting = waiting[ended]
        parents[waiting] = parents[above[ended]]
