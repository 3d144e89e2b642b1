"""Sums of modules over ranks and phases, with those inside them."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.modules.nodes import SEPARATOR
from hta_widgets.analyses.modules.rank_sums import COSTS
from hta_widgets.analyses.time.modules import PHASES
from hta_widgets.arrays import Int64Array

WEIGHTS: Final = {
    "gpu": "gpu_self_ns",
    "cpu": "cpu_total_ns",
    "idle": "idle_ns",
    "exposed": "exposed_communication_ns",
}
"""Columns of `ModuleTree.modules` by what `time_by_phase` sums up."""

_WITHOUT_INNER: Final = ("exposed_communication_ns", "idle_ns", *COSTS)
_SUMMED: Final = ("calls", "gpu_self_ns", "gpu_total_ns", "cpu_total_ns", *_WITHOUT_INNER)


def time_by_phase(table: pd.DataFrame, totals: pd.DataFrame, weight: str) -> pd.DataFrame:
    """Time of each module with those inside it, by phase.

    Parameters
    ----------
    table : DataFrame
        `ModuleTree.modules`.
    totals : DataFrame
        What `module_totals` makes of it.

    Returns
    -------
    DataFrame
        For each row of `totals` a column (int64 ns) for each of `PHASES`.
    """
    column = WEIGHTS[weight]
    times = table.pivot_table(index="path", columns="phase", values=column, aggfunc="sum")
    times = times.reindex(index=totals["path"], columns=list(PHASES)).fillna(0).astype(np.int64)
    if not column.endswith("_total_ns"):
        parent, depth = totals["parent"].to_numpy(), totals["depth"].to_numpy()
        times[:] = _with_inner(times.to_numpy(), parent, depth)
    return times.reset_index(drop=True)


def module_totals(table: pd.DataFrame) -> pd.DataFrame:
    """Sum `ModuleTree.modules` over ranks and phases.

    Returns
    -------
    DataFrame
        One row per path, each after the module around it, siblings by GPU time: ``path``,
        ``parent`` (position of the row of the module around it, -1 for none), ``name``, ``depth``,
        ``calls``, ``gpu_self_ns``, ``gpu_total_ns``, ``forward_ns``, ``backward_ns``
        (``gpu_total_ns`` of that phase), ``cpu_total_ns``, ``exposed_communication_ns``,
        ``idle_ns``, ``flop``, ``bytes_allocated``, ``bytes_alive_at_peak``; the last five, unlike
        in `ModuleTree`, with the modules inside.
    """
    sums = table.groupby("path", sort=False).agg(
        {"name": "first", "depth": "first", **dict.fromkeys(_SUMMED, "sum")}
    )
    for name in ("forward", "backward"):
        of_phase = table[table["phase"] == name].groupby("path")["gpu_total_ns"].sum()
        sums[f"{name}_ns"] = of_phase.reindex(sums.index, fill_value=0).astype(np.int64)
    sums = sums.reset_index()
    place = {path: position for position, path in enumerate(sums["path"].tolist())}
    parent = np.array(
        [
            _place_around(path, name, place)
            for path, name in zip(sums["path"], sums["name"], strict=True)
        ],
        dtype=np.int64,
    )
    for column in _WITHOUT_INNER:
        sums[column] = _with_inner(sums[column].to_numpy(), parent, sums["depth"].to_numpy())
    sums.insert(1, "parent", parent)
    return _in_preorder(sums)


def _place_around(path: str, name: str, place: dict[str, int]) -> int:
    around = path[: -len(name)].removesuffix(SEPARATOR)
    return place.get(around, -1) if around else -1


def _with_inner(own: Int64Array, parent: Int64Array, depth: Int64Array) -> Int64Array:
    """Sums over each row and all rows inside."""
    total = own.copy()
    for level in range(int(depth.max(initial=0)), 0, -1):
        at = np.flatnonzero((depth == level) & (parent >= 0))
        np.add.at(total, parent[at], total[at])
    return total


def _in_preorder(sums: pd.DataFrame) -> pd.DataFrame:
    parents = sums["parent"].tolist()
    inside: dict[int, list[int]] = {}
    by_time = np.lexsort((-sums["cpu_total_ns"].to_numpy(), -sums["gpu_total_ns"].to_numpy()))
    for place in by_time.tolist():
        inside.setdefault(parents[place], []).append(place)
    order, waiting = [], inside.get(-1, [])[::-1]
    while waiting:
        place = waiting.pop()
        order.append(place)
        waiting += inside.get(place, [])[::-1]
    new = np.full(len(parents) + 1, -1)
    new[order] = np.arange(len(order))
    sums = sums.assign(parent=new[sums["parent"].to_numpy()])
    return sums.iloc[order].reset_index(drop=True)
