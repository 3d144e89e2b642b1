"""Figures of the launch statistics: three histograms, and what each launching API launches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.launch_stats import (
    LAUNCH_DELAY_OUTLIERS,
    RUNTIME_OUTLIERS,
    SHORT_KERNELS,
    LaunchStats,
)
from hta_widgets.figures.drawing import Drawing, Trace, trace
from hta_widgets.figures.style import NEUTRAL, TYPE_COLORS, axis, drawing, height_for_rows
from hta_widgets.figures.text import plot_name
from hta_widgets.quantities import TimeUnit, duration, time_unit


class _Words(NamedTuple):
    """Words of a histogram; ``{}`` is the cutoff."""

    quantity: str
    counted: str
    none: str


_WORDS = {
    SHORT_KERNELS: _Words(
        "Duration of the call, up to {}",
        "Operations",
        "No operation is shorter than its call, of those up to {}",
    ),
    RUNTIME_OUTLIERS: _Words(
        "Duration of the call, above {}", "Calls", "No call lasts longer than {}"
    ),
    LAUNCH_DELAY_OUTLIERS: _Words(
        "Launch delay, above {}", "Operations", "No operation starts more than {} after its launch"
    ),
}


def launch_histogram(result: LaunchStats, distribution: str) -> Drawing:
    """Draw one of the distributions, summed over ranks.

    Parameters
    ----------
    result : LaunchStats
    distribution : {"short_kernels", "runtime_outliers", "launch_delay_outliers"}
    """
    cutoff_ns = (
        result.launch_delay_cutoff_ns
        if distribution == LAUNCH_DELAY_OUTLIERS
        else result.runtime_cutoff_ns
    )
    words = _Words(*(text.format(duration(cutoff_ns)) for text in _WORDS[distribution]))
    table = result.distributions[result.distributions["distribution"] == distribution]
    unit = time_unit(float(table["end_ns"].max()) if len(table) else 0)
    start = table["start_ns"].to_numpy(dtype=float) / unit.ns
    end = table["end_ns"].to_numpy(dtype=float) / unit.ns
    bar = trace(
        "bar",
        x=(start + end) / 2,
        width=end - start,
        y=table["count"].to_numpy(),
        marker={"color": NEUTRAL, "line": {"width": 0}},
        hovertext=_bin_hover(table, unit, words.counted),
        hovertemplate="%{hovertext}<extra></extra>",
    )
    return drawing(
        [bar],
        height=260,
        showlegend=False,
        bargap=0,
        xaxis=axis(f"{words.quantity} ({unit.symbol})", showticklabels=len(table) > 0),
        yaxis=axis(words.counted, rangemode="tozero", showticklabels=len(table) > 0),
        **({} if len(table) else {"annotations": [_note(words.none)]}),
    )


def launches_by_api(result: LaunchStats) -> Drawing:
    """Draw how many operations each API launches, by kernel type, summed over ranks."""
    table = result.launched.groupby(["launch_api", "kernel_type"], as_index=False)[
        ["operations", "gpu_duration_ns"]
    ].sum()
    totals = table.groupby("launch_api")["operations"].sum()
    apis = totals.sort_values(ascending=False, kind="stable").index.tolist()
    calls = result.apis.groupby("launch_api")["calls"].sum()
    place = {api: position for position, api in enumerate(apis)}
    bars = [
        _bar_of_type(table[table["kernel_type"] == kernel_type], kernel_type, place, calls)
        for kernel_type in TYPE_COLORS
        if (table["kernel_type"] == kernel_type).any()
    ]
    return drawing(
        bars,
        barmode="stack",
        height=height_for_rows(len(apis)),
        showlegend=True,
        xaxis=axis("Operations launched", rangemode="tozero"),
        yaxis=axis(
            tickvals=list(range(len(apis))),
            ticktext=[plot_name(api) for api in apis],
            range=[len(apis) - 0.5, -0.5],
            showgrid=False,
            ticks="",
        ),
    )


def _bar_of_type(
    table: pd.DataFrame, kernel_type: str, place: dict[str, int], calls: pd.Series[int]
) -> Trace:
    return trace(
        "bar",
        x=table["operations"].to_numpy(),
        y=np.array([place[api] for api in table["launch_api"]]),
        orientation="h",
        name=kernel_type.capitalize(),
        marker={"color": TYPE_COLORS[kernel_type]},
        hovertext=[
            f"{plot_name(api)}<br>Calls: {calls[api]:,}<br>{kernel_type.capitalize()} operations: "
            f"{operations:,}, {duration(ns)} on the GPU"
            for api, operations, ns in zip(
                table["launch_api"], table["operations"], table["gpu_duration_ns"], strict=True
            )
        ],
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _bin_hover(table: pd.DataFrame, unit: TimeUnit, counted: str) -> list[str]:
    return [
        f"{start / unit.ns:,.7g} to {end / unit.ns:,.7g} {unit.symbol}<br>{counted}: {count:,}"
        for start, end, count in zip(
            table["start_ns"], table["end_ns"], table["count"], strict=True
        )
    ]


def _note(text: str) -> dict[str, object]:
    """Words in the middle of an empty figure."""
    middle = {"x": 0.5, "y": 0.5, "xref": "paper", "yref": "paper"}
    return {"text": text, "showarrow": False, **middle}
