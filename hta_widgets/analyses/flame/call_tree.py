"""The call paths of one rank with some time on each: names are merged, or runs kept in order."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.idle_owners.paths import paths_around
from hta_widgets.analyses.time.calls import Calls
from hta_widgets.arrays import Int64Array
from hta_widgets.grouping import counted_up, grouped
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.nesting import NO_PARENT

Column = NDArray[np.integer[Any]]

Order: TypeAlias = Literal["merged", "time"]

NO_KIND: Final = -1
KINDS: Final = {kind.value: kind.name.lower() for kind in Kind} | {NO_KIND: ""}


class Weights(NamedTuple):
    """Pieces of time by the call that they belong to."""

    place: Int64Array
    """Of the call, -1 for none."""
    work: Int64Array
    """Code of the name of the GPU work, -1 for time of the call itself."""
    ns: Int64Array
    nobody: str
    """Name of the node for what belongs to no call."""


class CallTree(NamedTuple):
    """Nodes with some time, in no particular order but parents before what is inside."""

    parent: Int64Array
    """Node around each, -1 for outermost ones."""
    name: Int64Array
    """Position in `names`."""
    kind: Int64Array
    """Value of `Kind`, `NO_KIND` for none."""
    depth: Int64Array
    """Number of nodes around each."""
    own_ns: Int64Array
    """Without what is inside."""
    total_ns: Int64Array
    """With what is inside."""
    rank_in_time: Int64Array
    """Ascends with the first call of each node."""
    names: tuple[str, ...]
    by_parent: Int64Array
    """The nodes with some time, by their parent."""
    edges: Int64Array
    """``by_parent[edges[node + 1]:edges[node + 2]]`` are inside a node, -1 for the outermost."""

    def inside(self, node: int) -> Int64Array:
        """The nodes inside one, -1 for the outermost."""
        return self.by_parent[self.edges[node + 1] : self.edges[node + 2]]

    def inside_all(self, nodes: Int64Array) -> Int64Array:
        """The nodes inside several."""
        return np.asarray(self.by_parent[counted_up(self.edges[nodes + 1], self.edges[nodes + 2])])


class Nodes(NamedTuple):
    """Nodes before anything is summed up; columns as in `CallTree`, `first` as `rank_in_time`."""

    parent: Column
    name: Column
    kind: Column
    depth: Column
    first: Column


class NodeWeights(NamedTuple):
    """Pieces of time by the node that they belong to, -1 for none; `work` as in `Weights`."""

    node: Int64Array
    work: Int64Array
    ns: Int64Array
    run: Int64Array | None = None
    """In order of time: number of the run of each piece of GPU work. All work of one name in a node
    is one where it is not given."""


def call_tree(calls: Calls, weights: Weights) -> CallTree:
    """Put pieces of time into a tree in which all calls with the same path of names are one."""
    kept = weights.ns > 0
    place, work, ns = (column[kept] for column in weights[:3])
    nodes, places, node_at = merged_nodes(calls, place[place != NO_PARENT])
    at = np.where(place == NO_PARENT, places.size, np.searchsorted(places, place))
    node = np.append(node_at, NO_PARENT)[at]
    return tree_of(calls, nodes, NodeWeights(node, work, ns), weights.nobody)


def tree_of(calls: Calls, nodes: Nodes, weights: NodeWeights, nobody: str) -> CallTree:
    """Give nodes their time, and the GPU work nodes inside those that launch it."""
    node, work, ns, run = weights
    names = (*calls.events.name.values, nobody)
    nodes = _with(nodes, [NO_PARENT], [len(names) - 1], [NO_KIND], [0], [calls.kind.size])
    node = np.where(node == NO_PARENT, nodes.parent.size - 1, node)
    is_work = work >= 0
    of_work = np.flatnonzero(is_work)
    pairs = grouped(node[of_work], (work if run is None else run)[of_work])
    first = of_work[pairs.first]
    launched_in = node[first]
    every = _with(
        nodes,
        launched_in,
        work[first],
        np.full(first.size, Kind.KERNEL.value),
        nodes.depth[launched_in] + 1,
        nodes.first[launched_in],
    )
    own_ns = np.zeros(every.parent.size, dtype=np.int64)
    np.add.at(own_ns, node, np.where(is_work, 0, ns))
    own_ns[nodes.parent.size :] = pairs.reduce(np.add, ns[of_work])
    return nodes_as_tree(every, own_ns, names)


def nodes_as_tree(nodes: Nodes, own_ns: Int64Array, names: tuple[str, ...]) -> CallTree:
    """Sum up what is inside nodes."""
    parent, name, kind, depth, first = (each.astype(np.int64, copy=False) for each in nodes)
    total_ns = _totals(nodes, own_ns)
    filled = np.flatnonzero(total_ns > 0)
    by_parent = filled[np.argsort(parent[filled], kind="stable")]
    edges = np.append(0, np.cumsum(np.bincount(parent[filled] + 1, minlength=parent.size + 1)))
    return CallTree(parent, name, kind, depth, own_ns, total_ns, first, names, by_parent, edges)


def _with(nodes: Nodes, *columns: Column | list[int]) -> Nodes:
    if not len(columns[0]):
        return nodes
    added = zip(nodes, columns, strict=True)
    return Nodes(*(np.concatenate((one, np.asarray(other, np.int64))) for one, other in added))


def merged_nodes(calls: Calls, owners: Int64Array) -> tuple[Nodes, Int64Array, Int64Array]:
    """Nodes of the paths of some calls, the calls with those around them, and the node of each."""
    paths, places, node = paths_around(calls, owners)
    first = np.full(paths.parent.size, calls.kind.size)
    np.minimum.at(first, node, places)
    return Nodes(paths.parent, paths.name, paths.kind, paths.depth, first), places, node


def _totals(nodes: Nodes, own_ns: Int64Array) -> Int64Array:
    """Sums over each node and what is inside, from the innermost level outwards."""
    total = own_ns.copy()
    by_depth = np.argsort(nodes.depth, kind="stable")
    edges = np.concatenate(([0], np.cumsum(np.bincount(nodes.depth))))
    for begin, end in reversed([*pairwise(edges)][1:]):
        level = by_depth[begin:end]
        np.add.at(total, nodes.parent[level], total[level])
    return total
