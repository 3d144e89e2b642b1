"""Tables of outliers: how far each rank, and each node, is from the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.rank_overlap.lanes import ACTIVITIES, GRAPH
from hta_widgets.analyses.rank_overlap.outlier_rules import (
    FEWEST,
    FEWEST_FOR_MODIFIED,
    NO_VERDICT,
    OUTLIER,
    OUTLIER_ABOVE,
    critical_t,
    directions,
    largest_z,
    leave_one_out_t,
    modified_z_scores,
    scores_beside,
    verdicts_by_modified_z,
    verdicts_by_t,
    verdicts_by_z,
    z_scores,
)
from hta_widgets.arrays import Float64Array, Int64Array

TIMES = tuple(f"{activity}_ns" for activity in ACTIVITIES)
SHARES = tuple(f"{activity}_percent" for activity in ACTIVITIES)

NO_NODE = -1
FLOOR = 0.01
"""Deviations below this share of the median, or of the lane's span, are too small to matter."""

_KEYS = ["rank", "device", "stream", "label", "node"]
_OUTLIER_COLUMNS = (
    *("column", *_KEYS, "value", "median", "mean", "direction", "compared", "largest_z"),
    *("z", "verdict_z", "modified_z", "verdict_modified_z"),
    *("leave_one_out_t", "critical_t", "verdict_t", "verdict", "node_median"),
)
_Grids = dict[str, NDArray[np.generic]]
"""Arrays with one row per lane or node and one column per compared column."""


def outliers_among(lanes: pd.DataFrame, groups: Sequence[Int64Array]) -> pd.DataFrame:
    """Compare the lanes of each group, column by column; see `RankOverlap.outliers`."""
    columns = _compared(lanes)
    values = lanes[columns].to_numpy(dtype=np.float64)
    if not groups:
        return pd.DataFrame(columns=list(_OUTLIER_COLUMNS))
    span_ns, node = lanes["span_ns"].to_numpy(), lanes["node"].to_numpy()
    parts = [_lanes_comparison(values[each], span_ns[each], node[each]) for each in groups]
    keys = lanes[_KEYS].iloc[np.concatenate(groups)]
    grids = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return _long(columns, keys, grids)


def nodes_among(lanes: pd.DataFrame) -> pd.DataFrame:
    """Compare nodes with each other, column by column; see `RankOverlap.nodes`."""
    known = lanes[lanes["node"] != NO_NODE]
    columns = _compared(lanes)
    values = known[columns].to_numpy(dtype=np.float64)
    node = known["node"].to_numpy()
    nodes, first, sizes = np.unique(node, return_index=True, return_counts=True)
    medians = _node_medians(node, values)
    floor = _floor(values, known["span_ns"].to_numpy())
    grids = _nodes_comparison(medians[first], sizes, values - medians, floor)
    return _long(columns, pd.DataFrame({"node": nodes, "lanes": sizes}), grids)


def _compared(lanes: pd.DataFrame) -> list[str]:
    """Columns to compare, times before shares; those of CUDA graphs only if there are any."""
    omitted = () if lanes[TIMES[GRAPH]].any() else (TIMES[GRAPH], SHARES[GRAPH])
    return [column for column in TIMES + SHARES if column not in omitted]


def _lanes_comparison(values: Float64Array, span_ns: Int64Array, node: Int64Array) -> _Grids:
    z, modified, t = z_scores(values), modified_z_scores(values), leave_one_out_t(values)
    matters = np.abs(values - np.median(values, axis=0)) >= _floor(values, span_ns)
    by_modified = np.where(matters, verdicts_by_modified_z(modified), NO_VERDICT)
    by_t = np.where(matters, verdicts_by_t(t), NO_VERDICT)
    return {
        "value": values,
        "median": _repeated(np.median(values, axis=0), values),
        "mean": _repeated(values.mean(axis=0), values),
        "direction": directions(values),
        "compared": _repeated(len(values), values),
        "largest_z": _repeated(largest_z(len(values)), values),
        "z": z,
        "verdict_z": verdicts_by_z(z),
        "modified_z": modified,
        "verdict_modified_z": by_modified,
        "leave_one_out_t": t,
        "critical_t": _repeated(critical_t(len(values)), values),
        "verdict_t": by_t,
        "verdict": by_modified if len(values) >= FEWEST_FOR_MODIFIED else by_t,
        "node_median": _node_medians(node, values),
    }


def _nodes_comparison(
    medians: Float64Array, sizes: Int64Array, noise: Float64Array, floor: Float64Array
) -> _Grids:
    if len(medians) < FEWEST or sizes.min() == 1:
        unknown, none = np.full(medians.shape, np.nan), np.full(medians.shape, NO_VERDICT)
        return {
            "value": medians,
            "median": unknown,
            "direction": none,
            "score": unknown,
            "verdict": none,
        }
    middle = np.median(medians, axis=0)
    scores = scores_beside(medians - middle, noise)
    stands_out = np.abs(scores) > OUTLIER_ABOVE
    matters = np.abs(medians - middle) >= np.median(floor, axis=0)
    return {
        "value": medians,
        "median": _repeated(middle, medians),
        "direction": directions(medians),
        "score": scores,
        "verdict": np.where(stands_out & matters, OUTLIER, NO_VERDICT),
    }


def _long(columns: list[str], keys: pd.DataFrame, grids: _Grids) -> pd.DataFrame:
    """One row per compared column and row of `keys`, in this order."""
    table = pd.concat([keys] * len(columns), ignore_index=True)
    table.insert(0, "column", np.repeat(np.array(columns, dtype=object), len(keys)))
    ravelled = {name: _texts(grid).ravel(order="F") for name, grid in grids.items()}
    return pd.concat([table, pd.DataFrame(ravelled)], axis=1)


def _node_medians(node: Int64Array, values: Float64Array) -> Float64Array:
    """Median of the node of each lane; NaN if the node is unknown."""
    medians = np.full(values.shape, np.nan)
    for number in np.unique(node[node != NO_NODE]):
        medians[node == number] = np.median(values[node == number], axis=0)
    return medians


def _floor(values: Float64Array, span_ns: Int64Array) -> Float64Array:
    """Smallest deviation that matters, for each lane and column."""
    times = values.shape[1] // 2
    whole = [span_ns] * times + [np.full(len(values), 100)] * times
    middle = np.abs(np.median(values, axis=0)) if len(values) else 0.0
    return np.asarray(FLOOR * np.maximum(middle, np.array(whole).T))


def _repeated(of_column: Float64Array | float, like: Float64Array) -> Float64Array:
    return np.broadcast_to(of_column, like.shape)


def _texts(grid: NDArray[np.generic]) -> NDArray[np.generic]:
    return grid.astype(object) if grid.dtype.kind == "U" else grid
