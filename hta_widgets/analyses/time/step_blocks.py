"""Blocks of steps that follow each other, and which of them some steps fill."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.time.excerpt import Excerpt
from hta_widgets.analyses.time.window import window_of
from hta_widgets.intervals import Times
from hta_widgets.trace.ranks.rank import Rank

Positions = NDArray[np.int64]

EVENTS: Final = 12_500
"""Of a block, about; a longer step is a block of its own."""

MOST: Final = 128
"""Blocks of a rank, which keeps what it knows of them."""

FEWEST: Final = 50_000
"""Events in whole blocks; with fewer, nothing is gained."""


class _Crossing(NamedTuple):
    """Work of a device that runs where blocks begin.

    Attributes
    ----------
    first : ndarray of int64
        Position of the step in which the earliest of it begins, for each block; where there is
        none, the position of the first step of the block.
    is_near : ndarray of bool
        Whether the device has any time in the step before each block.
    """

    first: Positions
    is_near: NDArray[np.bool_]


def blocks_of_steps(rank: Rank) -> list[Excerpt]:
    """All blocks of a rank, each of which continues the step before it."""
    edges = [*rank.remember(_edges).tolist(), window_of(rank).steps.size]
    return [_block(rank, *block, continued=True) for block in pairwise(edges)]


def whole_blocks(rank: Rank, steps: tuple[int, ...]) -> list[Excerpt]:
    """Blocks of which all steps are chosen; none where direct sums are as fast.

    What runs where a block begins counts before it if a step in which it runs is chosen, too.
    Blocks where that differs from one piece of work to the next are left out.
    """
    numbers, begin = window_of(rank).steps, rank.remember(_edges)
    chosen = np.isin(numbers, steps)
    is_whole = np.logical_and.reduceat(chosen, begin)
    if rank.remember(_events)[is_whole].sum() < FEWEST:
        return []
    before = np.append(0, np.cumsum(chosen))
    counted, begins = np.copy(is_whole), np.copy(is_whole)
    for crossing in rank.remember(_crossings):
        runs_on = crossing.first < begin
        counted &= ~runs_on | (chosen[begin - 1] & crossing.is_near)
        begins &= before[crossing.first] == before[begin]
    edges = [*pairwise([*begin.tolist(), numbers.size])]
    return [
        _block(rank, *edges[block], continued=bool(counted[block]))
        for block in np.flatnonzero(counted | begins).tolist()
    ]


def _block(rank: Rank, first: int, last: int, *, continued: bool) -> Excerpt:
    numbers = window_of(rank).steps
    before = numbers[first - 1 : first] if continued else numbers[:0]
    return Excerpt(tuple(numbers[first:last].tolist()), (), others=tuple(before.tolist()))


def _edges(rank: Rank) -> Positions:
    """Position of the first step of each block."""
    at = _first_events(rank)
    size = max(EVENTS, len(rank.trace.events) // MOST)
    return np.flatnonzero(np.diff((at - at[0]) // size, prepend=-1))


def _events(rank: Rank) -> Positions:
    """Number of events that start in each block."""
    at: Positions = _first_events(rank)[rank.remember(_edges)]
    return np.diff(at, append=len(rank.trace.events))


def _first_events(rank: Rank) -> Positions:
    """Row of the first event of each step."""
    starts, steps_ns = rank.trace.events.start_ns, window_of(rank).step_start_ns
    return np.maximum.accumulate(np.searchsorted(starts, steps_ns))


def _crossings(rank: Rank) -> list[_Crossing]:
    return [_crossing(rank, device) for device in rank.gpu_work.devices]


def _crossing(rank: Rank, device: int) -> _Crossing:
    steps_ns, begin = window_of(rank).step_edges(rank, device), rank.remember(_edges)
    edges_ns: Times = steps_ns[begin]
    work = rank.all_work(device)
    block = np.searchsorted(edges_ns, work.start_ns, side="right")
    count = np.maximum(np.searchsorted(edges_ns, work.end_ns, side="left") - block, 0)
    crossing = np.flatnonzero(count)
    block, count = block[crossing], count[crossing]
    reached = np.repeat(block - np.cumsum(count) + count, count) + np.arange(count.sum())
    step = np.searchsorted(steps_ns[:-1], work.start_ns[crossing], side="right") - 1
    first = np.copy(begin)
    np.minimum.at(first, reached, np.repeat(np.maximum(step, 0), count))
    return _Crossing(first, steps_ns[begin - 1] < edges_ns)
