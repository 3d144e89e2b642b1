"""The tree of calls of a rank with some weight: merged by path, or runs in order of time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hta_widgets.analyses.flame.call_tree import (
    CallTree,
    Column,
    Nodes,
    NodeWeights,
    Order,
    merged_nodes,
    tree_of,
)
from hta_widgets.analyses.flame.weights import Weight, calls_with_any, weights_of
from hta_widgets.analyses.time.calls import Calls, at_or_around, calls_of
from hta_widgets.analyses.time.selection import TimeSelection, selected_work
from hta_widgets.arrays import Int32Array, Int64Array
from hta_widgets.grouping import grouped
from hta_widgets.trace.model.events import GPU_WORK
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.rank import Rank


class _NodesOfCalls(NamedTuple):
    """The nodes of all calls that may have some of a weight, the same in all of the time."""

    nodes: Nodes
    node: Int32Array
    """Node of each call by place, -1 for others; the last value is -1 as well, for place -1."""


def weighted_tree(
    rank: Rank, weight: Weight, order: Order, selection: TimeSelection | None = None
) -> CallTree:
    """The calls of a rank with some weight, in all or in some of its time, as in `flame`."""
    if selection is None:
        return rank.remember(_weighted_tree, weight, order)
    return _weighted_tree(rank, weight, order, selection)


def _weighted_tree(
    rank: Rank, weight: Weight, order: Order, selection: TimeSelection | None = None
) -> CallTree:
    weights = weights_of(rank, weight, selection)
    some = np.flatnonzero(weights.ns)
    place, work, ns = (column[some] for column in weights[:3])
    nodes, node_of_call = rank.remember(_runs if order == "time" else _paths, weight)
    node, run = node_of_call[place].astype(np.int64), None
    if order == "time" and weight == "gpu":
        rows = [each.rows for each in selected_work(rank, selection).values()]
        run = rank.remember(_work_runs)[np.concatenate(rows)[some]]
    kept = np.flatnonzero(at_or_around(nodes.parent, node))
    number = np.full(nodes.parent.size + 1, NO_PARENT)
    number[kept] = np.arange(kept.size)
    parent, *others = (column[kept] for column in nodes)
    return tree_of(
        calls_of(rank),
        Nodes(number[parent], *others),
        NodeWeights(number[node], work, ns, run),
        weights.nobody,
    )


def _paths(rank: Rank, weight: Weight) -> _NodesOfCalls:
    """All calls with one path of names are one node."""
    calls = calls_of(rank)
    nodes, places, node_at = merged_nodes(calls, calls_with_any(rank, weight))
    return _NodesOfCalls(nodes, _by_place(calls, places, node_at))


def _runs(rank: Rank, weight: Weight) -> _NodesOfCalls:
    """Neighbours with one name are one node, a run: level by level, in order of time on each."""
    calls = calls_of(rank)
    places = calls_with_any(rank, weight)
    position = _by_place(calls, places, np.arange(places.size, dtype=np.int32))
    parent, name = position[calls.forest.parent[places]], calls.name[places]
    depth = calls.forest.depth[places]
    node = np.full(places.size + 1, NO_PARENT, dtype=np.int32)
    first, count = [places[:0]], 0
    for level in grouped(depth).parts:
        around = node[parent[level]] if count else calls.thread_of(places[level])
        named = name[level]
        opens = np.ones(level.size, dtype=np.bool_)
        opens[1:] = (around[1:] != around[:-1]) | (named[1:] != named[:-1])
        node[level] = np.cumsum(opens, dtype=np.int32) + (count - 1)
        first.append(level[opens])
        count += first[-1].size
    at = np.concatenate(first)
    nodes = Nodes(node[parent[at]], name[at], calls.kind[places[at]], depth[at], places[at])
    return _NodesOfCalls(nodes, _by_place(calls, places, node[:-1]))


def _by_place(calls: Calls, places: Int64Array, node: Column) -> Int32Array:
    found = np.full(calls.kind.size + 1, NO_PARENT, dtype=np.int32)
    found[places] = node
    return found


def _work_runs(rank: Rank) -> Int64Array:
    """Number of the run of GPU work that each event is in, -1 for those without time on a GPU.

    Work of one run of calls, or of none, is a run as long as its name stays the same. It counts in
    the order in which it begins, whatever the device and the stream.
    """
    calls, runs = calls_of(rank), rank.remember(_runs, "gpu")
    events, found = rank.trace.events, np.full(len(rank.trace.events), NO_PARENT)
    rows = events.rows_of(*GPU_WORK)
    rows = rows[events.duration_ns[rows] > 0]
    node = runs.node[calls.places_of(rank.launches[rows].astype(np.int64))]
    order = np.argsort(node, kind="stable")
    rows, node, name = rows[order], node[order], events.name.codes[rows[order]]
    opens = np.ones(rows.size, dtype=np.bool_)
    opens[1:] = (node[1:] != node[:-1]) | (name[1:] != name[:-1])
    found[rows] = np.cumsum(opens)
    return found
