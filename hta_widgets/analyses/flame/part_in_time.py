"""What is shown of an excerpt in order of time, found from the top down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.flame.call_tree import (
    NO_KIND,
    CallTree,
    Nodes,
    NodeWeights,
    Rows,
    Weights,
    tree_of,
)
from hta_widgets.analyses.flame.fold import SMALLEST, find, names_table
from hta_widgets.analyses.flame.runs import Runs
from hta_widgets.analyses.shared.attribution.calls import Calls
from hta_widgets.grouping import grouped
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.nesting import NO_PARENT


class PartInTime(NamedTuple):
    """Some of the runs with their time.

    Attributes
    ----------
    tree : CallTree
        What leads to the root, and all that is inside nodes below it that are shown.
    names : DataFrame
        As of `Flame`.
    total_ns : int
        Of everything.
    """

    tree: CallTree
    names: pd.DataFrame
    total_ns: int


class _Visited(NamedTuple):
    """Numbers of runs, ascending, and the time of each with what is inside."""

    run: Rows
    total_ns: Rows


def part_in_time(calls: Calls, runs: Runs, weights: Weights, root: Sequence[str]) -> PartInTime:
    """Find what is shown below a root, which takes far less time than to make the whole tree.

    Raises
    ------
    ParameterError
        If there is no such root.
    """
    search = _Search(calls, runs, weights)
    visited = search.visit(root)
    tree = search.tree(visited)
    below = _Below(calls, runs, weights, search.run, tree, visited)
    names = below.names(below.pieces(find(tree, root)))
    return PartInTime(tree, names, int(weights.ns.sum()))


class _Search:
    """Opens runs from the outermost inwards.

    Parameters
    ----------
    calls : Calls
    runs : Runs
    weights : Weights

    Attributes
    ----------
    run : ndarray of int32
        Of each piece of time, -1 for none.
    """

    def __init__(self, calls: Calls, runs: Runs, weights: Weights) -> None:
        self._calls, self._runs, self._weights = calls, runs, weights
        self.run = runs.node[weights.place]
        self._opened = np.zeros(runs.nodes.parent.size + 1, dtype=np.bool_)
        own_ns = np.zeros(calls.kind.size + 1, dtype=np.int64)
        np.add.at(own_ns, weights.place, weights.ns)
        some = weights.place[weights.place != NO_PARENT]
        self._first, last = (int(some.min()), int(some.max()) + 1) if some.size else (0, 0)
        self._before_ns = np.append(0, np.cumsum(own_ns[self._first : last]))

    def visit(self, root: Sequence[str]) -> _Visited:
        """Everything inside what leads to the root, and inside all below it that is shown."""
        names, name = self._calls.events.name.values, self._runs.nodes.name
        level, whole_ns = self._inside(np.array([NO_PARENT])), int(self._weights.ns.sum())
        found = [level]
        for wanted in root:
            named = [names[code] == wanted for code in name[level.run].tolist()]
            fits = np.flatnonzero(named)
            most = fits[np.argsort(-level.total_ns[fits], kind="stable")[:1]]
            whole_ns = int(level.total_ns[most].sum())
            found.append(level := self._inside(level.run[most]))
        while level.run.size:
            large = level.total_ns >= SMALLEST * whole_ns
            found.append(level := self._inside(level.run[large]))
        return _Visited(*map(np.concatenate, zip(*found, strict=True)))

    def _inside(self, runs: Rows) -> _Visited:
        """Runs with any time inside some; -1 stands for the outermost."""
        self._opened[runs] = True
        inner = self._runs.inside(runs)
        places, first = self._runs.calls(inner)
        of_calls = self._before(self._calls.forest.ends[places]) - self._before(places)
        total_ns = np.add.reduceat(of_calls, first) if first.size else of_calls
        some = np.flatnonzero(total_ns)
        return _Visited(inner[some], total_ns[some])

    def _before(self, places: NDArray[np.integer]) -> Rows:
        """Time of all calls before some places."""
        at = np.clip(places - self._first, 0, self._before_ns.size - 1)
        return np.asarray(self._before_ns[at])

    def tree(self, visited: _Visited) -> CallTree:
        """The visited runs; of those that are not open, the time inside counts as their own."""
        number = np.empty(self._opened.size, dtype=np.int64)
        number[NO_PARENT] = NO_PARENT
        number[visited.run] = np.arange(visited.run.size)
        nodes = Nodes(*(column[visited.run] for column in self._runs.nodes))
        inside = np.flatnonzero(self._opened[self.run])
        closed = np.flatnonzero(~self._opened[visited.run])
        return tree_of(
            self._calls,
            nodes._replace(parent=number[nodes.parent]),
            NodeWeights(
                np.append(number[self.run[inside]], closed),
                np.append(self._weights.work[inside], np.full(closed.size, NO_PARENT)),
                np.append(self._weights.ns[inside], visited.total_ns[closed]),
            ),
            self._weights.nobody,
        )


class _Below(NamedTuple):
    """What is below a node of a tree, also what is too small to be in it."""

    calls: Calls
    runs: Runs
    weights: Weights
    run: NDArray[np.int32]
    tree: CallTree
    visited: _Visited

    def pieces(self, node: int) -> Rows | slice:
        """Pieces of time that belong to a node or to what is inside; to any for -1."""
        place, work = self.weights[:2]
        if node == NO_PARENT:
            return slice(None)
        if node < self.visited.run.size:
            starts, _ = self.runs.calls(self.visited.run[node : node + 1])
            around = np.searchsorted(starts, place, side="right") - 1
            ends = self.calls.forest.ends[starts]
            return np.flatnonzero((around >= 0) & (place < ends[around]))
        owner = int(self.tree.parent[node])
        if owner == NO_PARENT:
            return np.flatnonzero(place == NO_PARENT)
        run = np.append(self.visited.run, NO_PARENT)[owner]
        return np.flatnonzero((self.run == run) & (work == self.tree.name[node]))

    def names(self, pieces: Rows | slice) -> pd.DataFrame:
        """Time of some pieces by name: all are of calls, or all of GPU work."""
        work, ns, run = self.weights.work[pieces], self.weights.ns[pieces], self.run[pieces]
        in_kernels = work.size and int(work[0]) >= 0
        columns = self._of_work(work, ns, run) if in_kernels else self._of_calls(ns, run)
        return names_table(self.tree.names, *columns)

    def _of_calls(self, ns: Rows, run: NDArray[np.int32]) -> tuple[Rows, Rows, Rows, Rows]:
        """Name, kind, time and number of runs of calls; the last row is of what is in no call."""
        nodes, titles = self.runs.nodes, self.runs.titles
        own_ns = np.zeros(titles.first.size + 1, dtype=np.int64)
        np.add.at(own_ns, titles.of_run[run], ns)
        is_used = np.zeros(titles.of_run.size, dtype=np.bool_)
        is_used[run[np.flatnonzero(ns)]] = True
        runs = np.bincount(titles.of_run[is_used], minlength=own_ns.size)
        some = np.flatnonzero(own_ns)
        name = np.append(nodes.name[titles.first], len(self.tree.names) - 1)
        kind = np.append(nodes.kind[titles.first], NO_KIND)
        return name[some], kind[some], own_ns[some], runs[some]

    @staticmethod
    def _of_work(work: Rows, ns: Rows, run: NDArray[np.int32]) -> tuple[Rows, Rows, Rows, Rows]:
        """The same of GPU work, of which each run has one node for each name."""
        some = np.flatnonzero(ns)
        pairs = grouped(work[some], run[some])
        name = work[some[pairs.first]]
        of_name = grouped(name)
        own_ns = of_name.reduce(np.add, pairs.reduce(np.add, ns[some]))
        kind = np.full(own_ns.size, Kind.KERNEL.value)
        return name[of_name.first], kind, own_ns, of_name.sizes
