"""All calls of one name as one: what calls them, and what they call."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hta_widgets.analyses.flame.call_tree import CallTree, Nodes, nodes_as_tree
from hta_widgets.arrays import Int64Array
from hta_widgets.errors import ParameterError
from hta_widgets.grouping import grouped
from hta_widgets.trace.model.nesting import NO_PARENT


class Sandwich(NamedTuple):
    """Two trees with one outermost node of the same name and total."""

    callees: CallTree
    """What the calls of the name call, merged by path from the name on."""
    callers: CallTree
    """What calls them, merged by path from the name outwards: inside a node is what calls it. The
    own part of a node is that of the paths that begin there."""


def sandwich_of(tree: CallTree, name: str) -> Sandwich:
    """Put the calls of a name together, those inside others of that name with these.

    Raises
    ------
    ParameterError
        If the tree has no such name.
    """
    found = _outermost(tree, name)
    if not found.size:
        msg = f"sandwich must be a name of the flame graph, got {name!r}"
        raise ParameterError(msg)
    inside = _levels(tree, found, tree.own_ns, lambda nodes: _inside(tree, nodes))
    around = _levels(tree, found, tree.total_ns, lambda nodes: _around(tree, nodes))
    return Sandwich(inside, around)


def _outermost(tree: CallTree, name: str) -> Int64Array:
    """The nodes of a name that are inside no other of it, and have some time."""
    if name not in tree.names:
        return np.zeros(0, dtype=np.int64)
    codes = np.flatnonzero([each == name for each in tree.names])
    alike = np.isin(tree.name, codes)
    nodes = np.flatnonzero(alike & (tree.total_ns > 0))
    outermost, above = np.ones(nodes.size, dtype=np.bool_), tree.parent[nodes]
    while (above != NO_PARENT).any():
        outermost &= ~((above != NO_PARENT) & alike[above])
        above = np.where(above == NO_PARENT, NO_PARENT, tree.parent[above])
    return nodes[outermost]


Step = Callable[[Int64Array], tuple[Int64Array, Int64Array]]


def _inside(tree: CallTree, nodes: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Nodes one level further in, and the place of that which each is in."""
    counts = tree.edges[nodes + 2] - tree.edges[nodes + 1]
    return tree.inside_all(nodes), np.repeat(np.arange(nodes.size), counts)


def _around(tree: CallTree, nodes: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Nodes one level further out, and the place of that which each is around."""
    above = tree.parent[nodes]
    of = np.flatnonzero(above != NO_PARENT)
    return above[of], of


def _levels(tree: CallTree, found: Int64Array, amount: Int64Array, step: Step) -> CallTree:
    """Merge nodes with one path from the outermost ones on, level by level.

    Going inwards, each node adds its own amount. Going outwards, those first found carry theirs
    with them, and it stays where there is nothing further out.
    """
    outwards = amount is tree.total_ns
    nodes, carried = found, amount[found]
    group, count = np.zeros(found.size, dtype=np.int64), 1
    columns = [_level(tree, nodes[:1], np.full(1, NO_PARENT), 0)]
    own: list[Int64Array] = []
    while nodes.size:
        further, of = step(nodes)
        stays = np.ones(nodes.size, dtype=np.bool_)
        if outwards:
            stays[of] = False
        own.append(_sums(group[stays], carried[stays], count))
        alike = grouped(group[of], tree.name[further])
        first = alike.order[alike.edges[:-1]] if further.size else further
        offset = sum(level[0].size for level in columns)
        before = offset - count
        columns.append(_level(tree, further[first], group[of][first] + before, len(columns)))
        group = alike.of_rows
        carried = carried[of] if outwards else amount[further]
        nodes, count = further, alike.sizes.size
    merged = Nodes(*map(np.concatenate, zip(*columns, strict=True)))
    return nodes_as_tree(merged, np.concatenate(own), tree.names)


def _level(tree: CallTree, nodes: Int64Array, parent: Int64Array, depth: int) -> Nodes:
    depths = np.full(nodes.size, depth)
    return Nodes(parent, tree.name[nodes], tree.kind[nodes], depths, tree.rank_in_time[nodes])


def _sums(group: Int64Array, amount: Int64Array, count: int) -> Int64Array:
    total = np.zeros(count, dtype=np.int64)
    np.add.at(total, group, amount)
    return total
