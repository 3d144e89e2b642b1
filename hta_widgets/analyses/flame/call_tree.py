"""The call paths of one rank with some time on each: names are merged, or runs kept in order."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.idle_owners.paths import paths_around
from hta_widgets.analyses.time.calls import Calls
from hta_widgets.grouping import grouped
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.nesting import NO_PARENT

Rows = NDArray[np.int64]

Order: TypeAlias = Literal["merged", "time"]

NO_KIND: Final = -1
KINDS: Final = {kind.value: kind.name.lower() for kind in Kind} | {NO_KIND: ""}


class Weights(NamedTuple):
    """Pieces of time by the call that they belong to.

    Attributes
    ----------
    place : ndarray of int64
        Of the call, -1 for none.
    work : ndarray of int64
        Code of the name of the GPU work, -1 for time of the call itself.
    ns : ndarray of int64
    nobody : str
        Name of the node for what belongs to no call.
    """

    place: Rows
    work: Rows
    ns: Rows
    nobody: str


class LeftOut(NamedTuple):
    """Nodes that are not in a tree, by that which they are in; the last values are of none.

    Attributes
    ----------
    nodes : ndarray of int64
        How many.
    ns : ndarray of int64
        Time of these, with what is inside them.
    """

    nodes: Rows
    ns: Rows

    @classmethod
    def nothing(cls, size: int) -> LeftOut:
        """Of a whole tree of so many nodes."""
        return cls(np.zeros(size + 1, dtype=np.int64), np.zeros(size + 1, dtype=np.int64))

    def of_more(self, size: int) -> LeftOut:
        """The same of a tree to which nodes were added."""
        every = self.nothing(size)
        for ours, column in zip(every, self, strict=True):
            ours[: column.size - 1] = column[:-1]
            ours[-1] = column[-1]
        return every


class CallTree(NamedTuple):
    """Nodes with some time, in no particular order but parents before what is inside.

    Attributes
    ----------
    parent : ndarray of int64
        Node around each, -1 for outermost ones.
    name : ndarray of int64
        Position in `names`.
    kind : ndarray of int64
        Value of `Kind`, `NO_KIND` for none.
    depth : ndarray of int64
        Number of nodes around each.
    own_ns, total_ns : ndarray of int64
        Without and with what is inside.
    rank_in_time : ndarray of int64
        Ascends with the first call of each node.
    names : tuple of str
    by_parent : ndarray of int64
        The nodes with some time, by their parent.
    edges : ndarray of int64
        ``by_parent[edges[node + 1]:edges[node + 2]]`` are inside a node, -1 for the outermost.
    left_out : LeftOut
    """

    parent: Rows
    name: Rows
    kind: Rows
    depth: Rows
    own_ns: Rows
    total_ns: Rows
    rank_in_time: Rows
    names: tuple[str, ...]
    by_parent: Rows
    edges: Rows
    left_out: LeftOut

    def inside(self, node: int) -> Rows:
        """The nodes inside one, -1 for the outermost."""
        return self.by_parent[self.edges[node + 1] : self.edges[node + 2]]

    def inside_all(self, nodes: Rows) -> Rows:
        """The nodes inside several."""
        first = self.edges[nodes + 1]
        count = self.edges[nodes + 2] - first
        before = np.cumsum(count) - count
        places = np.repeat(first - before, count) + np.arange(count.sum())
        return np.asarray(self.by_parent[places])


class Nodes(NamedTuple):
    """Nodes before anything is summed up; columns as in `CallTree`, `first` as `rank_in_time`."""

    parent: Rows
    name: Rows
    kind: Rows
    depth: Rows
    first: Rows


class NodeWeights(NamedTuple):
    """Pieces of time by the node that they belong to, -1 for none; `work` as in `Weights`.

    Attributes
    ----------
    run : ndarray of int64, optional
        In order of time: number of the run of each piece of GPU work. All work of one name in a
        node is one where it is not given.
    """

    node: Rows
    work: Rows
    ns: Rows
    run: Rows | None = None


def call_tree(calls: Calls, weights: Weights) -> CallTree:
    """Put pieces of time into a tree in which all calls with the same path of names are one."""
    kept = weights.ns > 0
    place, work, ns = (column[kept] for column in weights[:3])
    nodes, places, node_at = merged_nodes(calls, place[place != NO_PARENT])
    at = np.where(place == NO_PARENT, places.size, np.searchsorted(places, place))
    node = np.append(node_at, NO_PARENT)[at]
    return tree_of(calls, nodes, NodeWeights(node, work, ns), weights.nobody)


def tree_of(
    calls: Calls,
    nodes: Nodes,
    weights: NodeWeights,
    nobody: str,
    left_out: LeftOut | None = None,
) -> CallTree:
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
    return nodes_as_tree(every, own_ns, names, left_out)


def nodes_as_tree(
    nodes: Nodes, own_ns: Rows, names: tuple[str, ...], left_out: LeftOut | None = None
) -> CallTree:
    """Sum up what is inside nodes."""
    left_out = (left_out or LeftOut.nothing(0)).of_more(own_ns.size)
    total_ns = _totals(nodes, own_ns + left_out.ns[:-1])
    filled = np.flatnonzero(total_ns > 0)
    by_parent = filled[np.argsort(nodes.parent[filled], kind="stable")]
    edges = np.searchsorted(nodes.parent[by_parent], np.arange(-1, nodes.parent.size + 1))
    columns = (*nodes[:4], own_ns, total_ns, nodes.first)
    return CallTree(*columns, names, by_parent, edges, left_out)


def _with(nodes: Nodes, *columns: Rows | list[int]) -> Nodes:
    added = zip(nodes, columns, strict=True)
    return Nodes(*(np.concatenate((one, np.asarray(other, np.int64))) for one, other in added))


def merged_nodes(calls: Calls, owners: Rows) -> tuple[Nodes, Rows, Rows]:
    """Nodes of the paths of some calls, the calls with those around them, and the node of each."""
    paths, places, node = paths_around(calls, owners)
    first = np.full(paths.parent.size, calls.kind.size)
    np.minimum.at(first, node, places)
    kind = paths.kind.astype(np.int64)
    return Nodes(paths.parent, paths.name, kind, paths.depth, first), places, node


def _totals(nodes: Nodes, own_ns: Rows) -> Rows:
    """Sums over each node and what is inside, from the innermost level outwards."""
    total = own_ns.copy()
    by_depth = np.argsort(nodes.depth, kind="stable")
    edges = np.concatenate(([0], np.cumsum(np.bincount(nodes.depth))))
    for begin, end in reversed([*pairwise(edges)][1:]):
        level = by_depth[begin:end]
        np.add.at(total, nodes.parent[level], total[level])
    return total
