"""The part of a tree of calls that can be seen: below a root, without what is too small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.flame.call_tree import KINDS, NO_KIND, CallTree, Order
from hta_widgets.errors import ParameterError
from hta_widgets.grouping import grouped

SMALLEST: Final = 0.001
"""Share of the root below which nodes side by side are one: less than a pixel of a wide screen."""

MOST_NODES: Final = 2_000
"""Nodes of calls; there may be as many again for the small ones inside each of them."""

ALL: Final = "(all)"

COLUMNS: Final = ("node", "parent", "name", "kind", "depth", "own_ns", "total_ns", "folded")


def folded(tree: CallTree, order: Order, root: Sequence[str]) -> pd.DataFrame:
    """The nodes of `Flame`.

    Raises
    ------
    ParameterError
        If the tree has no such root.
    """
    top = _find(tree, root)
    whole_ns = int(tree.total_ns[tree.parent < 0].sum()) if top < 0 else int(tree.total_ns[top])
    shown = _shown(tree, top, whole_ns)
    own_ns = 0 if top < 0 else int(tree.own_ns[top])
    name = tree.names[tree.name[top]] if top >= 0 else ALL
    kind = KINDS[int(tree.kind[top])] if top >= 0 else ""
    rows = [(0, -1, name, kind, 0, own_ns, whole_ns, 0)]
    waiting = [(top, 0, 0)]
    while waiting:
        place, node, depth = waiting.pop()
        children = tree.inside(place).tolist()
        kept = [each for each in children if each in shown]
        kept.sort(key=(tree.rank_in_time if order == "time" else -tree.total_ns).__getitem__)
        rest = [each for each in children if each not in shown]
        for child in kept:
            row = (len(rows), node, tree.names[tree.name[child]], KINDS[int(tree.kind[child])])
            rows.append((*row, depth + 1, int(tree.own_ns[child]), int(tree.total_ns[child]), 0))
            waiting.append((child, row[0], depth + 1))
        if rest:
            ns = int(tree.total_ns[rest].sum())
            row = (len(rows), node, f"({len(rest)} smaller)", KINDS[NO_KIND])
            rows.append((*row, depth + 1, ns, ns, len(rest)))
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.astype({"folded": np.int64})


def no_nodes() -> pd.DataFrame:
    """A table of nodes without rows."""
    numbers = [name for name in COLUMNS if name not in ("name", "kind")]
    return pd.DataFrame(columns=list(COLUMNS), dtype=object).astype(
        dict.fromkeys(numbers, np.int64)
    )


def times_by_name(tree: CallTree, root: Sequence[str]) -> pd.DataFrame:
    """The names of `Flame`, of all nodes below the root, however small."""
    top = _find(tree, root)
    below = np.ones(tree.parent.size, dtype=np.bool_)
    if top >= 0:
        below[:] = False
        level = np.array([top])
        while level.size:
            below[level] = True
            level = tree.inside_all(level)
    own = np.flatnonzero(below & (tree.own_ns > 0))
    groups = grouped(tree.name[own], tree.kind[own])
    first = own[groups.first]
    table = pd.DataFrame(
        {
            "name": pd.Series([tree.names[code] for code in tree.name[first]], dtype=object),
            "kind": pd.Series([KINDS[code] for code in tree.kind[first].tolist()], dtype=object),
            "own_ns": groups.reduce(np.add, tree.own_ns[own]),
            "nodes": groups.sizes,
        }
    )
    return table.sort_values("own_ns", ascending=False, kind="stable", ignore_index=True)


def _find(tree: CallTree, root: Sequence[str]) -> int:
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


def _shown(tree: CallTree, top: int, whole_ns: int) -> set[int]:
    """The largest nodes below one; what is around a node is never smaller."""
    least_ns = SMALLEST * whole_ns
    found: list[int] = []
    waiting = [top]
    while waiting:
        children = tree.inside(waiting.pop())
        large = children[tree.total_ns[children] >= least_ns].tolist()
        found += large
        waiting += large
    if len(found) > MOST_NODES:
        order = np.lexsort((tree.depth[found], -tree.total_ns[found]))
        found = np.array(found)[order[:MOST_NODES]].tolist()
    return set(found)
