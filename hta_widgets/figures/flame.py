"""Boxes of a flame graph, which the browser draws on a canvas."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.flame import Flame
from hta_widgets.figures.base.text import plot_text
from hta_widgets.figures.svg.elements import FONT_SIZE, decimal, element, label, text_width
from hta_widgets.figures.svg.frame import WIDTH
from hta_widgets.figures.svg.picture import whole
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


PICTURE_BYTES: Final = 20_000
"""Maximum size of the picture."""

_ROW: Final = 15
_GAP: Final = 0.6
_LEAST_TEXT: Final = 48
_LEAST_BOXES: Final = (1, 2, 4, 8, 16, 32)
"""Widths (px) below which boxes are left out; tried in turn until the picture is small enough."""

_MODULE: Final = "nn.Module: "
_HUES: Final = {
    "kernel": "#0072B2",
    "cpu_op": "#CC7722",
    "module": "#2E9E5B",
    "python": "#7A8CA5",
    "annotation": "#C45AA0",
    "runtime": "#8A63C9",
    "driver": "#8A63C9",
}
_NEUTRAL: Final = "#8A8A8A"


def flame_picture(result: Flame) -> str:
    """Draw root, callees and callers as SVG of at most `PICTURE_BYTES`; empty if there are none.

    A box is as wide as its share of the root. Boxes below a pixel are left out, and further ones
    if the picture would be too large.
    """
    drawn = flame(result)
    if not drawn["total"][0]:
        return ""
    pictures = (_picture(drawn, least) for least in _LEAST_BOXES)
    return next((each for each in pictures if len(each.encode()) <= PICTURE_BYTES), "")


def _picture(drawn: dict[str, Any], least: int) -> str:
    scale = WIDTH / drawn["total"][0]
    shown = np.flatnonzero(drawn["total"] * scale >= least).tolist()
    kinds = [_kind(drawn, node) for node in shown]
    depths = [int(drawn["depth"][node]) for node in shown]
    top = min(depths)
    paths: dict[str, list[str]] = {}
    texts = []
    for node, kind in zip(shown, kinds, strict=True):
        x, width = drawn["start"][node] * scale, drawn["total"][node] * scale
        y = (int(drawn["depth"][node]) - top) * _ROW
        seen = decimal(width - _GAP)
        paths.setdefault(kind, []).append(f"M{decimal(x)} {y}h{seen}v{_ROW - 1}h-{seen}z")
        if width >= _LEAST_TEXT:
            texts.append(_text(drawn["labels"][drawn["name"][node]], x, y, width))
    boxes = "".join(
        element("path", d="".join(parts), fill=_HUES.get(kind, _NEUTRAL), fill_opacity=".42")
        for kind, parts in paths.items()
    )
    return whole(_ROW * (1 + max(depths) - top), boxes + "".join(texts))


def _kind(drawn: dict[str, Any], node: int) -> str:
    name = drawn["names"][drawn["name"][node]]
    kind: str = drawn["kinds"][drawn["kind"][node]]
    return "module" if name.startswith(_MODULE) else kind


def _text(name: str, x: float, y: float, width: float) -> str:
    """As much of a name as fits."""
    room = width - 6
    lengths = range(int(room / (0.5 * FONT_SIZE)), 0, -1)
    texts = (plot_text(short_name(name, length)) for length in lengths)
    fitting = next((text for text in texts if text_width(text) <= room), "")
    return label(fitting, x + 3, y + _ROW / 2)
