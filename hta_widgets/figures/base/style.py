"""One look for all figures: colours carry meaning, the notebook's theme supplies the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace, trace
from hta_widgets.trace.model.kernels import OVERLAPPING, KernelType

CLASS_COLORS: Final = {
    "compute": "#0072B2",
    "transfer": "#D55E00",
    "communication": "#D55E00",
    "waiting": "#D55E00",
    "copies": "#009E73",
    "late_launching": "#7A5195",
    "late_synchronising": "#7A5195",
    "data_loading": "#CC79A7",
    "other_idle": "#888888",
}
"""Colours of the budget classes, by name; a class has the same colour in every figure."""

IDLE: Final = CLASS_COLORS["other_idle"]

CLASS_PATTERNS: Final = {
    "communication": ".",
    "waiting": "/",
    "late_synchronising": "/",
    "other_idle": "",
}
"""Patterns (plotly's shapes) that tell classes of one colour apart; empty means outline only."""

Fill = Literal["solid", "hatched", "dotted", "outline"]
_FILLS: Final[dict[str | None, Fill]] = {
    None: "solid",
    "/": "hatched",
    ".": "dotted",
    "": "outline",
}

CLASS_INK: Final = {"transfer": "#000000", "copies": "#000000", "data_loading": "#000000"}
"""Text colour on classes whose colour makes white text illegible."""

OVERLAPPED: Final = "#3B8EBF"
"""Colour of communication hidden by computation, and of launches hidden by a running kernel."""

NEUTRAL: Final = "#7A8794"
PHASE_COLORS: Final = {
    "forward": "#0072B2",
    "backward": OVERLAPPED,
    "optimizer": "#CC79A7",
    "other": NEUTRAL,
}
"""Colours of the phases of a step."""

SERVED_COLORS: Final = {"decode": "#0072B2", "mixed": "#7A5195", "prefill": "#CC79A7"}
"""Colours of the phases of an inference server's steps."""

ACCENT: Final = "#1976D2"
"""Colour of the ring around what is selected."""

NOT_SELECTED_OPACITY: Final = 0.6
"""Low enough to fade, high enough to stay legible; selected items also get a ring."""

TYPE_COLORS: Final = {
    KernelType.COMPUTATION.name: CLASS_COLORS["compute"],
    KernelType.COMMUNICATION.name: CLASS_COLORS["transfer"],
    KernelType.MEMORY.name: CLASS_COLORS["copies"],
    KernelType.CUDA_GRAPH.name: "#5E81AC",
    KernelType.OTHER.name: NEUTRAL,
}
"""A CUDA graph recorded as a whole counts as compute, so its colour is close to compute's."""

_FEW: Final = 6
_FEW_DECADES: Final = 2
"""Counts below this get a tick each; above, plotly chooses whole numbers by itself."""

_MOST_TICKS: Final = 24

DEFAULT_HEIGHT = 320
ROW_HEIGHT = 26
_TITLE_HEIGHT = 36
_LEGEND_HEIGHT = 24
_MARGIN_HEIGHT = 70
_LEGEND_ABOVE: Final = {
    "orientation": "h",
    "x": 0,
    "y": 1.02,
    "yanchor": "bottom",
    "traceorder": "normal",
}
_LEAST_HEIGHT = 150
"""Minimum height (px): below it, the legend and the axis title leave plotly no room."""


def type_color(kernel_type: str) -> str:
    """Colour of a kernel type, or of a combination of types."""
    if kernel_type in TYPE_COLORS:
        return TYPE_COLORS[kernel_type]
    hidden = {KernelType.COMPUTATION.name, KernelType.COMMUNICATION.name}
    parts = set(kernel_type.split(OVERLAPPING))
    return OVERLAPPED if hidden <= parts else TYPE_COLORS[KernelType.OTHER.name]


def class_fill(name: str) -> Fill:
    """Fill of a budget class where the browser draws it."""
    return _FILLS[CLASS_PATTERNS.get(name)]


def legend_entry(label: str, name: str) -> dict[str, str]:
    """Entry of a budget class in the legend above a chart: see `LegendEntry`."""
    return {"label": label, "color": CLASS_COLORS[name], "fill": class_fill(name)}


def class_marker(name: str) -> dict[str, Any]:
    """Marker for the bars of a budget class."""
    return bar_marker(CLASS_COLORS[name], CLASS_PATTERNS.get(name))


def bar_marker(color: str, pattern: str | None = None) -> dict[str, Any]:
    """Marker for bars: filled, patterned (plotly's shapes), or outlined if the pattern is empty."""
    if pattern is None:
        return {"color": color}
    line = {"width": 1, "color": color}
    if not pattern:
        return {"color": faded(color, 0.12), "line": line}
    shape = {"shape": pattern, "size": 6, "solidity": 0.45, "fillmode": "replace"}
    return {"color": color, "pattern": shape, "line": line}


def faded(color: str, opacity: float) -> str:
    """Return a colour with an opacity."""
    return f"rgba{(*_channels(color), opacity)}"


def _channels(color: str) -> tuple[int, int, int]:
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return red, green, blue


def ring(**edges: float | str) -> dict[str, Any]:
    """Shape of a layout: a line around what is selected, between edges such as ``x0``."""
    sides = {"xref": "paper", "x0": 0, "x1": 1} if "x0" not in edges else {}
    sides |= {"yref": "paper", "y0": 0, "y1": 1} if "y0" not in edges else {}
    look = {"fillcolor": "rgba(0, 0, 0, 0)", "line": {"width": 2, "color": ACCENT}}
    return {"type": "rect", **sides, **edges, **look}


def line_across(
    side: Literal["x", "y"], at: float, *, color: str = NEUTRAL, dash: str = "dash"
) -> dict[str, Any]:
    """Shape of a layout: a thin line through the whole figure, at a number of one axis."""
    other = "y" if side == "x" else "x"
    ends = {f"{side}0": at, f"{side}1": at, f"{other}ref": "paper", f"{other}0": 0, f"{other}1": 1}
    return {"type": "line", **ends, "line": {"color": color, "width": 1, "dash": dash}}


def height_for_rows(rows: int) -> int:
    """Height (px) at which this many horizontal bars are legible."""
    return max(_LEAST_HEIGHT, _MARGIN_HEIGHT + ROW_HEIGHT * rows)


def drawing(traces: list[PlotlyTrace], **layout: Any) -> Drawing:  # noqa: ANN401
    """Draw without decoration; the notebook's theme gives fonts, grid and background."""
    settings: dict[str, Any] = {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "height": DEFAULT_HEIGHT,
        "margin": {"l": 8, "r": 16, "t": 8, "b": 8},  # right: room for the last tick label
        "bargap": 0.25,
        "hovermode": "closest",
        "dragmode": False,
    }
    if layout.get("showlegend") is not False:
        settings["legend"] = _LEGEND_ABOVE
    return Drawing(data=traces, layout=settings | layout)


def titled(drawn: Drawing, title: str) -> Drawing:
    """Add a title to a standalone figure; figures in panels have captions."""
    legend_above = len(drawn.data) > 1 and drawn.layout.get("showlegend") is not False
    room = _TITLE_HEIGHT + (_LEGEND_HEIGHT if legend_above else 0)
    heading = {"text": title, "x": 0, "xanchor": "left", "y": 1, "yanchor": "top", "pad": {"t": 8}}
    margin = drawn.layout["margin"]
    changes = {
        "title": heading,
        "height": drawn.layout["height"] + room,
        "margin": margin | {"t": margin["t"] + room},
    }
    return Drawing(drawn.data, drawn.layout | changes)


def emphasis(points: Sequence[int]) -> dict[str, Any]:
    """Settings of a bar trace that fade all bars except these; with none given, nothing fades."""
    return faded_but(points) if points else {}


def faded_but(points: Sequence[int]) -> dict[str, Any]:
    """Settings of a bar trace that fade all bars except these, even if there are none."""
    rest = {"marker": {"opacity": NOT_SELECTED_OPACITY}}
    return {"selectedpoints": list(points), "unselected": rest}


def axis(title: str = "", **settings: Any) -> dict[str, Any]:  # noqa: ANN401
    """Axis settings, including those that all axes share.

    Plotly keeps the range of an axis while its ``uirevision`` stays: not from shares to times.
    """
    return {
        "title": {"text": title},
        "uirevision": title,
        "automargin": True,
        "zeroline": False,
        "fixedrange": True,
    } | settings


def decades_axis(
    title: str, values: pd.Series[float], write: Callable[[float], str]
) -> dict[str, Any]:
    """Logarithmic axis over whole decades: a scale from min to max makes noise look large."""
    powers = np.log10(values.to_numpy(dtype=float))
    first = math.floor(powers.min(initial=math.inf)) if powers.size else 0
    last = max(math.ceil(powers.max(initial=first)), first + 1)
    digits = (1, 2, 5) if last - first <= _FEW_DECADES else (1,)
    ticks = [digit * 10.0**power for power in range(first, last + 1) for digit in digits]
    ticks = [each for each in ticks if each <= 10.0**last]
    return axis(
        title, type="log", range=[first, last], tickvals=ticks, ticktext=[*map(write, ticks)]
    )


def count_axis(title: str, most: float, **settings: Any) -> dict[str, Any]:  # noqa: ANN401
    """Axis of whole numbers up to `most`, with no ticks between them."""
    whole = {"dtick": 1} if most < _FEW else {}
    return axis(title, rangemode="tozero", **whole, **settings)


def row_ticks(labels: list[str]) -> dict[str, list[Any]]:
    """Labels of the rows 0, 1, …; with many rows, only every n-th is labelled."""
    every = -(-len(labels) // _MOST_TICKS) or 1
    return {"tickvals": list(range(0, len(labels), every)), "ticktext": labels[::every]}


def names_axis(names: list[str], title: str = "") -> dict[str, Any]:
    """Vertical axis of names, the first on top."""
    return axis(
        title,
        tickvals=list(range(len(names))),
        ticktext=names,
        range=[len(names) - 0.5, -0.5],
        showgrid=False,
        ticks="",
        ticklabeloverflow="allow",  # automargin makes room; plotly's own check is slow
    )


def row_bars(
    lengths: NDArray[Any],
    said: Sequence[str],
    **attributes: Any,  # noqa: ANN401
) -> PlotlyTrace:
    """Horizontal bars with hover texts, the first on top, in rows 0, 1, … unless `y` is given."""
    rows = {"y": np.arange(len(lengths))}
    return trace("bar", x=lengths, orientation="h", hovertext=said, **rows | attributes)


def rows_drawing(
    bars: list[PlotlyTrace],
    names: list[str],
    xaxis: dict[str, Any],
    **layout: Any,  # noqa: ANN401
) -> Drawing:
    """Draw `row_bars`, one row per name, with a legend if a row has several bars."""
    shape = {"height": height_for_rows(len(names)), "showlegend": len(bars) > 1}
    return drawing(bars, **shape | layout, xaxis=xaxis, yaxis=names_axis(names))


_STEPS = (1, 2, 5, 10)


def round_ticks(start: float, end: float, count: int) -> tuple[list[float], int]:
    """Round numbers from `start` to `end`, and the number of decimals they need.

    They have at most `count` intervals between them.

    Examples
    --------
    >>> round_ticks(0, 1, 6)
    ([0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0], 1)
    """
    rough = max(end - start, 1e-9) / count
    power = math.floor(math.log10(rough))
    factor = next(each for each in _STEPS if each * 10.0**power >= rough)
    step = factor * 10.0**power
    numbers = range(math.ceil(start / step), math.floor(end / step) + 1)
    return [number * step for number in numbers], max(0, -power - (factor == _STEPS[-1]))
