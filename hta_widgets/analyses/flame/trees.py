"""The tree of calls of a rank that have some weight: merged by path, or runs in order of time."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.idle_owners.paths import by_place, paths_of, with_calls_around
from hta_widgets.analyses.idle_owners.sums import idle_by_call
from hta_widgets.analyses.memory_use.owners import owners_of
from hta_widgets.analyses.memory_use.recorded import CPU, recorded_memory
from hta_widgets.analyses.time.call_sums import own_cpu_time, with_inside
from hta_widgets.analyses.time.calls import Calls, at_or_around, calls_of
from hta_widgets.analyses.time.selection import TimeSelection, selected_work
from hta_widgets.arrays import Int64Array, IntArray, narrowed
from hta_widgets.grouping import counted_up, grouped, opens_run
from hta_widgets.trace.model.cut_forest import depths
from hta_widgets.trace.model.events import GPU_WORK, Kind
from hta_widgets.trace.model.nesting import NO_PARENT, places_of
from hta_widgets.trace.ranks.rank import Rank

Column = NDArray[np.integer[Any]]
Order: TypeAlias = Literal["merged", "time"]
NO_KIND: Final = -1
KINDS: Final = {kind.value: kind.name.lower() for kind in Kind} | {NO_KIND: ""}
Weight: TypeAlias = Literal["gpu", "cpu", "idle", "bytes"]

NO_WORK: Final = np.int64(-1)
"""Code of the work if the time is that of a call itself."""

NOBODY = {
    "gpu": "(launch not recorded)",
    "cpu": "(no CPU call recorded)",
    "idle": "(no CPU call recorded)",
    "bytes": "(no CPU call recorded)",
}
"""Name of the node for what belongs to no call, by weight."""


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
    number = places_of(kept, nodes.parent.size + 1)
    parent, *others = (column[kept] for column in nodes)
    return tree_of(
        calls_of(rank),
        Nodes(number[parent], *others),
        NodeWeights(number[node].astype(np.int64), work, ns, run),
        weights.nobody,
    )


def _paths(rank: Rank, weight: Weight) -> tuple[Nodes, IntArray]:
    """Nodes in which all calls with the same path of names are merged, at any time.

    Also returns the node of each call by place, -1 for other calls and for place -1.
    """
    paths, node = paths_of(calls_of(rank), calls_with_any(rank, weight))
    return Nodes(*paths), narrowed(node)


def _runs(rank: Rank, weight: Weight) -> tuple[Nodes, IntArray]:
    """The same for runs of neighbours with one name: level by level, in order of time."""
    calls = calls_of(rank)
    places = calls_with_any(rank, weight)
    position = places_of(places, calls.kind.size + 1)
    parent, name = position[calls.forest.parent[places]], calls.name[places]
    depth = depths(calls.forest.ends)[places]
    node = np.full(places.size + 1, NO_PARENT, dtype=np.int32)
    first, count = [places[:0]], 0
    for level in grouped(depth).parts:
        around = node[parent[level]] if count else calls.thread_of(places[level])
        opens = opens_run(around, name[level])
        node[level] = np.cumsum(opens, dtype=np.int32) + (count - 1)
        first.append(level[opens])
        count += first[-1].size
    at = np.concatenate(first)
    nodes = Nodes(node[parent[at]], name[at], calls.kind[places[at]], depth[at], places[at])
    return nodes, narrowed(by_place(calls, places, node[:-1]))


def _work_runs(rank: Rank) -> Int64Array:
    """Number of the run of GPU work that each event is in, -1 for those without time on a GPU.

    The work of one run of calls, or of no call, is a run as long as its name stays the same. Work
    is ordered by its start, whatever the device and the stream.
    """
    calls, (_, node_of_call) = calls_of(rank), rank.remember(_runs, "gpu")
    events, found = rank.trace.events, np.full(len(rank.trace.events), NO_PARENT)
    rows = events.rows_of(*GPU_WORK)
    rows = rows[events.duration_ns[rows] > 0]
    node = node_of_call[calls.places_of(rank.launches[rows].astype(np.int64))]
    order = np.argsort(node, kind="stable")
    rows, node, name = rows[order], node[order], events.name.codes[rows[order]]
    found[rows] = np.cumsum(opens_run(node, name))
    return found


class Weights(NamedTuple):
    """Pieces of time by the call that they belong to."""

    place: Int64Array
    """Place of the call, -1 for none."""
    work: Int64Array
    """Code of the name of the GPU work, -1 for time of the call itself."""
    ns: Int64Array
    nobody: str
    """Name of the node for what belongs to no call."""


class CallTree(NamedTuple):
    """Nodes with some time, in no particular order except that parents come before their nodes."""

    parent: Int64Array
    """Node around each node, -1 for outermost ones."""
    name: Int64Array
    """Position of its name in `names`."""
    kind: Int64Array
    """Value of `Kind`, `NO_KIND` for none."""
    depth: Int64Array
    """Number of nodes around it."""
    own_ns: Int64Array
    """Time without what is inside."""
    total_ns: Int64Array
    """Time with what is inside."""
    rank_in_time: Int64Array
    """Ascends with the start of the first call of each node."""
    names: tuple[str, ...]
    by_parent: Int64Array
    """The nodes with some time, sorted by their parent."""
    edges: Int64Array
    """``by_parent[edges[node + 1]:edges[node + 2]]`` are inside ``node``; -1 gives the outermost
    nodes."""

    def inside(self, node: int) -> Int64Array:
        """The nodes inside one; -1 gives the outermost nodes."""
        return self.by_parent[self.edges[node + 1] : self.edges[node + 2]]

    def inside_all(self, nodes: Int64Array) -> Int64Array:
        """The nodes inside several."""
        return np.asarray(self.by_parent[counted_up(self.edges[nodes + 1], self.edges[nodes + 2])])


class Nodes(NamedTuple):
    """Nodes before anything is summed up, as in `CallTree`; `first` is its `rank_in_time`."""

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
    """Number of the run of each piece of GPU work, in order of time. If not given, all work of one
    name in a node is merged."""


def call_tree(calls: Calls, weights: Weights) -> CallTree:
    """Put pieces of time into a tree that merges all calls with the same path of names."""
    kept = weights.ns > 0
    place, work, ns = (column[kept] for column in weights[:3])
    paths, node_of_call = paths_of(calls, place[place != NO_PARENT])
    node = node_of_call[place].astype(np.int64)
    return tree_of(calls, Nodes(*paths), NodeWeights(node, work, ns), weights.nobody)


def tree_of(calls: Calls, nodes: Nodes, weights: NodeWeights, nobody: str) -> CallTree:
    """Give nodes their time, and add nodes for the GPU work inside the nodes that launch it."""
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
    total_ns = with_inside(own_ns, parent, depth)
    filled = np.flatnonzero(total_ns > 0)
    by_parent = filled[np.argsort(parent[filled], kind="stable")]
    edges = np.append(0, np.cumsum(np.bincount(parent[filled] + 1, minlength=parent.size + 1)))
    return CallTree(parent, name, kind, depth, own_ns, total_ns, first, names, by_parent, edges)


def _with(nodes: Nodes, *columns: Column | list[int]) -> Nodes:
    if not len(columns[0]):
        return nodes
    added = zip(nodes, columns, strict=True)
    return Nodes(*(np.concatenate((one, np.asarray(other, np.int64))) for one, other in added))


def weights_of(rank: Rank, weight: Weight, selection: TimeSelection | None) -> Weights:
    """How much of a weight the calls of a rank have, in some of its time."""
    of = {"gpu": _gpu, "cpu": _cpu, "idle": _idle, "bytes": _bytes}[weight]
    return Weights(*of(rank, selection), NOBODY[weight])


def calls_with_any(rank: Rank, weight: Weight) -> Int64Array:
    """Places of the calls that may have some of a weight at any time, and of all calls around."""
    calls = calls_of(rank)
    if weight == "cpu":
        return np.arange(calls.kind.size)
    if weight == "gpu":
        launches = [rank.all_work(device).launch for device in rank.gpu_work.devices]
        places = calls.places_of(np.concatenate([rank.gpu_work.launch[:0], *launches]))
    else:
        places = weights_of(rank, weight, None).place
    return with_calls_around(calls, places)


def _gpu(rank: Rank, selection: TimeSelection | None) -> tuple[Int64Array, Int64Array, Int64Array]:
    calls = calls_of(rank)
    parts = [
        (calls.places_of(work.launch), work.name.astype(np.int64), work.duration_ns)
        for work in selected_work(rank, selection).values()
    ]
    place, name, ns = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return place, name, ns


def _cpu(rank: Rank, selection: TimeSelection | None) -> tuple[Int64Array, Int64Array, Int64Array]:
    own = own_cpu_time(rank, selection)
    return own.place, _no_work(own.place), own.ns


def _idle(rank: Rank, selection: TimeSelection | None) -> tuple[Int64Array, Int64Array, Int64Array]:
    place, ns = idle_by_call(rank, selection)
    return place, _no_work(place), ns


def _bytes(
    rank: Rank, selection: TimeSelection | None
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """GPU memory that calls allocate, or CPU memory if only that was recorded."""
    devices = recorded_memory(rank)
    chosen = [each for each in devices if each.device != CPU] or devices
    parts = [np.zeros((2, 0), dtype=np.int64)]
    for memory in chosen:
        opened = memory.bytes > 0
        if selection is not None:
            opened &= selection.asked_time(rank).covers(memory.time_ns)
        at = np.flatnonzero(opened)
        parts.append(np.stack((owners_of(rank, memory, at).call, memory.bytes[at])))
    place, size = np.concatenate(parts, axis=1)
    return place, _no_work(place), size


def _no_work(place: Int64Array) -> Int64Array:
    """Codes of no work, for time of the calls themselves, without taking memory."""
    return np.broadcast_to(NO_WORK, place.shape)
