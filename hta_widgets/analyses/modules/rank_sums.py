"""What belongs to each module of one rank, and what to none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.idle_owners.idle_by_call import idle_by_call
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
from hta_widgets.analyses.shared.attribution.blocks import sums_of_parts
from hta_widgets.analyses.shared.attribution.calls import calls_of
from hta_widgets.analyses.shared.attribution.counted import host_time
from hta_widgets.analyses.shared.attribution.cpu_time import own_cpu_time
from hta_widgets.analyses.shared.attribution.modules import PHASES, phases
from hta_widgets.analyses.shared.attribution.patterns import GRAPH_LAUNCH
from hta_widgets.analyses.shared.collectives.exposure import exposed_times
from hta_widgets.analyses.shared.excerpt import Excerpt, counted_work
from hta_widgets.grouping import distinct
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

UNKNOWN: Final = "unknown"
"""Phase of what belongs to no call: its launch, or what the CPU did, is not recorded."""

ROW_PHASES: Final = (*PHASES, UNKNOWN)
_UNKNOWN = len(PHASES)

COSTS: Final = ("flop", "bytes_allocated", "bytes_alive_at_peak")
"""Columns of what modules compute and allocate."""

COLUMNS: Final = (
    *("rank", "path", "name", "depth", "calls", "phase", "gpu_self_ns", "gpu_total_ns"),
    *("cpu_total_ns", "exposed_communication_ns", "idle_ns", *COSTS),
)
_SUMMED: Final = (
    *("gpu_ns", "cpu_ns", "calls", "exposed_communication_ns", "idle_ns", *COSTS[:2]),
)
OUTSIDE_COLUMNS: Final = (
    *("rank", "phase", "gpu_ns", "cpu_ns", "exposed_communication_ns", "idle_ns", *COSTS),
)


class RankModules(NamedTuple):
    """Tables of `ModuleTree` of one rank.

    Attributes
    ----------
    source : str
        ``modules`` or ``regions``.
    modules, outside : DataFrame
    in_graphs_ns : int
        Durations of GPU work that CUDA graphs run.
    frames_expected : bool
        Whether the trace says that it has Python frames or modules.
    has_shapes, has_memory : bool
        Whether shapes of operators and allocations on a GPU are recorded.
    """

    source: str
    modules: pd.DataFrame
    outside: pd.DataFrame
    in_graphs_ns: int
    frames_expected: bool
    has_shapes: bool
    has_memory: bool


class _SparseSums(NamedTuple):
    """Sums of a part of the time, of which most nodes may have none.

    Attributes
    ----------
    place : ndarray of int64
        Of the sums in a table by node and phase.
    values : ndarray of int64
        A row for each of `_SUMMED`.
    in_graphs_ns : int
    """

    place: Rows
    values: Rows
    in_graphs_ns: int

    @classmethod
    def of(cls, sums: list[Rows], in_graphs_ns: int) -> _SparseSums:
        """Keep what is not 0."""
        every = np.stack([each.ravel() for each in sums])
        place = np.flatnonzero(every.any(axis=0))
        return cls(place, every[:, place], in_graphs_ns)


def _dense(parts: list[_SparseSums], nodes: ModuleNodes) -> Rows:
    """Sums of all parts, each of `_SUMMED` a table by node and phase."""
    found = np.zeros((len(_SUMMED), (len(nodes.names) + 1) * len(ROW_PHASES)), dtype=np.int64)
    for part in parts:
        found[:, part.place] += part.values
    return found.reshape(len(_SUMMED), -1, len(ROW_PHASES))


class _Sums:
    """Sums by node (the last row is for what is outside of all) and phase."""

    def __init__(self, rank: Rank, nodes: ModuleNodes) -> None:
        self._node = np.append(nodes.node, -1)
        phase = phases(rank) if nodes.phase is None else nodes.phase
        self._phase = np.append(phase, np.int8(_UNKNOWN))
        self._shape = (len(nodes.names) + 1, len(ROW_PHASES))

    def of(self, places: Rows, values: Rows) -> Rows:
        """Sum values of calls, given by place, -1 for none."""
        return self.over([(places, values)])

    def over(self, parts: Iterable[tuple[Rows, Rows]]) -> Rows:
        """Sum such values of several devices."""
        found = np.zeros(self._shape, dtype=np.int64)
        for places, values in parts:
            counted = np.flatnonzero(values)  # few in a short window
            place = places[counted]
            np.add.at(found, (self._node[place], self._phase[place]), values[counted])
        return found


def module_sums(rank: Rank, excerpt: Excerpt | None, source: Source, merge: Merge) -> RankModules:
    """What belongs to each module of a rank, in some of its time."""
    nodes, said = _chosen_nodes(rank, source, merge)
    parts = sums_of_parts(rank, _sparse_sums, excerpt, source, merge)
    sums = dict(zip(_SUMMED, _dense(parts, nodes), strict=True))
    sums["bytes_alive_at_peak"] = rank.remember(_sums, source, merge).over(
        owned_costs.bytes_alive_at_peak(rank, excerpt)
    )
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
        modules=_module_table(rank, nodes, columns),
        outside=_outside_table(rank, outside),
        in_graphs_ns=sum(part.in_graphs_ns for part in parts),
        frames_expected=_says_frames(rank),
        has_shapes=owned_costs.has_shapes(rank),
        has_memory=owned_costs.has_gpu_memory(rank),
    )


def _sparse_sums(rank: Rank, excerpt: Excerpt | None, source: Source, merge: Merge) -> _SparseSums:
    nodes, _ = _chosen_nodes(rank, source, merge)
    sums, calls = rank.remember(_sums, source, merge), calls_of(rank)
    work = [*counted_work(rank, excerpt).values()]
    launches = [calls.places_of(part.launch) for part in work]
    entered = _is_counted(rank, nodes.frames, excerpt).astype(np.int64)
    found = {
        "gpu_ns": sums.over(zip(launches, (part.duration_ns for part in work), strict=True)),
        "cpu_ns": sums.of(*own_cpu_time(rank, excerpt)),
        "calls": sums.of(nodes.frames, entered),
        "exposed_communication_ns": sums.over(zip(launches, map(_exposed, work), strict=True)),
        "idle_ns": sums.of(*idle_by_call(rank, excerpt)),
        "flop": sums.over([owned_costs.flop(rank, excerpt)]),
        "bytes_allocated": sums.over(owned_costs.bytes_allocated(rank, excerpt)),
    }
    return _SparseSums.of([found[name] for name in _SUMMED], sum(_in_graphs(rank, p) for p in work))


def _chosen_nodes(rank: Rank, source: Source, merge: Merge) -> tuple[ModuleNodes, str]:
    if source != "regions":
        nodes = rank.remember(module_nodes, merge)
        if not nodes.names:
            nodes = rank.remember(hierarchy_nodes, merge)
        if source == "modules" or nodes.names:
            return nodes, "modules"
    return rank.remember(region_nodes, merge), "regions"


def _sums(rank: Rank, source: Source, merge: Merge) -> _Sums:
    return _Sums(rank, _chosen_nodes(rank, source, merge)[0])


def _exposed(work: GpuWork) -> Rows:
    """Time of each piece of work of a device that is communication and not hidden."""
    exposed_ns = np.zeros(len(work), dtype=np.int64)
    talking = np.flatnonzero(work.type == KernelType.COMMUNICATION)
    talking = talking[np.argsort(work.start_ns[talking], kind="stable")]
    busy = work.busy_by_type
    hidden = busy[KernelType.COMPUTATION] | busy[KernelType.CUDA_GRAPH]
    exposed_ns[talking] = exposed_times(work.start_ns[talking], work.end_ns[talking], hidden)
    return exposed_ns


def _is_counted(rank: Rank, places: Rows, excerpt: Excerpt | None) -> NDArray[np.bool_]:
    calls, counted = calls_of(rank), host_time(rank, excerpt)
    if counted is None:
        return rank.analysed[calls.forest.rows[places]]
    return counted.covers(calls.start_ns[places])


def _in_graphs(rank: Rank, work: GpuWork) -> int:
    launched = np.flatnonzero(work.launch >= 0)
    codes = rank.trace.events.name.codes[work.launch[launched]]
    used = distinct(codes).tolist()
    graphs = [code for code in used if GRAPH_LAUNCH.search(work.names[code])]
    in_graph = np.isin(codes, graphs) | (work.type[launched] == KernelType.CUDA_GRAPH)
    return int(work.duration_ns[launched[in_graph]].sum())


def _says_frames(rank: Rank) -> bool:
    return any(rank.trace.metadata.get(option) for option in ("with_modules", "with_stack"))


def _module_table(rank: Rank, nodes: ModuleNodes, columns: dict[str, Rows]) -> pd.DataFrame:
    filled = np.any([values != 0 for values in columns.values()], axis=0)
    node, phase = np.nonzero(filled)
    paths = nodes.paths()
    table = pd.DataFrame(
        {
            "rank": np.full(node.size, rank.trace.rank),
            "path": _texts(paths[each] for each in node.tolist()),
            "name": _texts(nodes.names[each] for each in node.tolist()),
            "depth": nodes.depth[node],
            "phase": _texts(ROW_PHASES[code] for code in phase.tolist()),
            **{name: values[node, phase] for name, values in columns.items()},
        }
    )
    return table[list(COLUMNS)]


def _outside_table(rank: Rank, columns: dict[str, Rows]) -> pd.DataFrame:
    (phase,) = np.nonzero(np.any([values != 0 for values in columns.values()], axis=0))
    table = pd.DataFrame(
        {
            "rank": np.full(phase.size, rank.trace.rank),
            "phase": _texts(ROW_PHASES[code] for code in phase.tolist()),
            **{name: values[phase] for name, values in columns.items()},
        }
    )
    return table[list(OUTSIDE_COLUMNS)]


def _texts(values: Iterable[str]) -> pd.Series[str]:
    """A column of texts, also without rows."""
    return pd.Series(list(values), dtype=object)
