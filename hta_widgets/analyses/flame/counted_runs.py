"""What runs have of a weight in an excerpt."""

from __future__ import annotations

import numpy as np

from hta_widgets.analyses.flame.call_tree import NodeWeights, Rows
from hta_widgets.analyses.flame.pieces import times_of
from hta_widgets.analyses.flame.run_blocks import blocks_of, pieces_of_runs
from hta_widgets.analyses.flame.weights import NO_WORK, Weight
from hta_widgets.analyses.time.excerpt import Excerpt
from hta_widgets.grouping import counted_up
from hta_widgets.trace.ranks.rank import Rank


class CountedRuns:
    """Sums over runs by their position; the last of them stands for what is in none.

    Those of blocks that an excerpt holds as a whole are known; what else it holds is summed up.

    Parameters
    ----------
    rank : Rank
    weight : {"gpu", "cpu", "idle", "bytes"}
    excerpt : Excerpt
    """

    def __init__(self, rank: Rank, weight: Weight, excerpt: Excerpt) -> None:
        self._times = times_of(rank, weight, excerpt)
        self._of_runs, self._blocks = pieces_of_runs(rank, weight), blocks_of(rank, weight)
        blocks = self._blocks
        self._whole, cut = blocks.inside(self._times)
        strangers = blocks.strangers[~cut[blocks.of_run[blocks.strangers]]]
        cut_blocks = np.flatnonzero(cut)
        in_part = counted_up(blocks.edges[cut_blocks], blocks.edges[cut_blocks + 1])
        self._runs = np.sort(np.concatenate((in_part, strangers)))
        self._at, self._run_at, self._amount = self._counted(self._runs)
        last = np.searchsorted(self._run_at, self._runs, side="right")
        own = np.diff(np.append(0, np.cumsum(self._amount))[last], prepend=0)
        is_whole = np.append(self._whole, False)
        known = blocks.before[self._runs + 1] - blocks.before[self._runs]
        self._more = own - np.where(is_whole[blocks.of_run[self._runs]], known, 0)
        before = np.where(is_whole, blocks.before[blocks.edges], 0)
        of_blocks = np.diff(blocks.before[blocks.edges]) * self._whole
        self._is_whole, self._offset = is_whole, np.append(0, np.cumsum(of_blocks)) - before

    @property
    def total(self) -> int:
        """Of all runs, and of what is in none."""
        return int(self.before(np.array([self._of_runs.size]))[0])

    def before(self, runs: Rows) -> Rows:
        """What all runs before each of some have, which ascend."""
        blocks = self._blocks
        block = blocks.of_run[runs]
        found = self._offset[block] + np.where(self._is_whole[block], blocks.before[runs], 0)
        if runs.size < self._runs.size:
            more = np.append(0, np.cumsum(self._more))
            return np.asarray(found + more[np.searchsorted(self._runs, runs)])
        more = np.zeros(runs.size + 1, dtype=np.int64)
        np.add.at(more, np.searchsorted(runs, self._runs, side="right"), self._more)
        return np.asarray(found + np.cumsum(more[:-1]))

    def weights(self, runs: Rows) -> NodeWeights:
        """What some runs have, which are nodes 0, 1, …, and last what is in none, by GPU work."""
        every = np.append(runs, self._of_runs.size - 1)
        order = np.argsort(every)
        every, node = every[order], np.append(np.arange(runs.size), -1)[order]
        work, run_of_work = self._of_runs.pieces.work, self._of_runs.pieces.run
        if work is None or run_of_work is None:
            own = self.before(every + 1) - self.before(every)
            some = np.flatnonzero(own)
            return NodeWeights(node[some], np.full(some.size, NO_WORK), own[some])
        at, run, amount = self._counted(every)
        some = np.flatnonzero(amount)
        node_of_piece = node[np.searchsorted(every, run[some])]
        return NodeWeights(node_of_piece, work[at[some]], amount[some], run_of_work[at[some]])

    def by_title(self, first: int, last: int) -> tuple[Rows, Rows, Rows]:
        """Titles of some neighbouring runs, their sums, and how many runs have any."""
        whole = self._whole.copy()
        edges = self._blocks.edges
        whole &= (first <= edges[:-1]) & (edges[1:] <= last)
        blocks = np.flatnonzero(whole)
        listed_edges = self._blocks.listed_edges
        known = self._blocks.listed[counted_up(listed_edges[blocks], listed_edges[blocks + 1])]
        begin, end = np.searchsorted(self._run_at, (first, last)).tolist()
        columns = (self._at, self._run_at, self._amount)
        others = self._counted(self._in_whole_blocks_cut_by(first, last))
        parts = [
            self._of_runs.listed(*(column[begin:end] for column in columns)),
            self._of_runs.listed(*others),
        ]
        title = np.concatenate((known[:, 0], *(part.title for part in parts)))
        ones = [np.ones(part.title.size, dtype=np.int64) for part in parts]
        counted = np.concatenate((known[:, 1], *ones))
        amounts = np.concatenate((known[:, 2], *(part.amount for part in parts)))
        sums = np.zeros((2, int(title.max(initial=-1)) + 1), dtype=np.int64)
        np.add.at(sums[0], title, counted)
        np.add.at(sums[1], title, amounts)
        there = np.flatnonzero(sums[0])
        return there, sums[1, there], sums[0, there]

    def _in_whole_blocks_cut_by(self, first: int, last: int) -> Rows:
        """Some neighbouring runs that are in whole blocks of which others are not asked for."""
        blocks = self._blocks
        cut = np.unique(blocks.of_run[[first, max(first, last - 1)]])
        cut = cut[(blocks.edges[cut] < first) | (blocks.edges[cut + 1] > last)]
        cut = cut[self._whole[cut]]
        runs = counted_up(
            np.maximum(blocks.edges[cut], first), np.minimum(blocks.edges[cut + 1], last)
        )
        return np.setdiff1d(runs, self._runs, assume_unique=True)

    def _counted(self, runs: Rows) -> tuple[Rows, Rows, Rows]:
        """Pieces of some runs, the run of each, and what is counted of it."""
        at, run = self._of_runs.of(runs)
        return at, run, self._of_runs.pieces.counted(at, self._times)
