"""The part of a tree of calls that can be seen: below a root, without what is too small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.flame.call_tree import KINDS, NO_KIND, CallTree, Order
from hta_widgets.arrays import Int64Array
from hta_widgets.errors import ParameterError
from hta_widgets.grouping import grouped

SMALLEST: Final = 0.001
"""Share of the root below which nodes side by side are one: less than a pixel of a wide screen."""

MOST_NODES: Final = 2_000
"""Nodes of calls; there may be as many again for the small ones inside each of them."""

ALL: Final = "(all)"

_SMALL: Final = -2

COLUMNS: Final = ("node", "parent", "name", "kind", "depth", "own_ns", "total_ns", "folded")


def folded(tree: CallTree, order: Order, root: Sequence[str]) -> pd.DataFrame:
    """The nodes of `Flame`.

    Raises
    ------
    ParameterError
        If the tree has no such root.
    """
    top = find(tree, root)
    whole_ns = int(tree.total_ns[top] if top >= 0 else tree.own_ns.sum())
    shown = _shown(tree, top, whole_ns)
    children = _children(tree, order, shown)
    small = _small(tree, np.append(top, shown), shown)
    rows = [(top, -1, 0, 0, 0)]
    waiting = [(top, 0, 0)]
    while waiting:
        place, node, depth = waiting.pop()
        for child in children.get(place, ()):
            waiting.append((child, len(rows), depth + 1))
            rows.append((child, node, depth + 1, 0, 0))
        if place in small:
            rows.append((_SMALL, node, depth + 1, *small[place]))
    return _table(tree, np.array(rows, dtype=np.int64), whole_ns)


def _children(tree: CallTree, order: Order, shown: Int64Array) -> dict[int, list[int]]:
    """The shown nodes inside each, in the order in which they are drawn."""
    rank = tree.rank_in_time[shown] if order == "time" else -tree.total_ns[shown]
    in_order = shown[np.lexsort((shown, rank))]
    children: dict[int, list[int]] = {}
    for child, parent in zip(in_order.tolist(), tree.parent[in_order].tolist(), strict=True):
        children.setdefault(parent, []).append(child)
    return children


def _small(tree: CallTree, parents: Int64Array, shown: Int64Array) -> dict[int, tuple[int, int]]:
    """Number of the nodes inside each of some that are not shown, and their time."""
    first, last = tree.edges[parents + 1], tree.edges[parents + 2]
    before_ns = np.append(0, np.cumsum(tree.total_ns[tree.by_parent]))
    count = last - first
    ns = before_ns[last] - before_ns[first]
    number = np.empty(tree.parent.size + 1, dtype=np.int64)
    number[parents] = np.arange(parents.size)
    around = number[tree.parent[shown]]
    np.subtract.at(count, around, 1)
    np.subtract.at(ns, around, tree.total_ns[shown])
    some = np.flatnonzero(count)
    columns = (parents[some].tolist(), count[some].tolist(), ns[some].tolist())
    return {place: (number, time_ns) for place, number, time_ns in zip(*columns, strict=True)}


def _table(tree: CallTree, rows: Int64Array, whole_ns: int) -> pd.DataFrame:
    """Columns of the nodes, given rows of place, parent, depth, and number and time of small ones.

    The place -1 is everything.
    """
    place, parent, depth, small, small_ns = rows.T
    is_node, last = place >= 0, tree.parent.size
    at = np.where(is_node, place, last)
    own_ns = np.where(small > 0, small_ns, np.append(tree.own_ns, 0)[at])
    total_ns = np.where(small > 0, small_ns, np.append(tree.total_ns, whole_ns)[at])
    names = [tree.names[code] for code in np.append(tree.name, 0)[at].tolist()]
    for row in np.flatnonzero(~is_node).tolist():
        names[row] = f"({small[row]} smaller)" if small[row] else ALL
    kinds = [KINDS[code] for code in np.append(tree.kind, NO_KIND)[at].tolist()]
    columns = (
        *(np.arange(place.size), parent, np.array(names, dtype=object)),
        *(np.array(kinds, dtype=object), depth, own_ns, total_ns, small),
    )
    return pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))


def no_nodes() -> pd.DataFrame:
    """A table of nodes without rows."""
    texts = ("name", "kind")
    types = {name: object if name in texts else np.int64 for name in COLUMNS}
    return pd.DataFrame({name: np.zeros(0, dtype=of) for name, of in types.items()})


def times_by_name(tree: CallTree, root: Sequence[str]) -> pd.DataFrame:
    """The names of `Flame`, of all nodes below the root, however small."""
    top = find(tree, root)
    below = np.ones(tree.parent.size, dtype=np.bool_)
    if top >= 0:
        below[:] = False
        level = np.array([top])
        while level.size:
            below[level] = True
            level = tree.inside_all(level)
    own = np.flatnonzero(below & (tree.own_ns > 0))
    groups = grouped(tree.name[own] * len(KINDS) + tree.kind[own])  # faster than two columns
    first = own[groups.first]
    names = [tree.names[code] for code in tree.name[first].tolist()]
    kinds = [KINDS[code] for code in tree.kind[first].tolist()]
    table = pd.DataFrame(
        {
            "name": pd.Series(names, dtype=object),
            "kind": pd.Series(kinds, dtype=object),
            "own_ns": groups.reduce(np.add, tree.own_ns[own]),
            "nodes": groups.sizes,
        }
    )
    return table.sort_values("own_ns", ascending=False, kind="stable", ignore_index=True)


def find(tree: CallTree, root: Sequence[str]) -> int:
    """The node at the end of a path of names, -1 for everything.

    Raises
    ------
    ParameterError
        If there is none.
    """
    place = -1
    for depth, name in enumerate(root):
        children = tree.inside(place).tolist()
        fitting = [each for each in children if tree.names[tree.name[each]] == name]
        if not fitting:
            around = " › ".join(root[:depth]) or "the outermost calls"
            msg = f"root must be a path of the flame graph: there is no {name!r} in {around}"
            raise ParameterError(msg)
        place = max(fitting, key=tree.total_ns.__getitem__)
    return place


def _shown(tree: CallTree, top: int, whole_ns: int) -> Int64Array:
    """The largest nodes below one; what is around a node is never smaller."""
    least_ns = SMALLEST * whole_ns
    level = np.array([top])
    levels = [level[:0]]
    while level.size:
        level = tree.inside_all(level)
        level = level[tree.total_ns[level] >= least_ns]
        levels.append(level)
    found = np.concatenate(levels)
    if found.size > MOST_NODES:
        found = found[np.lexsort((tree.depth[found], -tree.total_ns[found]))[:MOST_NODES]]
    return found
