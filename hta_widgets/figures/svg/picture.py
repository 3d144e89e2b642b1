"""A drawing as one SVG, with those features of plotly that the figures use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import cos, pi, sin
from typing import Any, Final

import numpy as np

from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace
from hta_widgets.figures.svg.axes import Axis
from hta_widgets.figures.svg.elements import FONT_SIZE, LINE_HEIGHT, decimal, element, ink_on, label
from hta_widgets.figures.svg.frame import EDGE, SCALE_HEIGHT, TICK_GAP, TITLE_HEIGHT, WIDTH, Frame
from hta_widgets.figures.svg.legend import ROW_HEIGHT, Entry, draw_rows
from hta_widgets.figures.svg.marks import DASHES, draw_boxes, draw_cells, draw_points, draw_whiskers
from hta_widgets.quantities import percent

LINE_POINTS: Final = 240
"""Number of points with which a line across the whole width shows all that its pixels can."""

_STYLE: Final = (
    f"svg{{background:#fff;color:#1f1f1f;fill:currentColor;font:{FONT_SIZE}px sans-serif}}"
    ".b{shape-rendering:crispEdges}"
    "@media(prefers-color-scheme:dark){svg{background:#1e1e1e;color:#d4d4d4}}"
)
"""A page with a dark theme declares ``color-scheme``. On a page that does not, the picture keeps
its own background and stays readable."""


def svg(drawn: Drawing, *, points: int = 2_000) -> str:
    """Draw a figure of `hta_widgets.figures` as one ``<svg>`` element, `WIDTH` pixels wide.

    It draws bars, heatmaps, lines, marks and pies, with those plotly attributes that the figures
    use. The picture has its own background, light or dark like the page. All step lines together
    have at most `points` points.
    """
    pies = [each for each in drawn.data if each["type"] == "pie"]
    if pies:
        height = max(map(pie_height, pies))
        content = "".join(map(draw_pie, pies))
    else:
        frame = Frame(drawn)
        height = frame.height
        content = "".join(_chart(frame, points))
    return whole(height, content)


def whole(height: float, content: str) -> str:
    """Write the ``<svg>`` element around content that is `WIDTH` pixels wide."""
    size = f'width="{WIDTH}" height="{decimal(height)}" viewBox="0 0 {WIDTH} {decimal(height)}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{_STYLE}</style>{content}</svg>'


def _chart(frame: Frame, points: int) -> Iterator[str]:
    """Draw a figure with axes, from back to front."""
    shapes = frame.layout.get("shapes", ())
    yield _grid(frame)
    yield from (_shape(each, frame) for each in shapes if each.get("layer") == "below")
    yield from _content(frame, points)
    yield from (_shape(each, frame) for each in shapes if each.get("layer") != "below")
    yield from (_note(note, frame) for note in frame.layout.get("annotations", ()))
    yield from (_below(axis, frame) for axis in frame.x.values())
    yield from (_beside(axis, frame) for axis in frame.y.values())
    yield draw_rows(frame.legend, frame.left, EDGE / 2)


def _content(frame: Frame, points: int) -> Iterator[str]:
    lines = sum(map(len, frame.traces.values()))
    most = min(LINE_POINTS, points // max(lines, 1))
    for axes, traces in frame.traces.items():
        x, y = frame.x[axes[0]], frame.y[axes[1]]
        yield from (draw_boxes(boxes, x, y) for boxes in frame.bars[axes])
        yield from (draw_whiskers(each, x, y) for each in frame.whiskers[axes])
        for trace in traces:
            if trace["type"] == "heatmap":
                yield draw_cells(trace, x, y) + _scale(trace, x, frame)
            elif trace["type"] == "scatter":
                yield draw_points(trace, x, y, most)


def _grid(frame: Frame) -> str:
    """Lines at the ticks, and one at zero where an axis asks for it."""
    quiet, clear = [], []
    for axes, upright in ((frame.y, False), (frame.x, True)):
        for axis in axes.values():
            if axis.settings.get("showgrid", True):
                ticks = [value for value, _ in axis.ticks]
                quiet += [_across(at, frame, upright=upright) for at in _known(axis, ticks)]
            if axis.settings.get("zeroline"):
                clear += [_across(at, frame, upright=upright) for at in _known(axis, [0.0])]
    return "".join(
        element("path", d="".join(lines), stroke="currentColor", stroke_opacity=opacity)
        for lines, opacity in ((quiet, ".12"), (clear, ".4"))
        if lines
    )


def _across(at: float, frame: Frame, *, upright: bool) -> str:
    if upright:
        return f"M{decimal(at)} {decimal(frame.top)}V{decimal(frame.bottom)}"
    return f"M{decimal(frame.left)} {decimal(at)}H{decimal(frame.right)}"


def _below(axis: Axis, frame: Frame) -> str:
    """Labels and title of a horizontal axis."""
    height = frame.bottom + TICK_GAP + LINE_HEIGHT / 2
    labels = [
        label(text, at, height)
        for value, text in axis.ticks_side_by_side()
        for at in _known(axis, [value])
    ]
    title = label(axis.title, (axis.first + axis.last) / 2, frame.height - EDGE - 4)
    return _group("".join([*labels, title]), text_anchor="middle")


def _beside(axis: Axis, frame: Frame) -> str:
    """Labels and title of a vertical axis."""
    room = frame.left - EDGE - TICK_GAP - (TITLE_HEIGHT if axis.title else 0)
    labels = "".join(
        label(text, frame.left - TICK_GAP, at, at_most=room)
        for value, text in axis.ticks
        for at in _known(axis, [value])
    )
    middle = decimal((axis.first + axis.last) / 2)
    turned = f"translate({EDGE + FONT_SIZE / 2:.0f} {middle})rotate(-90)"
    title = label(axis.title, 0, 0, transform=turned, text_anchor="middle")
    return _group(labels + title, text_anchor="end")


def _scale(trace: PlotlyTrace, x: Axis, frame: Frame) -> str:
    """The ends of a heatmap's colour scale, below its columns."""
    if "colorbar" not in trace:
        return ""
    suffix = trace["colorbar"].get("ticksuffix", "")
    text = f"{trace['zmin']:.3g} to {trace['zmax']:.3g}{suffix}"
    middle = (x.first + x.last) / 2
    return label(text, middle, frame.bottom + SCALE_HEIGHT / 2, text_anchor="middle")


def _group(content: str, **attributes: str) -> str:
    """Group elements that share attributes; nothing if there are none."""
    return element("g", content, **attributes) if content else ""


def _shape(shape: dict[str, Any], frame: Frame) -> str:
    (left, top), (right, bottom) = (_corner(shape, end, frame) for end in "01")
    edge = {"stroke": shape["line"]["color"]} if shape["line"].get("color") else {}
    if shape["line"].get("dash") in DASHES:
        edge["stroke_dasharray"] = DASHES[shape["line"]["dash"]]
    if shape["type"] == "line":
        path = f"M{decimal(left)} {decimal(top)}L{decimal(right)} {decimal(bottom)}"
        return element("path", d=path, **edge)
    return element(
        "rect",
        x=min(left, right),
        y=min(top, bottom),
        width=abs(right - left),
        height=abs(bottom - top),
        fill=shape["fillcolor"],
        **edge,
    )


def _corner(shape: dict[str, Any], end: str, frame: Frame) -> tuple[float, float]:
    x, y = shape[f"x{end}"], shape[f"y{end}"]
    on_paper = frame.on_paper(x, y)
    across = on_paper[0] if shape.get("xref") == "paper" else frame.x["xaxis"].at([x])[0]
    up = on_paper[1] if shape.get("yref") == "paper" else frame.y["yaxis"].at([y])[0]
    return float(across), float(up)


def _note(note: dict[str, Any], frame: Frame) -> str:
    """Lines of text above a place on the paper, or centred at it."""
    x, y = frame.on_paper(note["x"], note["y"])
    anchor = {"left": "start", "right": "end"}.get(note.get("xanchor", ""), "middle")
    lines = note["text"].split("<br>")
    first = y - LINE_HEIGHT / 2 if note.get("yanchor") == "bottom" else y
    first -= LINE_HEIGHT * (len(lines) - 1) / 2
    return "".join(
        label(line, x, first + LINE_HEIGHT * place, text_anchor=anchor)
        for place, line in enumerate(lines)
    )


def _known(axis: Axis, values: Iterable[Any]) -> list[float]:
    """Places (px) of the values that lie on an axis."""
    low, high = sorted((axis.first, axis.last))
    places = axis.at(list(values)).tolist()
    return [at for at in places if np.isfinite(at) and low - 0.5 <= at <= high + 0.5]


_RADIUS = 110
_MARGIN = 12
_LEAST_LABELLED = 0.06
_TEXT_AT = 0.65
_ALL = 0.999


def pie_height(pie: PlotlyTrace) -> float:
    """Height (px) of a pie and its legend."""
    return 2 * _MARGIN + max(2 * _RADIUS, ROW_HEIGHT * len(pie["labels"]))


def draw_pie(pie: PlotlyTrace) -> str:
    """Draw the slices clockwise from the top, and a legend next to them."""
    values = np.nan_to_num(np.asarray(pie["values"], dtype=float))
    ends = np.concatenate([[0.0], np.cumsum(values)]) / (values.sum() or 1)
    colors = pie["marker"]["colors"]
    slices = "".join(
        _slice(start, end, color)
        for (start, end), color in zip(pairwise(ends.tolist()), colors, strict=True)
    )
    left = 2 * _RADIUS + 4 * _MARGIN
    legend = "".join(
        Entry(name, color).draw(left, _MARGIN + ROW_HEIGHT * (place + 0.5))
        for place, (name, color) in enumerate(zip(pie["labels"], colors, strict=True))
    )
    return slices + legend


def _slice(start: float, end: float, color: str) -> str:
    share = end - start
    if share <= 0:
        return ""
    look = {"fill": color, "stroke": "#7f7f7f", "stroke_width": ".5"}
    middle = _MARGIN + _RADIUS
    if share > _ALL:
        shape = element("circle", cx=middle, cy=middle, r=_RADIUS, **look)
    else:
        (from_x, from_y), (to_x, to_y) = _at(start, 1), _at(end, 1)
        arc = f"A{_RADIUS} {_RADIUS} 0 {round(share)} 1 {decimal(to_x)} {decimal(to_y)}z"
        path = f"M{middle} {middle}L{decimal(from_x)} {decimal(from_y)}{arc}"
        shape = element("path", d=path, **look)
    if share < _LEAST_LABELLED:
        return shape
    return shape + label(
        percent(100 * share),
        *_at(start + share / 2, _TEXT_AT),
        fill=ink_on(color),
        text_anchor="middle",
    )


def _at(share: float, radius: float) -> tuple[float, float]:
    angle, middle = 2 * pi * share, _MARGIN + _RADIUS
    return middle + _RADIUS * radius * sin(angle), middle - _RADIUS * radius * cos(angle)
