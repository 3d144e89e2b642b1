"""Time of one rank by call path, as a flame graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, get_args

import numpy as np
import pandas as pd

from hta_widgets.analyses.flame.trees import (
    KINDS,
    NO_KIND,
    CallTree,
    Nodes,
    Order,
    Weight,
    nodes_as_tree,
    weighted_tree,
)
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.call_sums import sums_at
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.rows import largest_first
from hta_widgets.analyses.time.selection import TimeSelection
from hta_widgets.arrays import Int64Array
from hta_widgets.errors import ParameterError, check_choice
from hta_widgets.grouping import grouped
from hta_widgets.quantities import data_size, duration
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.rank import Rank

_WHAT: Final = {
    "gpu": "of GPU work",
    "cpu": "of CPU time",
    "idle": "of idle GPU time",
    "bytes": "allocated in total",
}

_NO_STACKS: Final = (
    "no Python frames were recorded; with_stack=True shows the code around operators"
)

_IN_BYTES: Final = {"own_ns": "own_bytes", "total_ns": "total_bytes"}

SMALLEST: Final = 0.001
"""Share of the root below which sibling nodes are merged: less than a pixel of a wide screen."""

MOST_NODES: Final = 2_000
"""Most nodes of calls; there may be as many again for the small nodes inside each of them."""

ALL: Final = "(all)"
_SMALL: Final = -2
COLUMNS: Final = ("node", "parent", "name", "kind", "depth", "own_ns", "total_ns", "folded")
Step = Callable[[Int64Array], tuple[Int64Array, Int64Array]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Flame(Result):
    """Time or memory of one rank by call path.

    For memory, the columns are ``own_bytes`` and ``total_bytes`` instead of ``own_ns`` and
    ``total_ns``.

    Attributes
    ----------
    nodes : DataFrame
        One row per node, the root first, each after its parent: ``node``, ``parent`` (-1 for the
        root), ``name``, ``kind`` (of the call; ``kernel`` for GPU work; empty for other nodes),
        ``depth`` (0 for the root), ``own_ns``, ``total_ns`` (without and with what is inside),
        ``folded`` (number of small nodes that this one stands for, 0 for others). Sibling nodes
        are in the order in which they are drawn.
    names : DataFrame
        Time of all calls of a name below the root, including small nodes, longest first: ``name``,
        ``kind``, ``own_ns``, ``nodes`` (number of paths, or of runs).
    callers : DataFrame
        What calls `sandwich`, with the columns of `nodes`; the callers of a node are inside it.
        Empty without a sandwich, or if the root is below it.
    sandwich : str
        Name whose calls are one node, the outermost; empty for none.
    root : tuple of str
        Names from the outermost call to the root; empty if the root is everything.
    total_ns, total_bytes : int
        Total of everything, whatever the root; 0 for the quantity that is not shown.
    """

    nodes: pd.DataFrame
    names: pd.DataFrame
    callers: pd.DataFrame
    sandwich: str
    root: tuple[str, ...]
    total_ns: int
    total_bytes: int

    @property
    def unit(self) -> str:
        """Unit of the width of boxes, as columns end: ``ns`` or ``bytes``."""
        return "bytes" if "own_bytes" in self.names else "ns"


def flame(
    job: Job,
    rank: int,
    *,
    weight: Weight = "gpu",
    order: Order = "merged",
    root: Sequence[str] | None = None,
    sandwich: str = "",
    steps: Iterable[int] | None = None,
    window_ns: Sequence[int] | None = None,
) -> Flame:
    """Sum up time or memory of one rank by call path.

    Parameters
    ----------
    weight : {"gpu", "cpu", "idle", "bytes"}
        Durations of the GPU work that each path launches, CPU time, idle time of the GPU by its
        owner (see `idle_owners`), or bytes of GPU memory that it allocates, freed or not (CPU
        memory if no other was recorded).
    order : {"merged", "time"}
        Merge all calls with the same path of names into one node, or only neighbours, in order of
        time: those with nothing between them that has any weight at any time.
    root : sequence of str, optional
        Names from an outermost call to the node to show; everything when not given or empty.
    sandwich : str
        Show all calls of this name as one, merged, with their callers; a root then starts with it.
    steps : iterable of int, optional
        Only these ProfilerSteps; all that are analysed when not given or empty.
    window_ns : pair of int, optional
        Only the time between these two, in ns since the first event of all ranks.
    """
    check_choice("weight", weight, get_args(Weight))
    check_choice("order", order, get_args(Order))
    chosen = select_ranks(job, [rank])
    selection = TimeSelection.of(job, chosen, steps=steps, window_ns=window_ns)
    path = tuple(root or ())
    if sandwich:
        order, path = "merged", path or (sandwich,)
    nodes, names, callers, total, has_frames = job.reduce(
        _nodes, chosen, weight, order, selection, root=path, sandwich=sandwich
    )[rank]
    of_memory = weight == "bytes"
    said = data_size(total) if of_memory else duration(total)
    return Flame(
        nodes=nodes.rename(columns=_IN_BYTES) if of_memory else nodes,
        names=names.rename(columns=_IN_BYTES) if of_memory else names,
        callers=callers.rename(columns=_IN_BYTES) if of_memory else callers,
        sandwich=sandwich,
        root=path,
        total_ns=0 if of_memory else total,
        total_bytes=total if of_memory else 0,
        finding=f"{said} {_WHAT[weight]} on rank {rank}." if total else "",
        notices=(
            *job.notices_for(chosen, Recorded.OPERATORS),
            *(job.lacking(chosen, Recorded.MEMORY) if of_memory else ()),
            *(() if has_frames or job.sources[rank].format.lacks else (_NO_STACKS,)),
        ),
    )


def collapsed_stacks(
    job: Job,
    rank: int,
    *,
    weight: Weight = "gpu",
    steps: Iterable[int] | None = None,
    window_ns: Sequence[int] | None = None,
) -> str:
    """All paths as text for other flame graph tools, one per line: ``outer;inner 1234``.

    The numbers are ns or bytes. The parameters are those of `flame`.

    Examples
    --------
    >>> print(collapsed_stacks(job, 0))  # doctest: +SKIP
    train.py(8): main;aten::mm;cudaLaunchKernel;gemm 51200
    """
    check_choice("weight", weight, get_args(Weight))
    chosen = select_ranks(job, [rank])
    selection = TimeSelection.of(job, chosen, steps=steps, window_ns=window_ns)
    return job.reduce(_collapsed, chosen, weight, selection)[rank]


def _nodes(
    rank: Rank,
    weight: Weight,
    order: Order,
    selection: TimeSelection | None,
    *,
    root: tuple[str, ...],
    sandwich: str,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, int, bool]:
    has_frames = calls_of(rank).has_frames
    tree = weighted_tree(rank, weight, order, selection)
    total = int(tree.own_ns.sum())
    if not sandwich:
        return folded(tree, order, root), times_by_name(tree, root), no_nodes(), total, has_frames
    callees, callers_of = sandwich_of(tree, sandwich)
    callers = folded(callers_of, order, (sandwich,)) if len(root) == 1 else no_nodes()
    nodes, names = folded(callees, order, root), times_by_name(callees, root)
    return nodes, names, callers, total, has_frames


def _collapsed(rank: Rank, weight: Weight, selection: TimeSelection | None) -> str:
    tree = weighted_tree(rank, weight, "merged", selection)
    texts = [" ".join(name.replace(";", ",").split()) for name in tree.names]
    paths: list[str] = []
    lines: list[str] = []
    columns = (tree.parent.tolist(), tree.name.tolist(), tree.own_ns.tolist())
    for parent, name, own_ns in zip(*columns, strict=True):
        paths.append(texts[name] if parent < 0 else f"{paths[parent]};{texts[name]}")
        if own_ns:
            lines.append(f"{paths[-1]} {own_ns}")
    return "\n".join(sorted(lines)) + "\n" * bool(lines)


def folded(tree: CallTree, order: Order, root: Sequence[str]) -> pd.DataFrame:
    """The nodes of `Flame`; `ParameterError` if the tree has no such root."""
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
    """For some nodes, the number of nodes inside that are not shown, and their time."""
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
    """Columns of the nodes, given rows of place, parent, depth, and number and time of small nodes.

    The place -1 stands for everything.
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
    return largest_first(table, "own_ns")


def find(tree: CallTree, root: Sequence[str]) -> int:
    """The node at the end of a path of names, -1 for everything; `ParameterError` if none is."""
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
    """The largest nodes below one; a node is never larger than the one around it."""
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


def sandwich_of(tree: CallTree, name: str) -> tuple[CallTree, CallTree]:
    """Merge the calls of a name; calls inside others of the same name count as part of these.

    One tree has what the calls of the name call, merged by path from the name on; the other what
    calls them, merged by path from the name outwards: the callers of a node are inside it, and its
    own part is that of the paths that start there. `ParameterError` if the tree has no such name.
    """
    found = _outermost(tree, name)
    if not found.size:
        msg = f"sandwich must be a name of the flame graph, got {name!r}"
        raise ParameterError(msg)
    inside = _levels(tree, found, tree.own_ns, lambda nodes: _inside(tree, nodes))
    around = _levels(tree, found, tree.total_ns, lambda nodes: _around(tree, nodes))
    return inside, around


def _outermost(tree: CallTree, name: str) -> Int64Array:
    """The nodes of a name that are inside no other node of that name, and have some time."""
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


def _inside(tree: CallTree, nodes: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Nodes one level further in, and for each the place of the node that it is in."""
    counts = tree.edges[nodes + 2] - tree.edges[nodes + 1]
    return tree.inside_all(nodes), np.repeat(np.arange(nodes.size), counts)


def _around(tree: CallTree, nodes: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Nodes one level further out, and for each the place of the node that it is around."""
    above = tree.parent[nodes]
    of = np.flatnonzero(above != NO_PARENT)
    return above[of], of


def _levels(tree: CallTree, found: Int64Array, amount: Int64Array, step: Step) -> CallTree:
    """Merge nodes with the same path, level by level, starting at the outermost ones.

    Going inwards, each node adds its own amount. Going outwards, the first nodes carry their amount
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
        own.append(sums_at(group[stays], carried[stays], count))
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
