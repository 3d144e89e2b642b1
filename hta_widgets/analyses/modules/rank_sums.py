"""What belongs to each module of one rank, and what to none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.modules import owned_costs
from hta_widgets.analyses.modules.nodes import Merge, ModuleNodes, Source
from hta_widgets.analyses.modules.sums_by_node import (
    ROW_PHASES,
    chosen_nodes,
    sums_by_node,
)
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.modules import COMPILED_MODULE
from hta_widgets.analyses.time.selection import TimeSelection
from hta_widgets.arrays import Int64Array
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.trace.ranks.replayed_calls import with_replayed_calls

COSTS: Final = ("flop", "bytes_allocated", "bytes_alive_at_peak")
"""Columns of what modules compute and allocate."""

COLUMNS: Final = (
    *("rank", "path", "name", "depth", "calls", "phase", "gpu_self_ns", "gpu_total_ns"),
    *("cpu_total_ns", "exposed_communication_ns", "idle_ns", *COSTS),
)
OUTSIDE_COLUMNS: Final = (
    *("rank", "phase", "gpu_ns", "cpu_ns", "exposed_communication_ns", "idle_ns", *COSTS),
)


class RankModules(NamedTuple):
    """Tables of `ModuleTree` of one rank."""

    source: str
    """``modules`` or ``regions``."""
    modules: pd.DataFrame
    outside: pd.DataFrame
    in_graphs_ns: int
    """Durations of GPU work that CUDA graphs run."""
    frames_expected: bool
    """Whether the trace says that it has Python frames or modules."""
    is_compiled: bool
    """Whether torch.compile has put modules together."""
    has_shapes: bool
    """Whether shapes of operators are recorded."""
    has_memory: bool
    """Whether allocations on a GPU are recorded."""


def module_sums(
    rank: Rank, selection: TimeSelection | None, source: Source, merge: Merge
) -> RankModules:
    """What belongs to each module of a rank, in some of its time."""
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
        modules=_module_table(rank, nodes, columns),
        outside=_outside_table(rank, outside),
        in_graphs_ns=in_graphs_ns,
        frames_expected=_says_frames(rank),
        is_compiled=bool(calls_of(rank).named(COMPILED_MODULE.search).any()),
        has_shapes=owned_costs.has_shapes(rank),
        has_memory=owned_costs.has_gpu_memory(rank),
    )


def _says_frames(rank: Rank) -> bool:
    return any(rank.trace.metadata.get(option) for option in ("with_modules", "with_stack"))


def _module_table(rank: Rank, nodes: ModuleNodes, columns: dict[str, Int64Array]) -> pd.DataFrame:
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


def _outside_table(rank: Rank, columns: dict[str, Int64Array]) -> pd.DataFrame:
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
