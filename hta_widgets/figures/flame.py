"""Boxes of a flame graph, which the browser draws on a canvas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analyses.flame import Flame
from hta_widgets.names.readable import readable_name
from hta_widgets.names.shorten import short_name


def flame(result: Flame) -> dict[str, Any]:
    """Lay out the nodes of a flame graph.

    Columns have a value per node, the root first, callers of the sandwich last: ``name`` and
    ``kind`` (positions in ``names``, which has parallel ``labels``, and in ``kinds``), ``parent``
    (-1 for the root), ``depth`` (below 0 for callers), ``start`` (where its box starts: inside its
    parent's, after its earlier siblings), ``total``, ``own``, ``folded``. Further entries: ``root``
    (names from the outermost call to the root), ``sandwich``, ``all`` (total of everything) and
    ``unit`` (``ns`` or ``bytes``).
    """
    nodes, unit = with_callers(result), result.unit
    names, name = np.unique(nodes["name"].to_numpy(dtype=object), return_inverse=True)
    kinds, kind = np.unique(nodes["kind"].to_numpy(dtype=object), return_inverse=True)
    parents, totals = nodes["parent"].tolist(), nodes[f"total_{unit}"].tolist()
    is_caller = (nodes["depth"] < 0).tolist()
    free = {(-1, False): 0}
    start = [0] * len(parents)
    for place, (parent, total) in enumerate(zip(parents, totals, strict=True)):
        start[place] = free.get((parent, is_caller[place]), start[parent])
        free[parent, is_caller[place]] = start[place] + total
    return {
        "names": names.tolist(),
        "labels": [readable_name(each) or short_name(each, len(each)) for each in names.tolist()],
        "kinds": kinds.tolist(),
        "name": name,
        "kind": kind,
        "parent": nodes["parent"].to_numpy(),
        "depth": nodes["depth"].to_numpy(),
        "start": np.array(start, dtype=np.float64),
        "total": nodes[f"total_{unit}"].to_numpy(dtype=np.float64),
        "own": nodes[f"own_{unit}"].to_numpy(dtype=np.float64),
        "folded": nodes["folded"].to_numpy(),
        "root": list(result.root),
        "sandwich": result.sandwich,
        "all": result.total_bytes or result.total_ns,
        "unit": unit,
    }


def with_callers(result: Flame) -> pd.DataFrame:
    """The nodes, followed by the callers of their root, which have depths below 0."""
    callers = result.callers.iloc[1:]
    shift = len(result.nodes) - 1
    moved = callers.assign(
        node=callers["node"] + shift,
        parent=np.where(callers["parent"] == 0, 0, callers["parent"] + shift),
        depth=-callers["depth"],
    )
    return pd.concat([result.nodes, moved], ignore_index=True) if len(moved) else result.nodes
