"""The pieces of time of runs, in blocks of runs of which most excerpts hold all or nothing."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.flame.call_tree import Rows
from hta_widgets.analyses.flame.pieces import Pieces, pieces_of, step_edges_of
from hta_widgets.analyses.flame.runs import Runs, runs_of
from hta_widgets.analyses.flame.weights import Weight
from hta_widgets.analyses.time.calls import Mask, calls_of
from hta_widgets.analyses.time.window import window_of
from hta_widgets.grouping import counted_up, grouped, reduce_runs
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.ranks.rank import Rank

SIZE: Final = 4_096
"""Runs and pieces of a block: those of a block of which a part is counted are summed up anew."""

_NEVER: Final = 2**62
_SEVERAL: Final = -1


class Listed(NamedTuple):
    """What some runs have under each title.

    Attributes
    ----------
    run, title, amount : ndarray of int64
    """

    run: Rows
    title: Rows
    amount: Rows


class PiecesOfRuns(NamedTuple):
    """All pieces by run, runs by position; the last is of what is in none.

    Attributes
    ----------
    pieces : Pieces
    edges : ndarray of int64
        Those of a run are from ``edges[run]`` up to ``edges[run + 1]``.
    title : ndarray of int
        Code of what each run is listed under; that of GPU work is its name, whatever the run.
    """

    pieces: Pieces
    edges: Rows
    title: Rows

    @property
    def size(self) -> int:
        """Number of the runs."""
        return int(self.edges.size) - 1

    def of(self, runs: Rows) -> tuple[Rows, Rows]:
        """Positions of the pieces of some runs, and the run of each."""
        first, last = self.edges[runs], self.edges[runs + 1]
        return counted_up(first, last), np.repeat(runs, last - first)

    def listed(self, at: Rows, run: Rows, amount: Rows) -> Listed:
        """What is listed of some pieces, in order, given what is counted of each."""
        if not amount.all():
            some = np.flatnonzero(amount)
            at, run, amount = at[some], run[some], amount[some]
        if self.pieces.work is None or self.pieces.run is None:
            first = np.flatnonzero(np.diff(run, prepend=-1))
            return Listed(run[first], self.title[run[first]], reduce_runs(np.add, amount, first))
        alike = grouped(self.pieces.run[at])
        first = alike.first
        return Listed(run[first], self.pieces.work[at[first]], alike.reduce(np.add, amount))


class Blocks(NamedTuple):
    """Runs that follow each other and begin in one step, some thousands at most.

    Attributes
    ----------
    edges : ndarray of int64
        First run of each block, and the number of all.
    of_run : ndarray of int32
        Number of the block of each run, and of one more.
    first_ns, last_ns : ndarray of int64
        When the pieces of each block begin and end on each clock; without those of strangers.
    strangers : ndarray of int64
        Runs with any pieces in another step than most of their block; sorted.
    listed : ndarray of int64, 3 columns
        Title, number of runs and amount of what is not of strangers, block by block.
    listed_edges : ndarray of int64
        That of a block is from ``listed_edges[block]`` up to ``listed_edges[block + 1]``.
    before : ndarray of int64
        Amount of all runs before each, in all of the time; and of all.
    """

    edges: Rows
    of_run: NDArray[np.int32]
    first_ns: Times
    last_ns: Times
    strangers: Rows
    listed: Rows
    listed_edges: Rows
    before: Rows

    def inside(self, times: list[Intervals]) -> tuple[Mask, Mask]:
        """Which blocks are counted as a whole, and which in part."""
        whole = np.ones(self.edges.size - 1, dtype=np.bool_)
        some = np.zeros_like(whole)
        for clock, time in enumerate(times):
            first_ns, last_ns = self.first_ns[:, clock], self.last_ns[:, clock]
            known = first_ns < last_ns
            counted_ns = np.zeros(first_ns.size, dtype=np.int64)
            counted_ns[known] = time.covered_until(last_ns[known])
            counted_ns[known] -= time.covered_until(first_ns[known])
            whole &= ~known | (counted_ns == last_ns - first_ns)
            some |= counted_ns > 0
        return whole, some & ~whole


def pieces_of_runs(rank: Rank, weight: Weight) -> PiecesOfRuns:
    """All pieces of a weight by run."""
    return rank.remember(_pieces_of_runs, weight)


def blocks_of(rank: Rank, weight: Weight) -> Blocks:
    """The runs of a weight in blocks."""
    return rank.remember(_blocks, weight)


def _pieces_of_runs(rank: Rank, weight: Weight) -> PiecesOfRuns:
    (place, found), runs = pieces_of(rank, weight), runs_of(rank, weight)
    count = runs.position.size
    run = np.append(runs.position, count)[runs.node[place]]
    kept = np.flatnonzero(found.end_ns > found.start_ns)
    run = run[kept]
    order = kept[np.argsort(run, kind="stable")]
    title = np.empty(count + 1, dtype=np.int64)
    title[np.append(runs.position, count)] = runs.titles.of_run
    edges = np.append(0, np.cumsum(np.bincount(run, minlength=count + 1)))
    return PiecesOfRuns(found.take(order), edges, title)


def _blocks(rank: Rank, weight: Weight) -> Blocks:
    of_runs, runs = pieces_of_runs(rank, weight), runs_of(rank, weight)
    pieces, count = of_runs.pieces, of_runs.size
    edges = _edges(rank, runs, of_runs)
    numbers = np.arange(edges.size, dtype=np.int32)
    of_run = np.repeat(numbers, np.diff(edges, append=count + 1))
    run = np.repeat(np.arange(count), np.diff(of_runs.edges))
    step_edges = step_edges_of(rank, weight)
    step = _steps(pieces, step_edges)
    is_strange = np.zeros(count, dtype=np.bool_)
    is_strange[run[_differs(of_run[run], step)]] = True
    own = np.flatnonzero(~is_strange[run])
    shape = edges.size - 1, len(step_edges)
    first_ns, last_ns = _reach(pieces, own, of_run[run[own]], shape)
    amount = pieces.in_all()
    listed = of_runs.listed(own, run[own], amount[own])
    groups = grouped(of_run[listed.run], listed.title)
    of_title = np.stack(
        (listed.title[groups.first], groups.sizes, groups.reduce(np.add, listed.amount)), axis=1
    )
    listed_edges = np.searchsorted(of_run[listed.run[groups.first]], np.arange(edges.size))
    before = np.append(0, np.cumsum(amount))[of_runs.edges]
    strangers = np.flatnonzero(is_strange)
    return Blocks(edges, of_run, first_ns, last_ns, strangers, of_title, listed_edges, before)


def _edges(rank: Rank, runs: Runs, of_runs: PiecesOfRuns) -> Rows:
    """First run of each block, and the number of all: what is in no run is a block."""
    calls, count = calls_of(rank), of_runs.size
    first = np.empty(count - 1, dtype=np.int64)
    first[runs.position] = runs.nodes.first
    step = np.searchsorted(window_of(rank).step_start_ns, calls.start_ns[first], side="right")
    thread = calls.thread_of(first)
    opens = np.ones(count, dtype=np.bool_)
    opens[1:-1] = (step[1:] != step[:-1]) | (thread[1:] != thread[:-1])
    begins = np.flatnonzero(opens)
    size = of_runs.edges[:-1] + np.arange(count)
    since = size - np.repeat(size[begins], np.diff(begins, append=count))
    opens[1:] |= np.diff(since // SIZE) > 0
    return np.append(np.flatnonzero(opens), count)


def _steps(pieces: Pieces, edges: list[Times]) -> Rows:
    """Position of the step that each piece is in, `_SEVERAL` if it is in several."""
    found = np.zeros(pieces.size, dtype=np.int64)
    for clock, of_clock in enumerate(edges):
        own = np.flatnonzero(pieces.clock == clock)
        begun = np.searchsorted(of_clock, pieces.start_ns[own], side="right")
        ended = np.searchsorted(of_clock, pieces.end_ns[own], side="left")
        found[own] = np.where(begun == ended, begun, _SEVERAL)
    return found


def _differs(block: NDArray[np.integer], step: Rows) -> Mask:
    """Which pieces are in another step than most of their block, or in several."""
    both = grouped(block, step)
    block_of_pair, step_of_pair = block[both.first], step[both.first]
    most = np.lexsort((-both.sizes, step_of_pair == _SEVERAL, block_of_pair))
    first = np.flatnonzero(np.diff(block_of_pair[most], prepend=-1))
    usual = np.full(int(block.max(initial=-1)) + 1, _SEVERAL)
    usual[block_of_pair[most[first]]] = step_of_pair[most[first]]
    return np.asarray((step == _SEVERAL) | (step != usual[block]))


def _reach(
    pieces: Pieces, at: Rows, block: NDArray[np.integer], shape: tuple[int, int]
) -> tuple[Times, Times]:
    """First start and last end of some pieces by block and clock; no time where there are none."""
    first_ns, last_ns = np.full(shape, _NEVER), np.full(shape, -_NEVER)
    cell = (block, pieces.clock[at])
    np.minimum.at(first_ns, cell, pieces.start_ns[at])
    np.maximum.at(last_ns, cell, pieces.end_ns[at])
    return first_ns, last_ns
