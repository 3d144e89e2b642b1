"""One look for all figures: colours by meaning, the notebook's own theme for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace
from hta_widgets.trace.model.kernels import KernelType

OVERLAPPED = "#56B4E9"
IDLE = "#BBBBBB"
NEUTRAL = "#7A8794"
NOT_SELECTED_OPACITY = 0.25

TYPE_COLORS = {
    KernelType.COMPUTATION.name: "#0072B2",
    KernelType.COMMUNICATION.name: "#E69F00",
    KernelType.MEMORY.name: "#009E73",
    KernelType.OTHER.name: "#CC79A7",
}
"""Okabe-Ito palette, distinct for colour-blind readers."""

DEFAULT_HEIGHT = 320
ROW_HEIGHT = 26
_TITLE_HEIGHT = 36
_LEGEND_HEIGHT = 24
_MARGIN_HEIGHT = 70
_LEAST_HEIGHT = 150
"""With less, a legend above and the title of an axis leave plotly no room between them."""


def type_color(kernel_type: str) -> str:
    """Colour of a kernel type, or of a combination of types."""
    if kernel_type in TYPE_COLORS:
        return TYPE_COLORS[kernel_type]
    hidden = {KernelType.COMPUTATION.name, KernelType.COMMUNICATION.name}
    parts = set(kernel_type.split(" overlapping "))
    return OVERLAPPED if hidden <= parts else TYPE_COLORS[KernelType.OTHER.name]


def height_for_rows(rows: int) -> int:
    """Height (px) at which this many horizontal bars are legible."""
    return max(_LEAST_HEIGHT, _MARGIN_HEIGHT + ROW_HEIGHT * rows)


def drawing(traces: list[PlotlyTrace], **layout: Any) -> Drawing:  # noqa: ANN401
    """Draw without decoration; the notebook's theme gives fonts, grid and background."""
    settings: dict[str, Any] = {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "height": DEFAULT_HEIGHT,
        "margin": {"l": 8, "r": 16, "t": 8, "b": 8},  # a label at the right end needs the room
        "bargap": 0.25,
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": 1.02,
            "yanchor": "bottom",
            "traceorder": "normal",
        },
        "hovermode": "closest",
        "dragmode": False,
    }
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
    """Settings of a bar trace that fade all bars except some; none given means no fading."""
    if not points:
        return {}
    faded = {"marker": {"opacity": NOT_SELECTED_OPACITY}}
    return {"selectedpoints": list(points), "unselected": faded}


def axis(title: str = "", **settings: Any) -> dict[str, Any]:  # noqa: ANN401
    """Axis settings, including those that all axes share."""
    return {
        "title": {"text": title},
        "automargin": True,
        "zeroline": False,
        "fixedrange": True,
    } | settings


def names_axis(names: list[str]) -> dict[str, Any]:
    """Vertical axis of names, the first on top."""
    return axis(
        tickvals=list(range(len(names))),
        ticktext=names,
        range=[len(names) - 0.5, -0.5],
        showgrid=False,
        ticks="",
        ticklabeloverflow="allow",  # automargin makes room; to look for it takes plotly long
    )
