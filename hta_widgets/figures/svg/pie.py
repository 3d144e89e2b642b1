"""A pie, with its legend next to it."""

from __future__ import annotations

from itertools import pairwise
from math import cos, pi, sin

import numpy as np

from hta_widgets.figures.base.drawing import PlotlyTrace
from hta_widgets.figures.svg.elements import decimal, element, ink_on, label
from hta_widgets.figures.svg.legend import ROW_HEIGHT, Entry
from hta_widgets.quantities import percent

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
