"""What is drawn between the axes: boxes, cells, lines and points."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from itertools import groupby
from typing import Any, Final

import numpy as np

from hta_widgets.arrays import Float64Array
from hta_widgets.figures.base.drawing import PlotlyTrace
from hta_widgets.figures.base.step_lines import steps_to_draw
from hta_widgets.figures.svg.axes import Axis
from hta_widgets.figures.svg.bars import Boxes, Whiskers
from hta_widgets.figures.svg.elements import decimal, element, ink_on, label, outline, text_width

_LEAST_HEIGHT = 0.5
_LEVELS = 20
_TEXT_GAP = 4
_APART = 3
_STEP_UNIT = 10
"""Steps are chosen in tenths of a pixel."""

DASHES: Final = {"dot": "1 3", "dash": "5 4"}
_SYMBOLS: Final = {
    "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "triangle-up": ((0, -1.1), (1.1, 0.9), (-1.1, 0.9)),
    "triangle-down": ((0, 1.1), (1.1, -0.9), (-1.1, -0.9)),
}


def draw_boxes(boxes: Boxes, x: Axis, y: Axis) -> str:
    """Fill the boxes, and write their texts at the ends of their bars."""
    left, right = np.sort(x.at(boxes.x), axis=0)
    top, bottom = np.sort(y.at(boxes.y), axis=0)
    middle = (top + bottom) / 2
    paths: defaultdict[tuple[str, float], list[str]] = defaultdict(list)
    for place in np.flatnonzero(np.isfinite(left + right + top + bottom)).tolist():
        width, height = right[place] - left[place], bottom[place] - top[place]
        if min(width, height) > 0:
            look = boxes.colors[place], float(boxes.opacity[place])
            paths[look].append(_rectangle(left[place], top[place], width, height))
    write = _inside if boxes.inside else _at_end
    fill = _hatched if boxes.hatched else partial(_filled, edge=boxes.edge)
    filled = "".join(fill(look, "".join(path)) for look, path in paths.items())
    return filled + "".join(
        write(text, x, (left[place], right[place]), middle[place], boxes.colors[place])
        for place, text in enumerate(boxes.texts)
        if text and np.isfinite(right[place])
    )


def draw_whiskers(whiskers: Whiskers, x: Axis, y: Axis) -> str:
    """Draw vertical lines."""
    places = zip(x.at(whiskers.x), y.at(whiskers.low), y.at(whiskers.high), strict=True)
    path = "".join(
        f"M{decimal(at)} {decimal(low)}V{decimal(high)}"
        for at, low, high in places
        if np.isfinite(at + low + high)
    )
    return element("path", d=path, stroke="currentColor") if path else ""


def draw_cells(trace: PlotlyTrace, x: Axis, y: Axis) -> str:
    """Draw a heatmap, whose colour scale goes from transparent to opaque in one colour."""
    level = np.rint(_LEVELS * np.clip(shares_of_scale(trace), 0, 1))
    left, right = x.at(cell_edges(trace))[:-1], x.at(cell_edges(trace))[1:]
    middle = y.at(trace["y"])
    half = abs(float(y.at([1])[0] - y.at([0])[0])) / 2
    paths: defaultdict[float, list[str]] = defaultdict(list)
    for column, levels in enumerate(level.T.tolist()):
        for shade, run in groupby(range(len(levels)), key=levels.__getitem__):
            rows = list(run)
            if not np.isnan(shade):
                top, bottom = np.sort(middle[[rows[0], rows[-1]]]) + np.array([-half, half])
                width = right[column] - left[column]
                paths[shade].append(_rectangle(left[column], top, width, bottom - top))
    color, faintest = _scale_of(trace)
    return "".join(
        _filled((color, faintest + (1 - faintest) * shade / _LEVELS), "".join(path))
        for shade, path in sorted(paths.items())
    )


def shares_of_scale(trace: PlotlyTrace) -> Float64Array:
    """Position of each cell of a heatmap on the colour scale, from 0 to 1."""
    values = np.asarray(trace["z"], dtype=float)
    low, high = trace["zmin"], trace["zmax"]
    return np.asarray((values - low) / ((high - low) or 1))


def cell_edges(trace: PlotlyTrace) -> Float64Array:
    """Edges of the columns of a heatmap, including both ends."""
    columns = np.asarray(trace["z"]).shape[1]
    step = trace.get("dx", 1)
    first = trace["x0"] if "x0" in trace else trace["x"][0]
    return np.asarray(first + step * (np.arange(columns + 1) - 0.5))


def _scale_of(trace: PlotlyTrace) -> tuple[str, float]:
    """Colour of the highest value, and opacity of the lowest."""
    (_, least), (_, most) = trace["colorscale"]
    return most, float(least.rpartition(",")[2].rstrip(")"))


def draw_points(trace: PlotlyTrace, x: Axis, y: Axis, most: int) -> str:
    """Draw the marks of a scatter trace, or its line, with a limited number of points."""
    if "lines" in trace["mode"]:
        return _line(trace, x, y, most)
    marker = trace["marker"]
    at_x, at_y = x.at(trace["x"]), y.at(trace["y"])
    symbols = marker.get("symbol", "circle")
    each = [symbols] * at_x.size if isinstance(symbols, str) else symbols
    return "".join(
        symbol_mark(name, left, top, marker["size"] / 2, marker["color"])
        for name, left, top in zip(each, at_x.tolist(), at_y.tolist(), strict=True)
        if np.isfinite(left + top)
    )


def symbol_mark(name: str, x: float, y: float, size: float, color: str) -> str:
    """Draw one mark; symbols whose name ends in ``-open`` are not filled."""
    shape = name.removesuffix("-open")
    look = {"fill": "none" if name.endswith("-open") else color, "stroke": color}
    if shape == "circle":
        return element("circle", cx=x, cy=y, r=size, **look)
    path = outline([(x + size * dx, y + size * dy) for dx, dy in _SYMBOLS[shape]], closed=True)
    return element("path", d=path, **look)


def _line(trace: PlotlyTrace, x: Axis, y: Axis, most: int) -> str:
    line = trace["line"]
    at_x, at_y = x.at(trace["x"]), y.at(trace["y"])
    known = np.isfinite(at_x + at_y)
    at_x, at_y = at_x[known], at_y[known]
    if not at_x.size:
        return ""
    stepped = line.get("shape") == "hv"
    path = _steps(at_x, at_y, most) if stepped else outline(_apart(at_x, at_y))
    look = {"stroke": line["color"], "stroke_width": float(line.get("width", 1)), "fill": "none"}
    if line.get("dash", "solid") in DASHES:
        look["stroke_dasharray"] = DASHES[line["dash"]]
    if trace.get("fill") == "tozeroy":
        path += f"V{decimal(float(y.at([0.0])[0]))}H{decimal(at_x[0])}z"
        look |= {"fill": line["color"], "fill_opacity": ".5"}
    return element("path", d=path, **look)


def _steps(x: Float64Array, y: Float64Array, most: int) -> str:
    """Path of a step line, with as many steps as the picture can show."""
    times = np.rint(_STEP_UNIT * x).astype(np.int64)
    kept = steps_to_draw(times, y, int(times[0]), int(times[-1]), most)
    # The last point ends the line.
    places = [*kept.tolist()[1:], *([] if kept[-1] == x.size - 1 else [x.size - 1])]
    path = [f"M{decimal(x[0])} {decimal(y[0])}"]
    height = decimal(y[0])
    for place in places:
        before, height = height, decimal(y[place])
        path.append(f"H{decimal(x[place])}" + (f"V{height}" if height != before else ""))
    return "".join(path)


def _apart(x: Float64Array, y: Float64Array) -> list[tuple[float, float]]:
    """Points of a line that are at least `_APART` pixels apart, and the last one."""
    kept = [(float(x[0]), float(y[0]))]
    for point in zip(x[1:].tolist(), y[1:].tolist(), strict=True):
        if abs(point[0] - kept[-1][0]) + abs(point[1] - kept[-1][1]) >= _APART:
            kept.append(point)
    last = float(x[-1]), float(y[-1])
    return kept if kept[-1] == last else [*kept, last]


def _rectangle(left: float, top: float, width: float, height: float) -> str:
    """Rectangle as part of a path; one that is too thin to see becomes a hairline."""
    wide, high = (decimal(max(size, _LEAST_HEIGHT)) for size in (width, height))
    return f"M{decimal(left)} {decimal(top)}h{wide}v{high}h-{wide}z"


def _filled(look: tuple[str, float], path: str, edge: str = "") -> str:
    color, opacity = look
    faded: dict[str, Any] = {} if opacity == 1 else {"fill_opacity": f"{opacity:.2f}"}
    line = {"stroke": edge} if edge else {}
    return element("path", class_="b", d=path, fill=color, **faded, **line)


def _hatched(look: tuple[str, float], path: str) -> str:
    """Pale boxes with an outline, in place of stripes."""
    color, opacity = look
    return element(
        "path", class_="b", d=path, fill=color, fill_opacity=f"{opacity / 2:.2f}", stroke=color
    )


def _inside(text: str, x: Axis, ends: tuple[float, float], middle: float, color: str) -> str:  # noqa: ARG001
    """Text at the start of a horizontal bar, if it fits."""
    start, end = ends
    if start + 2 * _TEXT_GAP + text_width(text) > end:
        return ""
    return label(text, start + _TEXT_GAP, middle, fill=ink_on(color))


def _at_end(text: str, x: Axis, ends: tuple[float, float], middle: float, color: str) -> str:
    """Text beyond the end of a horizontal bar, or inside if there is no room."""
    end = ends[1]
    if end + _TEXT_GAP + text_width(text) <= x.last:
        return label(text, end + _TEXT_GAP, middle)
    return label(text, end - _TEXT_GAP, middle, text_anchor="end", fill=ink_on(color))
