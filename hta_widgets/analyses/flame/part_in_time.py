"""What is shown of an excerpt in order of time, found from the top down."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.flame.call_tree import (
    NO_KIND,
    CallTree,
    LeftOut,
    Nodes,
    Rows,
    tree_of,
)
from hta_widgets.analyses.flame.counted_runs import CountedRuns
from hta_widgets.analyses.flame.fold import SMALLEST, find, names_table, times_by_name
from hta_widgets.analyses.flame.runs import Runs, runs_of
from hta_widgets.analyses.flame.weights import NOBODY, Weight
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.excerpt import Excerpt
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.rank import Rank


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
    """

    tree: CallTree
    names: pd.DataFrame
    total_ns: int


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


def part_in_time(rank: Rank, weight: Weight, excerpt: Excerpt, root: Sequence[str]) -> PartInTime:
    """Find what is shown below a root, which takes far less time than to make the whole tree.

    Raises
    ------
    ParameterError
        If there is no such root.
    """
    runs, counted = runs_of(rank, weight), CountedRuns(rank, weight, excerpt)
    levels = _Search(rank, runs, counted).levels(root)
    opened = np.concatenate([level.opened for level in levels])[1:]
    weights = counted.weights(runs.position[opened])
    nodes, left_out = _opened_nodes(runs, levels, opened)
    tree = tree_of(calls_of(rank), nodes, weights, NOBODY[weight], left_out)
    top = find(tree, root)
    if top >= opened.size:  # all that is inside GPU work, and what no call owns, is in the tree
        names = times_by_name(tree, root)
    else:
        title, *sums = counted.by_title(*_around(runs, NO_PARENT if top < 0 else int(opened[top])))
        name, kind = _named(runs, tree, title, weight)
        names = names_table(tree.names, name, kind, *sums)
    return PartInTime(tree, names, counted.total)


class _Search(NamedTuple):
    """Opens runs from the outermost inwards."""

    rank: Rank
    runs: Runs
    counted: CountedRuns

    def levels(self, root: Sequence[str]) -> list[_Level]:
        """What is inside all that leads to the root, and inside all below it that is shown."""
        names, name = self.rank.trace.events.name.values, self.runs.nodes.name
        level, whole_ns = self._inside(np.array([NO_PARENT])), self.counted.total
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
        run = self.runs.inside(opened)
        total_ns = self._totals(opened, run)
        last = np.cumsum(self.runs.count_inside(opened))
        nodes, ns = (
            np.diff(np.append(0, np.cumsum(each))[last], prepend=0)
            for each in (total_ns > 0, total_ns)
        )
        return _Level(opened, nodes, ns, run, total_ns)

    def _totals(self, opened: Rows, run: Rows) -> Rows:
        """Time of the runs inside some; where one ends, the next one inside the same begins."""
        if not run.size:
            return run
        begins = self.counted.before(self.runs.position[run])
        ends = np.append(begins[1:], 0)
        count = self.runs.count_inside(opened)
        outermost = np.cumsum(count)[count > 0] - 1
        ends[outermost] = self.counted.before(self.runs.last[run[outermost]])
        return ends - begins


def _opened_nodes(runs: Runs, levels: list[_Level], opened: Rows) -> tuple[Nodes, LeftOut]:
    """The runs that were opened; what is inside them and was not is left out."""
    number = np.full(runs.position.size + 1, NO_PARENT)
    number[opened] = np.arange(opened.size)
    nodes = Nodes(*(column[opened] for column in runs.nodes))
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
    return nodes, left_out


def _around(runs: Runs, top: int) -> tuple[int, int]:
    """Positions from a run to behind what is inside it; of everything for -1."""
    if top == NO_PARENT:
        return 0, runs.position.size + 1
    return int(runs.position[top]), int(runs.last[top])


def _named(runs: Runs, tree: CallTree, title: Rows, weight: Weight) -> tuple[Rows, Rows]:
    """Codes of the name and of the kind of titles."""
    if weight == "gpu":
        return title, np.full(title.size, Kind.KERNEL.value)
    first = runs.titles.first
    name = np.append(runs.nodes.name[first], len(tree.names) - 1)
    return name[title], np.append(runs.nodes.kind[first], NO_KIND)[title]
