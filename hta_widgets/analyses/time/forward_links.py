"""Which forward operator each backward operator differentiates, by their sequence numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.time.calls import Calls, calls_of
from hta_widgets.grouping import grouped
from hta_widgets.trace.model.events import SideTable
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.rank import Rank

Places = NDArray[np.int64]


def forward_places(rank: Rank) -> Places:
    """Place of the forward operator of each backward operator, by place; -1 for all other calls.

    Of the operators with a sequence number, those with a forward thread are backward ones. The
    forward operator of one has its sequence number, belongs to the same process, and started last
    of those that started before the first backward operator with this number and forward thread; of
    several that started together, the innermost.

    The profiler numbers threads on its own: where forward operators with one sequence number run on
    several threads, a forward thread stands for the one with most of its matches.
    """
    return rank.remember(_forward_places)


class _Operators(NamedTuple):
    """Operators that have a sequence number.

    Attributes
    ----------
    place : ndarray of int64
    number : ndarray of int64
        The same for those of one process with one sequence number.
    order : ndarray of int64
        Position of the start among all starts; equal starts have the same.
    forward_thread : ndarray of int64
        The same for those of one process with one forward thread.
    tid : ndarray of int64
    """

    place: Places
    number: Places
    order: Places
    forward_thread: Places
    tid: Places

    def take(self, chosen: NDArray[np.bool_] | Places) -> _Operators:
        return _Operators(*(column[chosen] for column in self))


def _forward_places(rank: Rank) -> Places:
    calls = calls_of(rank)
    linked = np.full(calls.forest.rows.size, NO_PARENT, dtype=np.int64)
    table = rank.trace.events.side.get("operators")
    if table is None or "sequence_number" not in table.columns:
        return linked
    operators, is_backward = _numbered(calls, table)
    forward, backward = operators.take(~is_backward), operators.take(is_backward)
    if not (forward.place.size and backward.place.size):
        return linked
    keys = grouped(backward.forward_thread, backward.number)
    first = keys.reduce(np.minimum, backward.order)
    found = _matched(forward, backward.take(keys.first)._replace(order=first))
    linked[backward.place[keys.order]] = np.repeat(found, keys.sizes)
    return linked


def _numbered(calls: Calls, table: SideTable) -> tuple[_Operators, NDArray[np.bool_]]:
    """Operators with a sequence number, and which of them are backward ones."""
    sequence = np.asarray(table.columns["sequence_number"])
    place = calls.places_of(table.rows)
    kept = np.flatnonzero((sequence >= 0) & (place >= 0))
    rows = table.rows[kept]
    pid = calls.events.pid[rows]
    forward_thread = np.asarray(table.columns["forward_thread"])[kept]
    _, order = np.unique(calls.events.start_ns[rows], return_inverse=True)
    operators = _Operators(
        place=place[kept],
        number=_numbers_of_pairs(pid, sequence[kept]),
        order=order,
        forward_thread=_numbers_of_pairs(pid, forward_thread),
        tid=calls.events.tid[rows],
    )
    return operators, forward_thread > 0


def _numbers_of_pairs(one: Places, other: Places) -> Places:
    """One number for each distinct pair."""
    return grouped(one, other).of_rows


def _matched(forward: _Operators, keys: _Operators) -> Places:
    """Place of the forward operator of each key; `keys.order` is that of its first operator."""
    forward = _by_number(forward)
    match = _last_before(forward, keys)
    tid = np.append(forward.tid, NO_PARENT)[match]
    on_several = _numbers_on_several_threads(forward)
    sure = (match != NO_PARENT) & ~np.isin(keys.number, on_several)
    usual = _most_frequent(keys.forward_thread[sure], tid[sure])
    for thread in np.unique(keys.forward_thread[~sure & (match != NO_PARENT)]).tolist():
        asked = np.flatnonzero(~sure & (keys.forward_thread == thread))
        on_thread = np.flatnonzero(forward.tid == usual.get(thread, NO_PARENT))
        better = _last_before(forward.take(on_thread), keys.take(asked))
        match[asked] = np.where(
            better != NO_PARENT, np.append(on_thread, NO_PARENT)[better], match[asked]
        )
    return np.append(forward.place, NO_PARENT)[match]


def _by_number(operators: _Operators) -> _Operators:
    return operators.take(np.lexsort((operators.place, operators.order, operators.number)))


def _last_before(forward: _Operators, keys: _Operators) -> Places:
    """Position of the last forward operator with the number of each key that starts before it."""
    count = int(max(forward.order.max(initial=0), keys.order.max(initial=0))) + 1
    starts = forward.number * count + forward.order
    found = np.searchsorted(starts, keys.number * count + keys.order) - 1
    same = (found >= 0) & (np.append(forward.number, NO_PARENT)[found] == keys.number)
    return np.where(same, found, NO_PARENT)


def _numbers_on_several_threads(forward: _Operators) -> Places:
    """Numbers of operators, sorted by number, that run on more than one thread."""
    changes = (np.diff(forward.number) == 0) & (np.diff(forward.tid) != 0)
    return np.unique(forward.number[1:][changes])


def _most_frequent(keys: Places, values: Places) -> dict[int, int]:
    """The most frequent value of each key."""
    pairs = grouped(keys, values)
    by_count = np.argsort(pairs.sizes, kind="stable")
    first = pairs.first[by_count]
    return dict(zip(keys[first].tolist(), values[first].tolist(), strict=True))
