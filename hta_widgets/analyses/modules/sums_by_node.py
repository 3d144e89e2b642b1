"""What belongs to each module of one rank and phase, in a part of its time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.idle_owners.sums import idle_by_call
from hta_widgets.analyses.modules import owned_costs
from hta_widgets.analyses.modules.hierarchy import hierarchy_nodes
from hta_widgets.analyses.modules.nodes import (
    Merge,
    ModuleNodes,
    Rows,
    Source,
    module_nodes,
    region_nodes,
)
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.collectives.exposure import exposed_times
from hta_widgets.analyses.time.counted import has_cpu_time, host_time, sums_at
from hta_widgets.analyses.time.cpu_time import own_cpu_time
from hta_widgets.analyses.time.excerpt import Excerpt, counted_work
from hta_widgets.analyses.time.modules import PHASES, phases
from hta_widgets.analyses.time.patterns import GRAPH_LAUNCH
from hta_widgets.grouping import distinct
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

UNKNOWN: Final = "unknown"
"""Phase of what belongs to no call: its launch, or what the CPU did, is not recorded."""

ROW_PHASES: Final = (*PHASES, UNKNOWN)
_UNKNOWN = len(PHASES)


class NodeSums:
    """Sums by node (the last row is for what is outside of all) and phase."""

    def __init__(self, rank: Rank, nodes: ModuleNodes) -> None:
        self._shape = (len(nodes.names) + 1, len(ROW_PHASES))
        phase = phases(rank) if nodes.phase is None else nodes.phase
        row = np.where(nodes.node < 0, len(nodes.names), nodes.node) * len(ROW_PHASES) + phase
        nobody = self._shape[0] * self._shape[1] - len(ROW_PHASES) + _UNKNOWN
        self._row = np.append(row, nobody)
        self._frames = nodes.frames
        self._frame_start_ns = calls_of(rank).start_ns[nodes.frames]

    def of(self, places: Rows, values: Rows) -> Rows:
        """Sum values of calls, given by place, -1 for none."""
        return self.over([(places, values)])

    def over(self, parts: Iterable[tuple[Rows, Rows]]) -> Rows:
        """Sum such values of several devices."""
        found = np.zeros(self._shape, dtype=np.int64)
        for places, values in parts:
            found += sums_at(self._row[places], values, found.size).reshape(self._shape)
        return found

    def entered(self, rank: Rank, excerpt: Excerpt | None) -> Rows:
        """Number of frames that begin in some time."""
        chosen = host_time(rank, excerpt).covers(self._frame_start_ns)
        frames = self._frames[chosen & has_cpu_time(rank)[self._frames]]
        return self.of(frames, np.ones(frames.size, dtype=np.int64))


class Sums(NamedTuple):
    """What belongs to the modules of a rank.

    Attributes
    ----------
    by_node : dict of str to ndarray of int64
        By column, a table of the nodes (the last row is for what is outside of all) and phases.
    in_graphs_ns : int
        Durations of GPU work that CUDA graphs run.
    """

    by_node: dict[str, Rows]
    in_graphs_ns: int


def sums_by_node(rank: Rank, excerpt: Excerpt | None, source: Source, merge: Merge) -> Sums:
    """Sums of a rank in some of its time."""
    sums, calls = rank.remember(node_sums, source, merge), calls_of(rank)
    work = [*counted_work(rank, excerpt).values()]
    launches = [calls.places_of(part.launch) for part in work]
    found = {
        "gpu_ns": sums.over(zip(launches, (part.duration_ns for part in work), strict=True)),
        "cpu_ns": sums.of(*own_cpu_time(rank, excerpt)),
        "calls": sums.entered(rank, excerpt),
        "exposed_communication_ns": sums.over(zip(launches, map(_exposed, work), strict=True)),
        "idle_ns": sums.of(*idle_by_call(rank, excerpt)),
        "flop": sums.over([owned_costs.flop(rank, excerpt)]),
        "bytes_allocated": sums.over(owned_costs.bytes_allocated(rank, excerpt)),
        "bytes_alive_at_peak": sums.over(owned_costs.bytes_alive_at_peak(rank, excerpt)),
    }
    return Sums(found, sum(_in_graphs(rank, part) for part in work))


def chosen_nodes(rank: Rank, source: Source, merge: Merge) -> tuple[ModuleNodes, str]:
    """The modules of a rank, or what stands in for them, and which of both it is."""
    if source != "regions":
        nodes = rank.remember(module_nodes, merge)
        if not nodes.names:
            nodes = rank.remember(hierarchy_nodes, merge)
        if source == "modules" or nodes.names:
            return nodes, "modules"
    return rank.remember(region_nodes, merge), "regions"


def node_sums(rank: Rank, source: Source, merge: Merge) -> NodeSums:
    """What sums up values of calls by node and phase."""
    return NodeSums(rank, chosen_nodes(rank, source, merge)[0])


def _exposed(work: GpuWork) -> Rows:
    """Time of each piece of work of a device that is communication and not hidden."""
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
    graphs = [code for code in used if GRAPH_LAUNCH.search(work.names[code])]
    in_graph = np.isin(codes, graphs) | (work.type[launched] == KernelType.CUDA_GRAPH)
    return int(work.duration_ns[launched[in_graph]].sum())
