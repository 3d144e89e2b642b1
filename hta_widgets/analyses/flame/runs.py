"""Calls in order of time: neighbours with one name are one node, a run."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.flame.call_tree import Nodes, Rows
from hta_widgets.analyses.flame.weights import Weight, owners_in_any
from hta_widgets.analyses.idle_owners.paths import with_calls_around
from hta_widgets.analyses.time.calls import Calls, Mask, calls_of
from hta_widgets.grouping import counted_up, grouped
from hta_widgets.trace.model.events import GPU_WORK
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.rank import Rank


class Titles(NamedTuple):
    """Distinct names of runs, with their kinds.

    Attributes
    ----------
    of_run : ndarray of uint
        Number of the title of each run; the last value is of what is in none, one more than there
        are.
    first : ndarray of int64
        Some run with each.
    """

    of_run: NDArray[np.unsignedinteger[Any]]
    first: Rows


class Runs(NamedTuple):
    """The runs of all calls that may have some of a weight.

    Attributes
    ----------
    nodes : Nodes
        Level by level from the outermost ones, in order of time on each.
    node : ndarray of int32
        Node of each call by place, -1 for others; the last value is -1 as well, for place -1.
    position, last : ndarray of int64
        Of each node among all in order of their first calls: those inside it follow, up to `last`.
    inner : ndarray of int64
        From ``inner[node + 1]`` up to ``inner[node + 2]`` are the nodes inside one, or inside none
        for -1.
    titles : Titles
    """

    nodes: Nodes
    node: NDArray[np.int32]
    position: Rows
    last: Rows
    inner: Rows
    titles: Titles

    def inside(self, nodes: Rows) -> Rows:
        """The nodes inside some; -1 stands for the outermost."""
        return counted_up(self.inner[nodes + 1], self.inner[nodes + 2])

    def count_inside(self, nodes: Rows) -> Rows:
        """Number of the nodes inside each of some."""
        return np.asarray(self.inner[nodes + 2] - self.inner[nodes + 1])


def runs_of(rank: Rank, weight: Weight) -> Runs:
    """The runs of a rank, the same in all of its time."""
    return rank.remember(_runs_of, weight)


def _runs_of(rank: Rank, weight: Weight) -> Runs:
    return runs_among(calls_of(rank), owners_in_any(rank, weight))


def work_runs(rank: Rank) -> Rows:
    """Number of the run of GPU work that each event is in, -1 for those without time on a GPU.

    Work of one run of calls, or of none, is a run as long as its name stays the same. It counts in
    the order in which it begins, whatever the device and the stream.
    """
    return rank.remember(_work_runs)


def _work_runs(rank: Rank) -> Rows:
    calls, runs = calls_of(rank), runs_of(rank, "gpu")
    events, found = rank.trace.events, np.full(len(rank.trace.events), NO_PARENT)
    rows = events.rows_of(*GPU_WORK)
    rows = rows[events.duration_ns[rows] > 0]
    node = runs.node[calls.places_of(rank.launches[rows].astype(np.int64))]
    order = np.argsort(node, kind="stable")
    rows, node, name = rows[order], node[order], events.name.codes[rows[order]]
    opens = np.ones(rows.size, dtype=np.bool_)
    opens[1:] = (np.diff(node) != 0) | (np.diff(name) != 0)
    found[rows] = np.cumsum(opens)
    return found


def runs_among(calls: Calls, owners: Rows) -> Runs:
    """The runs of some calls and those around them."""
    forest = calls.forest
    places = with_calls_around(calls, owners)
    before = _numbers_before(places, calls.kind.size)
    node, by_depth, opens = _run_of_each(calls, places, before)
    first = by_depth[opens]
    last = by_depth[np.append(opens[1:], True)[: opens.size]]
    nodes = Nodes(
        parent=node[_parents(calls, places[first], before)],
        name=calls.name[places[first]].astype(np.int64),
        kind=calls.kind[places[first]].astype(np.int64),
        depth=forest.depth[places[first]].astype(np.int64),
        first=places[first],
    )
    node_of_place = np.full(calls.kind.size + 1, NO_PARENT, dtype=np.int32)
    node_of_place[places] = node[:-1]
    alike = grouped(nodes.name, nodes.kind)
    of_run = np.append(alike.of_rows, alike.sizes.size)
    runs_before = _numbers_before(first, places.size)
    return Runs(
        nodes,
        node_of_place,
        runs_before[first],
        runs_before[before[forest.ends[places[last]]]],
        np.searchsorted(nodes.parent, np.arange(NO_PARENT, first.size + 1)),
        Titles(of_run.astype(np.min_scalar_type(alike.sizes.size)), alike.first),
    )


def _run_of_each(calls: Calls, places: Rows, before: Rows) -> tuple[Rows, Rows, Mask]:
    """Node of each call and -1 behind the last; the calls by depth, and which open a run."""
    depth, parent = calls.forest.depth[places], _parents(calls, places, before)
    by_depth = grouped(depth).order
    levels = np.concatenate(([0], np.cumsum(np.bincount(depth)))) if depth.size else [0]
    node = np.full(places.size + 1, NO_PARENT)
    opens = np.zeros(places.size, dtype=np.bool_)
    count = 0
    for begin, end in pairwise(levels):
        level = by_depth[begin:end]
        around, name = node[parent[level]], calls.name[places[level]]
        is_new = np.ones(level.size, dtype=np.bool_)
        is_new[1:] = (np.diff(around) != 0) | (np.diff(name) != 0)
        if begin == 0:
            is_new[1:] |= np.diff(calls.thread_of(places[level])) != 0
        node[level] = count + np.cumsum(is_new) - 1
        opens[begin:end] = is_new
        count += int(is_new.sum())
    return node, by_depth, opens


def _parents(calls: Calls, places: Rows, before: Rows) -> Rows:
    """Which of the calls is around each of some, -1 for none."""
    above = calls.forest.parent[places]
    return np.where(above >= 0, before[above], NO_PARENT)


def _numbers_before(some: Rows, size: int) -> Rows:
    """How many of some numbers are less than each up to a size."""
    before = np.zeros(size + 1, dtype=np.int64)
    before[some + 1] = 1
    np.cumsum(before, out=before)
    return before
