"""Bars of a figure as boxes, placed as plotly stacks, groups or overlays them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from hta_widgets.arrays import Float64Array
from hta_widgets.figures.base.drawing import PlotlyTrace
from hta_widgets.figures.base.style import NEUTRAL, NOT_SELECTED_OPACITY

_GAP = 0.2


class Boxes(NamedTuple):
    """Rectangles, in the units of their axes.

    Parameters
    ----------
    x, y : ndarray
        Both ends of each box, with shape (2, boxes); along the bars, starting at their base.
    colors : list of str
    opacity : ndarray
    texts : list of str
        Text at the end of each bar; empty for none.
    inside : bool
        Whether texts that fit go inside, at the start of the bars.
    hatched : bool
    edge : str
        Colour of the line around the boxes; empty for none.
    """

    x: Float64Array
    y: Float64Array
    colors: list[str]
    opacity: Float64Array
    texts: list[str]
    inside: bool = False
    hatched: bool = False
    edge: str = ""


class Whiskers(NamedTuple):
    """Vertical ranges, in the units of their axes."""

    x: Float64Array
    low: Float64Array
    high: Float64Array


def is_horizontal(bar: PlotlyTrace) -> bool:
    """Whether the bars of a trace run from left to right."""
    return bar.get("orientation") == "h"


def boxes_of(bars: Sequence[PlotlyTrace], layout: dict[str, Any]) -> Iterator[Boxes]:
    """Place the bars of traces that share axes, as one group of boxes per trace."""
    mode = layout.get("barmode", "group")
    slot = _spacing(bars) * (1 - layout.get("bargap", _GAP))
    ends: defaultdict[float, float] = defaultdict(float)
    for place, bar in enumerate(bars):
        across, along = _positions(bar), _lengths(bar)
        width = slot / (len(bars) if mode == "group" else 1)
        shift = (place - (len(bars) - 1) / 2) * width if mode == "group" else 0.0
        middle, half = across + shift, _floats(bar.get("width", width)) / 2
        base = _floats(bar.get("base", 0)) + np.zeros_like(along)
        if mode == "stack":
            base = np.array([ends[each] for each in across.tolist()])
            for each, length in zip(across.tolist(), np.nan_to_num(along).tolist(), strict=True):
                ends[each] += length
        sides = np.array([middle - half, middle + half])
        ends_along = np.array([base, base + along])
        x, y = (ends_along, sides) if is_horizontal(bar) else (sides, ends_along)
        look = _colors(bar, across.size), _opacity(bar, across.size), _texts(bar)
        marker = bar.get("marker", {})
        yield Boxes(
            *(x, y, *look),
            inside=bar.get("textposition") == "inside",
            hatched="pattern" in marker,
            edge=marker.get("line", {}).get("color", ""),
        )


def whiskers_of(bar: PlotlyTrace) -> Whiskers | None:
    """Range of each vertical bar; None if it has none."""
    if "error_y" not in bar:
        return None
    ends = (_floats(bar["error_y"][name]) for name in ("arrayminus", "array"))
    below, above = ends
    length = _lengths(bar)
    return Whiskers(_positions(bar), length - below, length + above)


def _positions(bar: PlotlyTrace) -> Float64Array:
    return _floats(bar["y" if is_horizontal(bar) else "x"])


def _lengths(bar: PlotlyTrace) -> Float64Array:
    return _floats(bar["x" if is_horizontal(bar) else "y"])


def _floats(values: Any) -> Float64Array:  # noqa: ANN401
    return np.asarray(values, dtype=float)


def _spacing(bars: Sequence[PlotlyTrace]) -> float:
    """Smallest distance between neighbours."""
    every = np.unique(np.concatenate([np.empty(0), *map(_positions, bars)]))
    return float(np.diff(every).min()) if every.size > 1 else 1.0


def _colors(bar: PlotlyTrace, count: int) -> list[str]:
    color = bar.get("marker", {}).get("color", NEUTRAL)
    return list(repeat(color, count)) if isinstance(color, str) else list(color)


def _opacity(bar: PlotlyTrace, count: int) -> Float64Array:
    if "selectedpoints" not in bar:
        return np.ones(count)
    opacity = np.full(count, NOT_SELECTED_OPACITY)
    opacity[list(bar["selectedpoints"])] = 1
    return opacity


def _texts(bar: PlotlyTrace) -> list[str]:
    return list(bar.get("text", ())) or [""] * _positions(bar).size
