"""Figures of the roofline: operators under their GPU's roof, and their time at peak rates."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.roofline import operator_label
from hta_widgets.analyses.roofline.peaks import Peak
from hta_widgets.analyses.time.rows import Row, records
from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace, objects, trace
from hta_widgets.figures.base.style import (
    CLASS_COLORS,
    NEUTRAL,
    TYPE_COLORS,
    axis,
    drawing,
    emphasis,
    rows_drawing,
)
from hta_widgets.figures.base.text import hover_name, plot_names, plot_text
from hta_widgets.figures.selected_operators import NO_OPERATORS, SELECT_BY_SHAPE, SelectedOperators
from hta_widgets.quantities import counted, data_size, duration, number, percent, time_unit

BOUNDS: Final = {
    "compute": ("Compute-bound", TYPE_COLORS["COMPUTATION"], "circle"),
    "memory": ("Memory-bound", TYPE_COLORS["MEMORY"], "square"),
    "launch": ("Launch-bound", TYPE_COLORS["COMMUNICATION"], "diamond"),
}
_HEIGHT: Final = 380
_MARKER: Final = 9
_ROOM: Final = 2.0
"""Factor between the outermost operators and the edges of the chart."""


def roofline(
    table: pd.DataFrame, peak: Peak, *, selected: SelectedOperators = NO_OPERATORS
) -> Drawing:
    """Draw operators by intensity and rate, under the roof of their GPU.

    `table` comes from `over_ranks`, for GPUs with one peak; operators without FLOP are not drawn.
    """
    shown = table[(table["flop"] > 0) & (table["gpu_ns"] > 0)]
    x_range = _decades(shown["intensity"])
    tops: dict[float, list[str]] = {}
    for dtype in sorted({*shown["dtype"]} & peak.tflops.keys()):
        tops.setdefault(peak.tflops[dtype], []).append(dtype)  # bf16 and fp16 have one roof
    y_range = _decades(pd.Series([*shown["tflops"], *tops]))
    roofs = [_roof(dtypes, peak, x_range) for dtypes in tops.values()]
    points = [_points(bound, shown[shown["bound"] == bound], selected) for bound in BOUNDS]
    return drawing(
        [*roofs, *(each for each in points if len(each["x"]))],
        height=_HEIGHT,
        showlegend=True,
        xaxis=axis("Intensity (FLOP per byte)", type="log", range=x_range),
        yaxis=axis("TFLOP/s", type="log", range=y_range),
    )


def operator_rates(
    table: pd.DataFrame, *, num_operators: int = 15, selected: SelectedOperators = NO_OPERATORS
) -> Drawing:
    """Draw the rates of the longest operators, from `over_ranks`, for GPUs of unknown peak."""
    shown = table[table["flop"] > 0].head(num_operators)
    about = _identified(shown, selected)
    bar = _bars(shown["tflops"], "TFLOP/s", TYPE_COLORS["COMPUTATION"], about)
    return _with_names([bar], shown, axis("TFLOP/s", rangemode="tozero"))


def operator_times(
    table: pd.DataFrame, *, num_operators: int = 15, selected: SelectedOperators = NO_OPERATORS
) -> Drawing:
    """Draw the GPU time of operators, from `over_ranks`: at peak rates, and the excess."""
    shown = table.head(num_operators)
    unit = time_unit(float(shown["gpu_ns"].max()))
    times = shown["gpu_ns"] / unit.ns
    at_peak = (times * shown["percent_of_peak"].clip(upper=100) / 100).fillna(0.0)
    known = shown["percent_of_peak"].notna()
    parts = (
        (at_peak, "Ideal", TYPE_COLORS["COMPUTATION"]),
        ((times - at_peak).where(known, 0.0), "Excess", CLASS_COLORS["transfer"]),
        (times.where(~known, 0.0), "Peak not known", NEUTRAL),
    )
    about = _identified(shown, selected)
    bars = [_bars(*part, about) for part in parts if part[0].any()]
    return _with_names(bars, shown, axis(f"GPU time ({unit.symbol})", rangemode="tozero"))


def _with_names(bars: list[PlotlyTrace], shown: pd.DataFrame, values: dict[str, Any]) -> Drawing:
    rows = records(shown)
    labels = [operator_label(row) for row in rows]
    times = Counter(labels)
    told_apart = [
        f"{label} · {row['dtype']}" if times[label] > 1 and row["dtype"] else label
        for label, row in zip(labels, rows, strict=True)
    ]
    return rows_drawing(
        bars,
        plot_names(told_apart, _LABEL_WIDTH),
        values,
        barmode="stack",
        meta={"least_width": _LEAST_WIDTH},
    )


def _bars(values: pd.Series[float], name: str, color: str, about: dict[str, Any]) -> PlotlyTrace:
    return trace(
        "bar",
        x=values.to_numpy(dtype=float),
        y=np.arange(len(values)),
        orientation="h",
        name=name,
        marker={"color": color},
        **about,
    )


def _points(bound: str, shown: pd.DataFrame, selected: SelectedOperators) -> PlotlyTrace:
    name, color, symbol = BOUNDS[bound]
    return trace(
        "scatter",
        x=shown["intensity"].to_numpy(dtype=float),
        y=shown["tflops"].to_numpy(dtype=float),
        mode="markers",
        name=name,
        marker={"color": color, "size": _MARKER, "symbol": symbol},
        **_identified(shown, selected),
    )


def _identified(shown: pd.DataFrame, selected: SelectedOperators) -> dict[str, Any]:
    """Hover text of each bar or point, and what a click on it selects."""
    items = shown[["operator", "input_dims"]].to_numpy(dtype=object).tolist()
    kept = [place for place, item in enumerate(items) if selected.has(*item)]
    return {
        "customdata": objects(items),
        "meta": SELECT_BY_SHAPE,
        "hovertext": [_hover(row) for row in records(shown)],
        **emphasis(kept),
    }


def _roof(dtypes: list[str], peak: Peak, x_range: list[float]) -> PlotlyTrace:
    """The lower of the limits by memory and by compute, as straight lines on logarithmic axes."""
    top = peak.tflops[dtypes[0]]
    ridge = 1000 * top / peak.gb_per_s
    low, high = (10**edge for edge in x_range)
    x = np.array(sorted({low, min(max(ridge, low), high), high}))
    return trace(
        "scatter",
        x=x,
        y=np.minimum(top, x * peak.gb_per_s / 1000),
        mode="lines",
        name=f"Peak of {' and '.join(dtypes)}: {number(top)} TFLOP/s, {number(peak.gb_per_s)} GB/s",
        line={"color": NEUTRAL, "width": 2, "dash": _DASHES.get(dtypes[0], "solid")},
        hoverinfo="skip",
    )


_DASHES: Final = {"fp32": "dot", "tf32": "dash", "fp8": "dash"}


def _decades(values: pd.Series[float]) -> list[float]:
    """Range of a logarithmic axis with room around all values."""
    positive = values[values > 0]
    if positive.empty:
        return [0.0, 1.0]
    return [
        float(np.log10(positive.min() / _ROOM)),
        float(np.log10(positive.max() * _ROOM)),
    ]


_LABEL_WIDTH: Final = 60
_LEAST_WIDTH: Final = 800
"""Minimum width (px) of bars with labels this long."""


def _hover(row: Row) -> str:
    lines = [
        hover_name(row["operator"]),
        hover_name(row["input_dims"]),
        f"{counted(row['calls'], 'call')}, {duration(row['gpu_ns'])} of GPU time",
    ]
    if row["flop"]:
        lines.append(
            f"{number(row['tflops'])} TFLOP/s in {plot_text(row['dtype'])}, "
            f"{number(row['intensity'])} FLOP per byte"
        )
    lines.append(f"{data_size(row['bytes'])}, {number(row['gb_per_s'])} GB/s")
    if row["percent_of_peak"] == row["percent_of_peak"]:
        lines.append(f"{percent(row['percent_of_peak'])} of the peak, bound by {row['bound']}")
    if row["module"]:
        lines.append(f"mostly in {hover_name(row['module'])}")
    return "<br>".join(lines)
