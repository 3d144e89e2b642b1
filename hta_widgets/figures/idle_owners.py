"""Figures of the owners of idle time: its causes on each GPU, and the calls it belongs to."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.budget.classes import CLASS_LABELS
from hta_widgets.analyses.time.causes import CODE, idle_cause
from hta_widgets.arrays import Int64Array
from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace, selecting
from hta_widgets.figures.base.rank_bars import BarPart, stacked_time_bars
from hta_widgets.figures.base.style import CLASS_COLORS, axis, emphasis, row_bars, rows_drawing
from hta_widgets.figures.base.text import hover_name, plot_names
from hta_widgets.figures.selected_operators import NO_OPERATORS, SelectedOperators
from hta_widgets.quantities import duration, percent, time_unit

NO_OWNER = "(no CPU call recorded)"

_LATE, _OTHER = CLASS_COLORS["late_launching"], CLASS_COLORS["other_idle"]
_LATE_TOO: Final = "#9A6FB8"
"""A second colour for causes that make the CPU late."""

LOOKS: Final = {
    "data_loading": (CLASS_COLORS["data_loading"], None),
    "launching": (_LATE, None),
    "operator": (_LATE_TOO, None),
    "host_code": (_LATE_TOO, "."),
    "synchronising": (_LATE, "/"),
    "allocating": (_LATE, "x"),
    "initialising": (_LATE, "."),
    "compiling": (_LATE_TOO, "x"),
    "garbage_collection": (_LATE_TOO, "|"),
    "profiler": (_OTHER, "|"),
    "nothing_recorded": (_LATE_TOO, "\\"),
    "between_kernels": (_OTHER, ""),
    "inside_graph": (_OTHER, "."),
    "dependency": (_OTHER, "/"),
    "launch_not_recorded": (_OTHER, None),
}
"""Colour and pattern of each cause. The colour is that of its usual budget class; patterns tell the
causes of one class apart."""


def idle_causes(
    table: pd.DataFrame, *, selected: Collection[int] = (), as_percent: bool = True
) -> Drawing:
    """Draw the causes of each GPU's idle time, from `causes_by_device`, as one stacked bar."""
    return stacked_time_bars(
        table,
        [_part(name) for name in table.columns if name.partition(":")[0] in CODE],
        whole="idle_ns",
        whole_name="idle time",
        selected=selected,
        as_percent=as_percent,
    )


def idle_owners_by_name(
    table: pd.DataFrame,
    *,
    num_owners: int = 10,
    as_percent: bool = True,
    selected: SelectedOperators = NO_OPERATORS,
    has_legend: bool = False,
) -> Drawing:
    """Draw the calls with the most idle time, by cause, summed over the GPUs.

    `table` comes from `owners_by_name`. A click selects the calls of that name. A legend is needed
    where no chart of the causes of each GPU, which explains the colours, is next to it.
    """
    times = table.to_numpy()
    whole_ns = int(times.sum())
    times, owners = times[:num_owners], table.index[:num_owners].tolist()
    unit = time_unit(float(times.sum(axis=1).max(initial=0)))
    scale = (whole_ns or np.nan) / 100 if as_percent else unit.ns
    title = "Share of idle time (%)" if as_percent else f"Idle time ({unit.symbol})"
    names = [owner or NO_OWNER for owner in owners]
    clicked = {
        **selecting("operators", [owner or None for owner in owners]),
        **emphasis([place for place, owner in enumerate(owners) if selected.has(owner)]),
    }
    return rows_drawing(
        [
            _bars(_part(cause), names, times[:, column], whole_ns, scale) | clicked
            for column, cause in enumerate(table.columns)
            if times[:, column].any()
        ],
        plot_names(names),
        axis(title, rangemode="tozero"),
        barmode="stack",
        showlegend=has_legend,
    )


def _part(name: str) -> BarPart:
    """Part of a cause as `causes_by_device` names it, in the colour of the class it counts as."""
    cause, _, counted = name.partition(":")
    (color, pattern), label = LOOKS[cause], idle_cause(cause).label
    if counted:
        color, label = CLASS_COLORS[counted], f"{label} ({CLASS_LABELS[counted]})"
        pattern = {"/": "\\", "\\": "x"}.get(pattern or "", pattern)  # not as usual
    return BarPart(name, label, color, pattern=pattern)


def _bars(
    part: BarPart, names: list[str], times: Int64Array, whole_ns: int, scale: float
) -> PlotlyTrace:
    return row_bars(
        times / scale,
        [
            f"{hover_name(name)}<br>{part.name}: {duration(ns)}, "
            f"{percent(100 * ns / whole_ns)} of {duration(whole_ns)} idle time"
            for name, ns in zip(names, times.tolist(), strict=True)
        ],
        name=part.name,
        marker=part.marker,
    )
