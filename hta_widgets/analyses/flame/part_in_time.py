"""What is shown of an excerpt in order of time, found from the top down."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.flame.call_tree import (
    NO_KIND,
    CallTree,
    LeftOut,
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
        What leads to the root, and all below it that is shown.
    names : DataFrame
        As of `Flame`.
    total_ns : int
        Of everything.
    has_frames : bool
        Whether Python frames were recorded.
    """

    tree: CallTree
    names: pd.DataFrame
    total_ns: int
    has_frames: bool


class _Level(NamedTuple):
    """What is inside some runs, all of which are at one depth.

    Attributes
    ----------
    opened : ndarray of int64
        These runs, -1 for what is around the outermost.
    nodes, ns : ndarray of int64
        Number and time of the runs with any time inside each.
    run, total_ns : ndarray of int64
        Number of each run inside them, ascending, and its time.
    """

    opened: Rows
    nodes: Rows
    ns: Rows
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
    levels = search.levels(root)
    opened = np.concatenate([level.opened for level in levels])[1:]
    tree = search.tree(levels, opened)
    below = _Below(calls, runs, weights, search.run, tree, opened)
    names = below.names(below.pieces(find(tree, root)))
    return PartInTime(tree, names, int(weights.ns.sum()), runs.has_frames)


class _Search:
    """Opens runs from the outermost inwards.

    Parameters
    ----------
    calls : Calls
    runs : Runs
    weights : Weights

    Attributes
    ----------
    run : ndarray of int64
        Of each piece of time, -1 for none.
    """

    def __init__(self, calls: Calls, runs: Runs, weights: Weights) -> None:
        self._calls, self._runs, self._weights = calls, runs, weights
        self.run = runs.node[weights.place].astype(np.int64)
        self._opened = np.zeros(runs.nodes.parent.size + 1, dtype=np.bool_)
        own_ns = np.zeros(calls.kind.size + 1, dtype=np.int64)
        np.add.at(own_ns, weights.place, weights.ns)
        last = int(weights.place.max(initial=NO_PARENT)) + 1
        self._first = int(weights.place.min(initial=last))
        if self._first == NO_PARENT:
            self._first = int(weights.place[weights.place != NO_PARENT].min(initial=last))
        self._before_ns = np.zeros(last - self._first + 1, dtype=np.int64)
        np.cumsum(own_ns[self._first : last], out=self._before_ns[1:])

    def levels(self, root: Sequence[str]) -> list[_Level]:
        """What is inside all that leads to the root, and inside all below it that is shown."""
        names, name = self._calls.events.name.values, self._runs.nodes.name
        level, whole_ns = self._inside(np.array([NO_PARENT])), int(self._weights.ns.sum())
        found = [level]
        for wanted in root:
            some = np.flatnonzero(level.total_ns)
            named = [names[code] == wanted for code in name[level.run[some]].tolist()]
            fits = some[np.array(named, dtype=np.bool_)]
            most = fits[np.argsort(-level.total_ns[fits], kind="stable")[:1]]
            whole_ns = int(level.total_ns[most].sum())
            found.append(level := self._inside(level.run[most]))
        while level.run.size:
            large = level.total_ns >= max(SMALLEST * whole_ns, 1)
            found.append(level := self._inside(level.run[large]))
        return found

    def _inside(self, opened: Rows) -> _Level:
        self._opened[opened] = True
        run = self._runs.inside(opened)
        places, first = self._runs.calls(run)
        of_calls = self._before(self._calls.forest.ends[places]) - self._before(places)
        total_ns = np.add.reduceat(of_calls, first) if first.size else of_calls
        count = self._runs.inner[opened + 2] - self._runs.inner[opened + 1]
        last = np.cumsum(count)
        nodes, ns = (
            before[last] - before[last - count]
            for before in (np.append(0, np.cumsum(each)) for each in (total_ns > 0, total_ns))
        )
        return _Level(opened, nodes, ns, run, total_ns)

    def _before(self, places: NDArray[np.integer]) -> Rows:
        """Time of all calls before some places."""
        at = np.clip(places - self._first, 0, self._before_ns.size - 1)
        return np.asarray(self._before_ns[at])

    def tree(self, levels: list[_Level], opened: Rows) -> CallTree:
        """The runs that were opened; what is inside them and was not is left out."""
        number = np.empty(self._opened.size, dtype=np.int64)
        number[NO_PARENT] = NO_PARENT
        number[opened] = np.arange(opened.size)
        nodes = Nodes(*(column[opened] for column in self._runs.nodes))
        nodes = nodes._replace(parent=number[nodes.parent])
        first, *others = levels
        left_out = LeftOut(
            np.concatenate([*(level.nodes for level in others), first.nodes]),
            np.concatenate([*(level.ns for level in others), first.ns]),
        )
        np.subtract.at(left_out.nodes, nodes.parent, 1)
        for outer, level in pairwise(levels):
            inner = np.searchsorted(outer.run, level.opened)
            around = nodes.parent[number[level.opened]]
            np.subtract.at(left_out.ns, around, outer.total_ns[inner])
        inside = np.flatnonzero(self._opened[self.run])
        weights = NodeWeights(
            number[self.run[inside]], self._weights.work[inside], self._weights.ns[inside]
        )
        return tree_of(self._calls, nodes, weights, self._weights.nobody, left_out)


class _Below(NamedTuple):
    """What is below a node of a tree, also what is too small to be in it."""

    calls: Calls
    runs: Runs
    weights: Weights
    run: Rows
    tree: CallTree
    opened: Rows

    def pieces(self, node: int) -> Rows | slice:
        """Pieces of time that belong to a node or to what is inside; to any for -1."""
        place, work = self.weights[:2]
        if node == NO_PARENT:
            return slice(None)
        if node < self.opened.size:
            starts, _ = self.runs.calls(self.opened[node : node + 1])
            around = np.searchsorted(starts, place, side="right") - 1
            ends = self.calls.forest.ends[starts]
            return np.flatnonzero((around >= 0) & (place < ends[around]))
        owner = int(self.tree.parent[node])
        if owner == NO_PARENT:
            return np.flatnonzero(place == NO_PARENT)
        run = np.append(self.opened, NO_PARENT)[owner]
        return np.flatnonzero((self.run == run) & (work == self.tree.name[node]))

    def names(self, pieces: Rows | slice) -> pd.DataFrame:
        """Time of some pieces by name: all are of calls, or all of GPU work."""
        work, ns, run = self.weights.work[pieces], self.weights.ns[pieces], self.run[pieces]
        in_kernels = work.size and int(work[0]) >= 0
        columns = self._of_work(work, ns, run) if in_kernels else self._of_calls(ns, run)
        return names_table(self.tree.names, *columns)

    def _of_calls(self, ns: Rows, run: Rows) -> tuple[Rows, Rows, Rows, Rows]:
        """Name, kind, time and number of runs of calls; the last row is of what is in no call."""
        nodes, titles = self.runs.nodes, self.runs.titles
        own_ns = np.zeros(titles.first.size + 1, dtype=np.int64)
        np.add.at(own_ns, titles.of_run[run], ns)
        is_used = np.zeros(titles.of_run.size, dtype=np.bool_)
        is_used[run[ns > 0]] = True
        runs = np.bincount(titles.of_run[is_used], minlength=own_ns.size)
        some = np.flatnonzero(own_ns)
        name = np.append(nodes.name[titles.first], len(self.tree.names) - 1)
        kind = np.append(nodes.kind[titles.first], NO_KIND)
        return name[some], kind[some], own_ns[some], runs[some]

    @staticmethod
    def _of_work(work: Rows, ns: Rows, run: Rows) -> tuple[Rows, Rows, Rows, Rows]:
        """The same of GPU work, of which each run has one node for each name."""
        some = np.flatnonzero(ns)
        pairs = grouped(work[some], run[some])
        name = work[some[pairs.first]]
        of_name = grouped(name)
        own_ns = of_name.reduce(np.add, pairs.reduce(np.add, ns[some]))
        kind = np.full(own_ns.size, Kind.KERNEL.value)
        return name[of_name.first], kind, own_ns, of_name.sizes
