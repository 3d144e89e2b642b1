"""Figures of the duration tails: time by category, and the time in the longest events."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hta_widgets.analyses.duration_tails import ALL_RANKS, DurationTails, defined_tails
from hta_widgets.analyses.time.duration_categories import category_label
from hta_widgets.analyses.time.rows import Row, records
from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace, trace
from hta_widgets.figures.base.style import (
    NEUTRAL,
    TYPE_COLORS,
    axis,
    drawing,
    line_across,
    row_bars,
    rows_drawing,
)
from hta_widgets.quantities import counted, duration, percent

_GPU = TYPE_COLORS["COMPUTATION"]
_MEMORY = TYPE_COLORS["MEMORY"]
_LOOKS = {
    "kernel": (_GPU, "solid"),
    "memcpy": (_MEMORY, "solid"),
    "memset": (_MEMORY, "dot"),
    "graph": (TYPE_COLORS["CUDA_GRAPH"], "solid"),
    "runtime": (NEUTRAL, "solid"),
    "driver": (NEUTRAL, "dot"),
}
"""Colour and dash of each category."""

_TICKS = (0.001, 0.01, 0.1, 1, 10, 100)


def category_shares(result: DurationTails, *, side: str = "") -> Drawing:
    """Draw the time of each category, summed over all ranks, the longest first.

    Categories of the device come above those of the host, because the two run concurrently. For one
    `side` (``device`` or ``host``), shares are of its time; if `side` is empty, of both.
    """
    share_of = "share_of_side_percent" if side else "share_percent"
    rows = sorted(_of_side(result, side), key=lambda row: (row["side"] != "device", -row[share_of]))
    share = [row[share_of] for row in rows]
    bar = row_bars(
        np.array(share, dtype=float),
        [_share_hover(row) for row in rows],
        marker={"color": [_LOOKS[row["category"]][0] for row in rows]},
        text=[percent(each) for each in share],
        textposition="auto",
    )
    return rows_drawing(
        [bar],
        [_label(row, side) for row in rows],
        axis(f"Share of {side or 'host and device'} time (%)", rangemode="tozero"),
    )


def tail_curves(result: DurationTails, *, side: str = "") -> Drawing:
    """Draw how much of each category's time is in its longest events, over all ranks.

    The result's percentage is marked. `side` is ``device`` or ``host``; empty draws both.
    """
    names = [row["category"] for row in _of_side(result, side)]
    curves = dict(iter(result.curves.groupby("category", sort=False)))
    marked = {row["category"]: row for row in defined_tails(result.tails, result.percent)}
    lines = [_line(curves[name], name) for name in names]
    counts = {row["category"]: row["count"] for row in _of_side(result, side)}
    marks = [_mark(marked[name], name, counts[name]) for name in names if name in marked]
    first = (float(curve["events_percent"].iloc[0]) for curve in curves.values())
    least = min(first, default=1.0)
    return drawing(
        [*lines, *marks],
        showlegend=True,
        shapes=[line_across("x", result.percent)],
        xaxis=axis(
            "Longest events (% of the category's events)",
            type="log",
            range=[np.log10(min(least, 1.0)), 2],
            tickvals=[tick for tick in _TICKS if tick >= least],
            ticktext=[f"{tick:g}" for tick in _TICKS if tick >= least],
        ),
        yaxis=axis("Share of the category's time (%)", range=[0, 102]),
    )


def _of_side(result: DurationTails, side: str) -> list[Row]:
    """Categories of a side, over all ranks."""
    together = [row for row in records(result.categories) if row["rank"] == ALL_RANKS]
    return [row for row in together if not side or row["side"] == side]


def _label(row: Row, side: str) -> str:
    name = category_label(row["category"])
    return name if side else f"{name} ({row['side']})"


def _share_hover(row: Row) -> str:
    return (
        f"{category_label(row['category'])}: {row['count']:,}, {duration(row['total_ns'])}<br>"
        f"{percent(row['share_of_side_percent'])} of {row['side']} time, "
        f"{percent(row['share_percent'])} of host and device time<br>"
        f"{duration(row['min_ns'])} to {duration(row['max_ns'])}, mean {duration(row['mean_ns'])}"
    )


def _line(curve: pd.DataFrame, category: str) -> PlotlyTrace:
    name, (color, dash) = category_label(category), _LOOKS[category]
    return trace(
        "scatter",
        x=curve["events_percent"].to_numpy(float),
        y=curve["time_percent"].to_numpy(float),
        name=name,
        mode="lines",
        line={"color": color, "dash": dash, "width": 2},
        hovertemplate=(
            f"{name}<br>Longest %{{x:.3~g}} %: %{{y:.3~g}} % of the time<extra></extra>"
        ),
    )


def _mark(tail: Row, category: str, count: int) -> PlotlyTrace:
    name, (color, _) = category_label(category), _LOOKS[category]
    text = (
        f"{name}<br>Longest {percent(tail['percent'])} ({counted(tail['k'], 'event')}): "
        f"{percent(tail['share_percent'])} of the time<br>mean {duration(tail['mean_ns'])}, "
        f"shortest {duration(tail['threshold_ns'])}"
    )
    return trace(
        "scatter",
        x=[100 * tail["k"] / count],  # on the curve, whose shares are of whole events
        y=[tail["share_percent"]],
        mode="markers",
        marker={"color": color, "size": 8},
        showlegend=False,
        hovertext=[text],
    )
