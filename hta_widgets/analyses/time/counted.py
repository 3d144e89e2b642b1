"""What is counted of calls: all of a rank, or an excerpt of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.excerpt import (
    ANY_TIME,
    EVERYTHING,
    Excerpt,
    counted_work,
    remember,
)
from hta_widgets.analyses.time.window import window_of
from hta_widgets.grouping import distinct
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank


class LaunchedWork(NamedTuple):
    """GPU work of all devices, with the call that launched each piece.

    Attributes
    ----------
    work : GpuWork
        As it is counted; device by device.
    place : ndarray of int64
        Place of the launch call, `NO_PARENT` if it is not in the trace.
    """

    work: GpuWork
    place: NDArray[np.int64]


def launched_work(rank: Rank, excerpt: Excerpt | None) -> LaunchedWork:
    """The work that is counted, with its launch calls."""
    return remember(rank, _launched_work, excerpt)


def _launched_work(rank: Rank, excerpt: Excerpt | None) -> LaunchedWork:
    work, *others = counted_work(rank, excerpt).values()
    for other in others:
        work = work.followed_by(other)
    return LaunchedWork(work, calls_of(rank).places_of(work.launch))


def has_cpu_time(rank: Rank) -> NDArray[np.bool_]:
    """Which calls have CPU time that counts: not those of the step that is left out.

    Idle time is of any call, since a GPU may wait for the next step before it has done this one.
    """
    return rank.analysed[calls_of(rank).forest.rows]


def host_time(rank: Rank, excerpt: Excerpt | None) -> Intervals:
    """The time in which calls are counted: also outside of the steps, unless some are chosen.

    On the CPU, a step lasts from the start of its mark to the start of the next one.
    """
    excerpt = excerpt or EVERYTHING
    counted, window = ANY_TIME, excerpt.window_of(rank)
    if excerpt.steps:
        edges, chosen = host_step_edges(rank), np.isin(window_of(rank).steps, excerpt.steps)
        counted = Intervals.union(edges[:-1][chosen], edges[1:][chosen])
    return counted if window is None else counted.clip(*window)


def host_step_edges(rank: Rank) -> Times:
    """Where the steps begin on the CPU, and where the last one ends."""
    whole = window_of(rank)
    starts = whole.step_start_ns
    return np.append(starts, starts[-1:] + whole.step_length_ns[-1:])


def sums_at(positions: NDArray[np.integer[Any]], values: Times, size: int) -> Times:
    """Sum of the values at each position; those at -1 are left out."""
    sums = np.zeros(size + 1, dtype=np.int64)
    if 2 * np.count_nonzero(values) < values.size:  # few in a short window
        counted = np.flatnonzero(values)
        positions, values = positions[counted], values[counted]
    np.add.at(sums, positions, values)
    return sums[:-1]


def same_name_around(
    places: NDArray[np.int64], ends: NDArray[np.integer], name: NDArray[np.integer]
) -> NDArray[np.int64]:
    """The innermost call of the same name around each of some calls.

    Parameters
    ----------
    places : ndarray of int64
        Places of the calls, ascending.
    ends : ndarray of int
        Place after the last call inside each.
    name : ndarray of int
        Code of the name of each.

    Returns
    -------
    ndarray of int64
        Its position among the calls, -1 for none.
    """
    found = np.full(places.size, NO_PARENT, dtype=np.int64)
    order = np.argsort(name, kind="stable")
    reached, position = _reached_before(ends[order], name[order]), places[order]
    nested_names = distinct(name[order[reached > position]])
    if not nested_names.size:
        return found
    asked = order[np.isin(name[order], nested_names)]
    apart = np.int64(int(ends.max()) + 1)
    lowest = name[asked] * apart
    start, end = lowest + places[asked], lowest + ends[asked]
    around = np.arange(asked.size) - 1
    passed = np.arange(1, asked.size)
    while (passed := passed[(around[passed] >= 0) & (end[around[passed]] <= start[passed])]).size:
        around[passed] = around[around[passed]]
    found[asked] = np.append(asked, NO_PARENT)[around]
    return found


def _reached_before(ends: NDArray[np.integer], group: NDArray[np.integer]) -> NDArray[np.int64]:
    """Largest end among the earlier ones of each group; the groups ascend."""
    apart = np.int64(int(ends.max(initial=0)) + 1)
    number = np.cumsum(np.diff(group, prepend=group[:1]) != 0)
    lowest = number * apart
    reached = np.maximum.accumulate(lowest + ends)
    before = np.concatenate((lowest[:1], reached[:-1]))[: ends.size]
    return np.asarray(before - lowest)
