"""Which call of the CPU runs inside which, thread by thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hta_widgets.trace.model.events import Events, Kind, KindSet

NO_PARENT = -1
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


def parent_rows(events: Events) -> NDArray[np.int32]:
    """Find the innermost call around each call of the CPU.

    A call's parent is the one begun last, on the same process and thread, of those still running
    when the call starts; of several that start at once the longest is outermost. Where clocks make
    a call end after its parent, it stays its child.

    Returns
    -------
    ndarray of int32, one per event
        Row of the parent; `NO_PARENT` for outermost calls and for all other events.
    """
    rows = calls_outside_in(events)
    parents = np.full(len(events), NO_PARENT, dtype=np.int32)
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
    rows, threads = _by_thread(events)
    _put_longest_first(events, rows, threads)
    return rows


def _by_thread(events: Events) -> tuple[NDArray[np.int64], NDArray[np.unsignedinteger[Any]]]:
    """Rows of the calls of the CPU, thread by thread and by start, and the number of each thread.

    Rows take the place of their order, piece by piece: columns of a large trace are large.
    """
    rows = np.flatnonzero(KindSet(CPU_CALLS).among(events.kind))
    threads = _thread_codes(events, rows)
    order = np.argsort(threads, kind="stable")
    for first in range(0, order.size, _CALLS_AT_ONCE):
        places = order[first : first + _CALLS_AT_ONCE]
        places[:] = rows[places]
    threads.sort()
    return order, threads


def ancestors(parents: NDArray[np.int32], row: int) -> Iterator[int]:
    """Yield the calls around a call, innermost first."""
    parent = int(parents[row])
    while parent != NO_PARENT:
        yield parent
        parent = int(parents[parent])


def _thread_codes(events: Events, rows: NDArray[np.int64]) -> NDArray[np.unsignedinteger[Any]]:
    """Number the threads by process and thread, in a type so narrow that numpy sorts by radix."""
    processes, threads = (_distinct_piecewise(ids, rows) for ids in (events.pid, events.tid))
    codes = np.empty(rows.size, np.min_scalar_type(processes.size * threads.size))
    for first in range(0, rows.size, _CALLS_AT_ONCE):
        calls = rows[first : first + _CALLS_AT_ONCE]
        process = np.searchsorted(processes, events.pid[calls])
        thread = np.searchsorted(threads, events.tid[calls])
        codes[first : first + _CALLS_AT_ONCE] = process * threads.size + thread
    return codes


def _distinct_piecewise(ids: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    pieces = [
        _distinct(ids[rows[first : first + _CALLS_AT_ONCE]])
        for first in range(0, rows.size, _CALLS_AT_ONCE)
    ]
    return _distinct(np.concatenate([ids[:0], *pieces]))


def _distinct(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what `numpy.unique` does, which imports all of `numpy.ma` to do so."""
    ids = np.sort(ids)
    is_first = np.ones(ids.size, dtype=bool)
    is_first[1:] = ids[1:] != ids[:-1]
    return ids[is_first]


def _put_longest_first(
    events: Events, rows: NDArray[np.int64], threads: NDArray[np.unsignedinteger[Any]]
) -> None:
    """Reorder calls that start at once on a thread; `rows` ascend by thread and start."""
    starts = events.start_ns[rows]
    follows = starts[1:] == starts[:-1]
    follows &= threads[1:] == threads[:-1]
    at_once = np.zeros(rows.size, dtype=bool)
    at_once[1:] = follows
    at_once[:-1] |= follows
    places = np.flatnonzero(at_once)
    calls = rows[places]
    order = np.lexsort((-events.duration_ns[calls], starts[places], threads[places]))
    rows[places] = calls[order]


def _move_outwards(events: Events, parents: NDArray[np.int32], waiting: NDArray[np.int64]) -> None:
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
