"""The tree of calls of a rank with some weight, in all or in some of its time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.flame.call_tree import (
    CallTree,
    Nodes,
    NodeWeights,
    Rows,
    merged_nodes,
    tree_of,
)
from hta_widgets.analyses.flame.runs import runs_of, work_runs
from hta_widgets.analyses.flame.weights import NOBODY, Weight, owners_in_any, weights_of
from hta_widgets.analyses.time.calls import at_or_around, calls_of
from hta_widgets.analyses.time.excerpt import Excerpt, counted_work
from hta_widgets.grouping import grouped
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.rank import Rank


class _Paths(NamedTuple):
    """The paths of all calls that may have some of a weight.

    Attributes
    ----------
    nodes : Nodes
    node : ndarray of int32
        Node of each call by place, -1 for others; the last value is -1 as well, for place -1.
    """

    nodes: Nodes
    node: NDArray[np.int32]


def merged_tree(rank: Rank, weight: Weight, excerpt: Excerpt | None) -> CallTree:
    """The paths of names of a rank with their time."""
    return rank.remember(_merged, weight) if excerpt is None else _merged(rank, weight, excerpt)


def tree_in_time(rank: Rank, weight: Weight) -> CallTree:
    """All runs of a rank with their time."""
    return rank.remember(_in_time, weight)


def _in_time(rank: Rank, weight: Weight) -> CallTree:
    return timed_tree(rank, weight, None)


def timed_tree(rank: Rank, weight: Weight, excerpt: Excerpt | None) -> CallTree:
    """All runs of a rank with their time in an excerpt."""
    place, work, ns, nobody = weights_of(rank, weight, excerpt)
    runs = runs_of(rank, weight)
    run = None
    if weight == "gpu":
        rows = [each.rows for each in counted_work(rank, excerpt).values()]
        run = work_runs(rank)[np.concatenate(rows)]
    weights = NodeWeights(runs.node[place].astype(np.int64), work, ns, run)
    return tree_of(calls_of(rank), runs.nodes, weights, nobody)


def _merged(rank: Rank, weight: Weight, excerpt: Excerpt | None = None) -> CallTree:
    weights = _sums(rank, excerpt, weight)
    nodes, of_node = _with_those_above(rank.remember(_paths, weight).nodes, weights.node)
    return tree_of(
        calls_of(rank), nodes, weights._replace(node=of_node[weights.node]), NOBODY[weight]
    )


def _paths(rank: Rank, weight: Weight) -> _Paths:
    calls = calls_of(rank)
    nodes, places, node_at = merged_nodes(calls, owners_in_any(rank, weight))
    node = np.full(calls.kind.size + 1, NO_PARENT, dtype=np.int32)
    node[places] = node_at
    return _Paths(nodes, node)


def _sums(rank: Rank, excerpt: Excerpt | None, weight: Weight) -> NodeWeights:
    """What each path has of a weight, and of which GPU work."""
    place, work, ns, _ = weights_of(rank, weight, excerpt)
    node = rank.remember(_paths, weight).node[place].astype(np.int64)
    groups = grouped(node, work)
    first, sums = groups.first, groups.reduce(np.add, ns)
    some = np.flatnonzero(sums)
    return NodeWeights(node[first[some]], work[first[some]], sums[some])


def _with_those_above(nodes: Nodes, some: Rows) -> tuple[Nodes, Rows]:
    """Some nodes with those around them, and the new number of each node, -1 for none."""
    kept = np.flatnonzero(at_or_around(nodes.parent, some))
    number = np.full(nodes.parent.size + 1, NO_PARENT)
    number[kept] = np.arange(kept.size)
    parent, *others = (column[kept] for column in nodes)
    return Nodes(number[parent], *others), number
