"""Parent of each CPU call, from the time intervals of the calls of one thread.

In preorder (by start, and the longest first if calls start together), a call's parent is either the
call before it or one of that call's ancestors, the innermost that is still running::

    a |---------------------------|
    b   |-----------|                 after a, which is running:       parent a
    c      |---|                      after b, which is running:       parent b
    d                   |-----|       after c; c and b have ended:     parent a

So each call's first candidate is the call before it. Candidates that have ended are replaced by
their own parents or candidates, for all calls at once, until none has ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Int32Array, Int64Array, IntArray
from hta_widgets.grouping import opens_run
from hta_widgets.trace.model.events import Events, Kind, KindSet

NO_PARENT = -1
_CALLS_AT_ONCE = 1 << 16
"""Rows at a time: few enough for the columns looked up for them to stay in the CPU cache."""

CPU_CALLS = (
    Kind.CPU_OP,
    Kind.RUNTIME,
    Kind.DRIVER,
    Kind.ANNOTATION,
    Kind.PYTHON,
    Kind.OTHER,
    Kind.OS_CALL,
)


def parent_rows(events: Events) -> Int32Array:
    """Row (int32) of the innermost call around each CPU call; `NO_PARENT` for all other events.

    A call's parent is the latest of the calls on the same process and thread that are still running
    when it starts; if calls start together, the longest is outermost. A call that ends after its
    parent, because clocks are imprecise, is still its child.
    """
    rows = calls_in_preorder(events)
    parents = np.full(len(events), NO_PARENT, dtype=np.int32)
    for first in range(1, rows.size, _CALLS_AT_ONCE):
        calls = rows[first : first + _CALLS_AT_ONCE]
        before = rows[first - 1 :][: calls.size]
        same_thread = events.pid[calls] == events.pid[before]
        same_thread &= events.tid[calls] == events.tid[before]
        parents[calls] = np.where(same_thread, before, NO_PARENT)
        _move_outwards(events, parents, calls)
    return parents


def calls_in_preorder(events: Events) -> Int64Array:
    """Rows of the CPU calls, thread by thread, each before the calls inside it."""
    rows, threads = _by_thread(events)
    _put_longest_first(events, rows, threads)
    return rows


def _by_thread(events: Events) -> tuple[Int64Array, NDArray[np.unsignedinteger[Any]]]:
    """Rows of the CPU calls by thread and start, and the thread number of each.

    The order is overwritten with the rows, piece by piece, to save memory on large traces.
    """
    rows = np.flatnonzero(KindSet(CPU_CALLS).among(events.kind))
    threads = _thread_codes(events, rows)
    order = np.argsort(threads, kind="stable")
    for first in range(0, order.size, _CALLS_AT_ONCE):
        piece = order[first : first + _CALLS_AT_ONCE]
        piece[:] = rows[piece]
    threads.sort()
    return order, threads


def places_of(rows: IntArray, count: int) -> Int32Array:
    """Position among the rows of each number below a count; `NO_PARENT` for all others."""
    place = np.full(count, NO_PARENT, dtype=np.int32)
    place[rows] = np.arange(rows.size, dtype=np.int32)
    return place


def ancestors(parents: Int32Array, row: int) -> Iterator[int]:
    """Yield the calls around a call, innermost first."""
    parent = int(parents[row])
    while parent != NO_PARENT:
        yield parent
        parent = int(parents[parent])


def _thread_codes(events: Events, rows: Int64Array) -> NDArray[np.unsignedinteger[Any]]:
    """Number the threads of all processes, in a type narrow enough for numpy's radix sort."""
    processes, threads = (_distinct_piecewise(ids, rows) for ids in (events.pid, events.tid))
    codes = np.empty(rows.size, np.min_scalar_type(processes.size * threads.size))
    for first in range(0, rows.size, _CALLS_AT_ONCE):
        calls = rows[first : first + _CALLS_AT_ONCE]
        process = np.searchsorted(processes, events.pid[calls])
        thread = np.searchsorted(threads, events.tid[calls])
        codes[first : first + _CALLS_AT_ONCE] = process * threads.size + thread
    return codes


def _distinct_piecewise(ids: Int64Array, rows: Int64Array) -> Int64Array:
    pieces = [
        _distinct(ids[rows[first : first + _CALLS_AT_ONCE]])
        for first in range(0, rows.size, _CALLS_AT_ONCE)
    ]
    return _distinct(np.concatenate([ids[:0], *pieces]))


def _distinct(ids: Int64Array) -> Int64Array:
    """Do what `numpy.unique` does, without its import of `numpy.ma`."""
    ids = np.sort(ids)
    return ids[opens_run(ids)]


def _put_longest_first(
    events: Events, rows: Int64Array, threads: NDArray[np.unsignedinteger[Any]]
) -> None:
    """Sort calls that start together on a thread, longest first; `rows` are by thread and start."""
    starts = events.start_ns[rows]
    follows = starts[1:] == starts[:-1]
    follows &= threads[1:] == threads[:-1]
    at_once = np.zeros(rows.size, dtype=bool)
    at_once[1:] = follows
    at_once[:-1] |= follows
    positions = np.flatnonzero(at_once)
    calls = rows[positions]
    order = np.lexsort((-events.duration_ns[calls], starts[positions], threads[positions]))
    rows[positions] = calls[order]


def _move_outwards(events: Events, parents: Int32Array, waiting: Int64Array) -> None:
    """Replace parents that have ended when their call starts by the parents of those.

    If a parent has ended, so have all calls between it and its own parent. The search goes on
    there, for all calls at once.
    """
    while waiting.size:
        above = parents[waiting]
        ended = events.start_ns[above] + events.duration_ns[above] <= events.start_ns[waiting]
        ended &= above != NO_PARENT
        waiting = waiting[ended]
        parents[waiting] = parents[above[ended]]
