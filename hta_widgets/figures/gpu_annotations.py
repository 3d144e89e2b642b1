"""Figure of the user annotations that take the most time."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

import pandas as pd

from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace, selecting
from hta_widgets.figures.base.style import (
    NEUTRAL,
    OVERLAPPED,
    axis,
    emphasis,
    row_bars,
    rows_drawing,
)
from hta_widgets.figures.base.text import hover_name, plot_names
from hta_widgets.figures.selected_operators import NO_OPERATORS, SelectedOperators
from hta_widgets.quantities import TimeUnit, counted, duration, time_unit

_OWN_COLOR: Final = "#0072B2"
_INSIDE_COLOR: Final = OVERLAPPED


def gpu_annotations(
    table: pd.DataFrame,
    *,
    on: str = "gpu",
    num_annotations: int = 15,
    selected: SelectedOperators = NO_OPERATORS,
) -> Drawing:
    """Draw the `GpuAnnotations` with the most time on ``gpu`` or ``cpu``, summed over the ranks.

    On the GPU, a bar has two parts: work launched in the annotation itself, and work launched in
    annotations inside it. A click selects what is launched in annotations of that name.
    """
    column = "gpu_ns" if on == "gpu" else "cpu_sum_ns"
    sums = table.groupby("annotation", sort=False).sum(numeric_only=True)
    sums = sums.sort_values(column, ascending=False, kind="stable")
    sums = sums[sums[column] > 0].iloc[:num_annotations]
    unit = time_unit(float(sums[column].max())) if len(sums) else time_unit(0.0)
    if on == "gpu":
        inside = sums["gpu_ns"] - sums["gpu_self_ns"]
        bars = [
            _bars(sums, times, unit, part, color)
            for times, part, color in (
                (sums["gpu_self_ns"], "Self", _OWN_COLOR),
                (inside, "Nested", _INSIDE_COLOR),
            )
            if times.any()
        ]
    else:
        bars = [_bars(sums, sums[column], unit, "CPU time", NEUTRAL)]
    title = "GPU time" if on == "gpu" else "CPU time"
    names = sums.index.tolist()
    clicked = {
        **selecting("operators", names),
        **emphasis([place for place, name in enumerate(names) if selected.has(name)]),
    }
    return rows_drawing(
        [bar | clicked for bar in bars],
        plot_names(names),
        axis(f"{title} ({unit.symbol})", rangemode="tozero"),
        barmode="stack",
        showlegend=len(bars) > 1,
    )


def _bars(
    sums: pd.DataFrame, times: pd.Series[int], unit: TimeUnit, part: str, color: str
) -> PlotlyTrace:
    return row_bars(
        times.to_numpy() / unit.ns,
        [
            f"{hover_name(name)}<br>{part}: {duration(ns)}<br>{_all_of(row)}"
            for name, ns, row in zip(
                sums.index, times.tolist(), sums.to_dict("records"), strict=True
            )
        ],
        name=part,
        marker={"color": color},
    )


def _all_of(row: Mapping[Hashable, int]) -> str:
    return (
        f"{counted(row['calls'], 'call')}, {duration(row['cpu_sum_ns'])} on the CPU<br>"
        f"{counted(row['gpu_work'], 'piece')} of GPU work, {duration(row['gpu_ns'])}; GPU busy for "
        f"{duration(row['gpu_busy_ns'])} of a span of {duration(row['gpu_span_ns'])}"
    )
