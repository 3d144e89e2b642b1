"""Time, FLOP and memory that belong to each module of one rank, and to none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.communication.recorded import exposed_times
from hta_widgets.analyses.idle_owners.sums import idle_by_call
from hta_widgets.analyses.memory_use.owners import (
    Blocks,
    blocks_of,
    bytes_in_no_block,
    calls_around,
)
from hta_widgets.analyses.memory_use.recorded import DeviceMemory, recorded_memory
from hta_widgets.analyses.modules.nodes import (
    Merge,
    ModuleNodes,
    Source,
    module_nodes,
    region_nodes,
)
from hta_widgets.analyses.roofline.counted import counted_kernels
from hta_widgets.analyses.time.call_sums import has_cpu_time, host_time, own_cpu_time, sums_at
from hta_widgets.analyses.time.calls import calls_of, nearest_at_or_above
from hta_widgets.analyses.time.modules import COMPILED_MODULE, PHASES, forward_around, phases
from hta_widgets.analyses.time.patterns import GRAPH_LAUNCH
from hta_widgets.analyses.time.rows import Columns
from hta_widgets.analyses.time.selection import TimeSelection, selected_work
from hta_widgets.arrays import Int8Array, Int64Array, IntArray, Mask, narrowed
from hta_widgets.grouping import distinct, grouped
from hta_widgets.intervals import Times
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.model.events import TextColumn
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.trace.ranks.replayed_calls import GRAPH_CALL, with_replayed_calls

COSTS: Final = ("flop", "bytes_allocated", "bytes_alive_at_peak")
"""Columns for what modules compute and allocate."""

COLUMNS: Final = (
    *("rank", "path", "name", "depth", "calls", "phase", "gpu_self_ns", "gpu_total_ns"),
    *("cpu_total_ns", "exposed_communication_ns", "idle_ns", *COSTS),
)

OUTSIDE_COLUMNS: Final = (
    *("rank", "phase", "gpu_ns", "cpu_ns", "exposed_communication_ns", "idle_ns", *COSTS),
)

_CALLED: Final = re.compile(r"(?:^|\.)([^.()]+)\(([^()]*)\)::")
_OUTERMOST: Final = "TOP"
_SAME: Final = "SELF"
_FORWARD, _BACKWARD = PHASES.index("forward"), PHASES.index("backward")
Path = tuple[str, ...]

UNKNOWN: Final = "unknown"
"""Phase of what belongs to no call: its launch, or what the CPU did, is not recorded."""

ROW_PHASES: Final = (*PHASES, UNKNOWN)
_UNKNOWN = len(PHASES)


class RankModules(NamedTuple):
    """Columns of `ModuleTree` of one rank."""

    source: str
    """``modules`` or ``regions``."""
    modules: Columns
    outside: Columns
    in_graphs_ns: int
    """Durations of GPU work that CUDA graphs run."""
    frames_expected: bool
    """Whether the trace says that it has Python frames or modules."""
    is_compiled: bool
    """Whether torch.compile has merged modules."""
    has_shapes: bool
    """Whether shapes of operators are recorded."""
    has_memory: bool
    """Whether allocations on a GPU are recorded."""

    @property
    def has_modules(self) -> bool:
        """Whether anything belongs to any module."""
        return bool(self.modules["rank"].size)


def module_sums(
    rank: Rank, selection: TimeSelection | None, source: Source, merge: Merge
) -> RankModules:
    """Time, FLOP and memory of each module of a rank, in some of its time."""
    rank = with_replayed_calls(rank)
    nodes, said = chosen_nodes(rank, source, merge)
    sums, in_graphs_ns = sums_by_node(rank, selection, source, merge)
    gpu, cpu = sums.pop("gpu_ns"), sums.pop("cpu_ns")
    entered = sums.pop("calls")
    totals = nodes.totals(np.stack([gpu[:-1], cpu[:-1]], axis=1))
    columns = {
        "calls": entered[:-1],
        "gpu_self_ns": gpu[:-1],
        "gpu_total_ns": totals[:, 0],
        "cpu_total_ns": totals[:, 1],
        **{name: values[:-1] for name, values in sums.items()},
    }
    outside = {
        "gpu_ns": gpu[-1],
        "cpu_ns": cpu[-1],
        **{name: values[-1] for name, values in sums.items()},
    }
    return RankModules(
        source=said,
        modules=_module_columns(rank, nodes, columns),
        outside=_outside_columns(rank, outside),
        in_graphs_ns=in_graphs_ns,
        frames_expected=any(map(rank.trace.metadata.get, ("with_modules", "with_stack"))),
        is_compiled=bool(calls_of(rank).named(COMPILED_MODULE.search).any()),
        has_shapes=counted_kernels(rank).has_shapes,
        has_memory=bool(_gpu_memory(rank)),
    )


def _module_columns(rank: Rank, nodes: ModuleNodes, sums: dict[str, Int64Array]) -> Columns:
    node, phase = np.nonzero(np.any([values != 0 for values in sums.values()], axis=0))
    paths = nodes.paths()
    columns: Columns = {
        "rank": np.full(node.size, rank.trace.rank),
        "path": TextColumn.of(paths[each] for each in node.tolist()),
        "name": TextColumn.of(nodes.names[each] for each in node.tolist()),
        "depth": nodes.depth[node],
        "phase": TextColumn(phase, ROW_PHASES),
        **{name: values[node, phase] for name, values in sums.items()},
    }
    return {name: columns[name] for name in COLUMNS}


def _outside_columns(rank: Rank, sums: dict[str, Int64Array]) -> Columns:
    (phase,) = np.nonzero(np.any([values != 0 for values in sums.values()], axis=0))
    columns: Columns = {
        "rank": np.full(phase.size, rank.trace.rank),
        "phase": TextColumn(phase, ROW_PHASES),
        **{name: values[phase] for name, values in sums.items()},
    }
    return {name: columns[name] for name in OUTSIDE_COLUMNS}


def hierarchy_nodes(rank: Rank, merge: Merge) -> ModuleNodes:
    """Modules that operators name; none unless the trace says that it has such names."""
    at_operators, paths = _recorded(rank, merge)
    every = {path[:length] for path in paths for length in range(1, len(path) + 1)}
    ordered = sorted(every, key=lambda path: (len(path), path))
    number = {path: place for place, path in enumerate(ordered)} | {(): NO_PARENT}
    of_code = np.array([*(number[path] for path in paths), NO_PARENT], dtype=np.int64)
    own, node = _with_calls_inside(rank, of_code[at_operators])
    return ModuleNodes(
        parent=np.array([number[path[:-1]] for path in ordered], dtype=np.int64),
        depth=np.array([len(path) - 1 for path in ordered], dtype=np.int64),
        names=[path[-1] for path in ordered],
        frames=np.zeros(0, dtype=np.int64),
        node=node,
        phase=_phases(rank, own, node),
    )


def path_of(text: str, merge: Merge) -> Path:
    """Names of modules in a hierarchy; a module's call of its own method adds none.

    Examples
    --------
    >>> path_of("TOP(Net)::forward.SELF(Net)::run.conv1(Conv2d)::forward.", "instance")
    ('Net', 'conv1 (Conv2d)')
    >>> path_of("TOP(Net)::forward.conv1(Conv2d)::forward.", "class")
    ('Net', 'Conv2d')
    """
    found: list[str] = []
    for instance, of_class in _CALLED.findall(text):
        if instance == _SAME and found:
            continue
        is_named = merge == "instance" and instance not in (_OUTERMOST, _SAME)
        found.append(f"{instance} ({of_class})" if is_named else of_class)
    return tuple(found)


def _recorded(rank: Rank, merge: Merge) -> tuple[Int64Array, list[Path]]:
    """Code of the path of each call by place, -1 for none, and the paths."""
    calls = calls_of(rank)
    codes = np.full(calls.name.size, NO_PARENT, dtype=np.int64)
    if not rank.trace.metadata.get("with_modules"):
        return codes, []
    table = rank.details(DetailGroup.OPERATOR_INPUTS).table
    texts = table.columns.get("module_hierarchy")
    if not isinstance(texts, TextColumn):
        return codes, []
    paths = [path_of(text, merge) for text in texts.values]
    places = calls.places_of(table.rows)
    known = places != NO_PARENT
    codes[places[known]] = texts.codes[known]
    return codes, paths


def _with_calls_inside(rank: Rank, at_operators: Int64Array) -> tuple[IntArray, IntArray]:
    """Node of each call by the operators around it, and by those that it differentiates."""
    around = nearest_at_or_above(calls_of(rank).forest, at_operators != NO_PARENT)
    own = np.append(at_operators, NO_PARENT).astype(np.int32)[around]
    of_forward = np.append(own, NO_PARENT)[forward_around(rank)]
    return own, narrowed(np.where(own != NO_PARENT, own, of_forward))


def _phases(rank: Rank, own: IntArray, node: IntArray) -> Int8Array:
    """Phases of calls; those in modules are forward or backward."""
    found = phases(rank).copy()
    found[(own != NO_PARENT) & (found != _BACKWARD)] = _FORWARD
    found[(own == NO_PARENT) & (node != NO_PARENT)] = _BACKWARD
    return found


class NodeSums:
    """Sums by node and phase; the last row is for what is outside all modules."""

    def __init__(self, rank: Rank, nodes: ModuleNodes) -> None:
        self._shape = (len(nodes.names) + 1, len(ROW_PHASES))
        phase = phases(rank) if nodes.phase is None else nodes.phase
        node = nodes.node.astype(np.int64)
        row = np.where(node < 0, len(nodes.names), node) * len(ROW_PHASES) + phase
        nobody = self._shape[0] * self._shape[1] - len(ROW_PHASES) + _UNKNOWN
        self._row = narrowed(np.append(row, nobody))
        self._frames = nodes.frames
        self._frame_start_ns = calls_of(rank).start_ns[nodes.frames]

    def of(self, places: IntArray, values: Int64Array) -> Int64Array:
        """Sum values of calls, given by place; -1 stands for no call."""
        return self.over([(places, values)])

    def over(self, parts: Iterable[tuple[IntArray, Int64Array]]) -> Int64Array:
        """Sum such values over several devices."""
        found = np.zeros(self._shape, dtype=np.int64)
        for places, values in parts:
            found += sums_at(self._row[places], values, found.size).reshape(self._shape)
        return found

    def entered(self, rank: Rank, selection: TimeSelection | None) -> Int64Array:
        """Number of frames that start in the selected time."""
        chosen = host_time(rank, selection).covers(self._frame_start_ns)
        frames = self._frames[chosen & has_cpu_time(rank)[self._frames]]
        return self.of(frames, np.ones(frames.size, dtype=np.int64))


def sums_by_node(
    rank: Rank, selection: TimeSelection | None, source: Source, merge: Merge
) -> tuple[dict[str, Int64Array], int]:
    """For each column, a table by node and phase; the last row is for what is outside all.

    Also returns the durations of GPU work that CUDA graphs run.
    """
    sums, calls = rank.remember(node_sums, source, merge), calls_of(rank)
    work = [*selected_work(rank, selection).values()]
    launches = [calls.places_of(part.launch) for part in work]
    found = {
        "gpu_ns": sums.over(zip(launches, (part.duration_ns for part in work), strict=True)),
        "cpu_ns": sums.of(*own_cpu_time(rank, selection)),
        "calls": sums.entered(rank, selection),
        "exposed_communication_ns": sums.over(zip(launches, map(_exposed, work), strict=True)),
        "idle_ns": sums.of(*idle_by_call(rank, selection)),
        "flop": sums.over([flop(rank, selection)]),
        "bytes_allocated": sums.over(bytes_allocated(rank, selection)),
        "bytes_alive_at_peak": sums.over(bytes_alive_at_peak(rank, selection)),
    }
    return found, sum(_in_graphs(rank, part) for part in work)


def chosen_nodes(rank: Rank, source: Source, merge: Merge) -> tuple[ModuleNodes, str]:
    """The modules of a rank, or what stands in for them, and which of the two it is."""
    if source != "regions":
        nodes = rank.remember(module_nodes, merge)
        if not nodes.names:
            nodes = rank.remember(hierarchy_nodes, merge)
        if source == "modules" or nodes.names:
            return nodes, "modules"
    return rank.remember(region_nodes, merge), "regions"


def node_sums(rank: Rank, source: Source, merge: Merge) -> NodeSums:
    """Sums of the values of calls by node and phase."""
    return NodeSums(rank, chosen_nodes(rank, source, merge)[0])


def _exposed(work: GpuWork) -> Int64Array:
    """Time in which each piece of work of a device is communication that is not hidden."""
    exposed_ns = np.zeros(len(work), dtype=np.int64)
    talking = np.flatnonzero(work.type == KernelType.COMMUNICATION)
    talking = talking[np.argsort(work.start_ns[talking], kind="stable")]
    busy = work.busy_by_type
    hidden = busy[KernelType.COMPUTATION] | busy[KernelType.CUDA_GRAPH]
    exposed_ns[talking] = exposed_times(work.start_ns[talking], work.end_ns[talking], hidden)
    return exposed_ns


def _in_graphs(rank: Rank, work: GpuWork) -> int:
    launched = np.flatnonzero(work.launch >= 0)
    codes = rank.trace.events.name.codes[work.launch[launched]]
    used = distinct(codes).tolist()
    graphs = [
        code
        for code in used
        if GRAPH_LAUNCH.search(work.names[code]) or GRAPH_CALL.fullmatch(work.names[code])
    ]
    in_graph = np.isin(codes, graphs) | (work.type[launched] == KernelType.CUDA_GRAPH)
    return int(work.duration_ns[launched[in_graph]].sum())


class ByCall(NamedTuple):
    """Amounts by the place of the call that they belong to, -1 for none."""

    place: IntArray
    amount: Int64Array


class _Memory(NamedTuple):
    """Memory of one GPU, with the call that each event belongs to."""

    events: DeviceMemory
    blocks: Blocks
    call: Int64Array


def flop(rank: Rank, selection: TimeSelection | None) -> ByCall:
    """FLOP of each operator for which the roofline counts them, if it starts in the selection."""
    place, amount, start_ns = rank.remember(_flop)
    inside = _inside(rank, selection, start_ns)
    return ByCall(place[inside], amount[inside])


def bytes_allocated(rank: Rank, selection: TimeSelection | None) -> list[ByCall]:
    """Size of each allocation on each GPU."""
    found = []
    for memory in _gpu_memory(rank):
        inside = _inside(rank, selection, memory.events.time_ns) & (memory.events.bytes > 0)
        found.append(ByCall(memory.call[inside], memory.events.bytes[inside]))
    return found


def bytes_alive_at_peak(rank: Rank, selection: TimeSelection | None) -> list[ByCall]:
    """What is allocated on each GPU at its peak; memory in no block has no owner."""
    found = []
    for events, blocks, call in _gpu_memory(rank):
        inside = np.flatnonzero(_inside(rank, selection, events.time_ns))
        if not inside.size:
            continue
        peak = int(inside[events.allocated[inside].argmax()])
        alive = blocks.alive_at(peak)
        found.append(
            ByCall(
                np.append(call[blocks.opened[alive]], NO_PARENT),
                np.append(blocks.bytes[alive], bytes_in_no_block(events, blocks, peak)),
            )
        )
    return found


def _flop(rank: Rank) -> tuple[IntArray, Int64Array, Times]:
    """Place, FLOP and start of each operator, once for each device."""
    kernels = counted_kernels(rank)
    counted = np.flatnonzero(kernels.cost >= 0)
    each = counted[grouped(kernels.device[counted], kernels.place[counted]).first]
    of_cost = np.array([cost.flop for cost in kernels.costs], dtype=np.int64)
    place = kernels.place[each]
    return place, of_cost[kernels.cost[each]], calls_of(rank).start_ns[place]


@asked_once
def _gpu_memory(rank: Rank) -> tuple[_Memory, ...]:
    calls = calls_of(rank)
    return tuple(
        _Memory(each, blocks_of(each), calls_around(calls, each, np.arange(each.bytes.size)))
        for each in recorded_memory(rank)
        if not each.is_of_cpu
    )


def _inside(rank: Rank, selection: TimeSelection | None, time_ns: Times) -> Mask:
    if selection is None:
        return np.ones(time_ns.size, dtype=np.bool_)
    return selection.holds(rank, time_ns)
