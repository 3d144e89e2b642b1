"""Figures of the comparison: largest kernel changes, times side by side, the longest events."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.compare import BOTH, FIRST, SECOND, Compare, by_change
from hta_widgets.analyses.time.duration_categories import category_label
from hta_widgets.analyses.time.rows import Row, records
from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace, selecting, trace
from hta_widgets.figures.base.style import (
    NEUTRAL,
    axis,
    decades_axis,
    drawing,
    faded_but,
    height_for_rows,
    line_across,
    row_bars,
    rows_drawing,
)
from hta_widgets.figures.base.text import hover_name, plot_names, plot_text
from hta_widgets.names.shorten import cut_in_the_middle
from hta_widgets.quantities import duration, number, percent, signed, time_unit
from hta_widgets.trace.model.kernels import type_words

FIRST_COLOR, SECOND_COLOR = "#8466B5", "#E66101"
"""Colours of the jobs: violet and orange, distinct for colour-blind readers."""

SORT_COLUMNS: Final = {
    "total": "delta_total_ns",
    "mean": "delta_mean_ns",
    "count": "delta_count",
}

_CHANGE_OF = {"total": "total time", "mean": "mean duration", "count": "launches"}
_TIME_NAMES = {
    "span": "First to last GPU operation",
    "busy": "Busy",
    "idle": "Idle",
    "compute": "Compute",
    "graph": "CUDA graphs",
    "non_compute": "Busy without computing",
    "communication": "Communication",
    "overlap": "Hidden communication",
    "beside_graph": "Communication during CUDA graphs",
    "exposed_communication": "Communication not hidden",
}
_BAR_WIDTH = 0.75
_TAIL_MARKERS = {
    1: ("circle", NEUTRAL),
    5: ("square", "#0072B2"),
    10: ("diamond", "#009E73"),
}
_TAIL_DISTANCE = 0.2
_LEGEND_WIDTH = 32


def changed_kernels(result: Compare, *, sort_by: str = "total") -> pd.DataFrame:
    """List the kernels that changed, largest change first.

    The change is that of the total time, the mean duration (only kernels in both jobs), or the
    number of launches (``count``).
    """
    column = SORT_COLUMNS[sort_by]
    table = by_change(result.kernels, column)
    return table[table[column].notna() & (table[column] != 0)].reset_index(drop=True)


def kernel_changes(
    result: Compare, *, num_kernels: int = 10, sort_by: str = "total", selected: str = ""
) -> Drawing:
    """Draw the largest kernel changes: less in the second job to the left, more to the right.

    The changes are those of `changed_kernels`. A click selects the kernel of the first job.
    """
    column = SORT_COLUMNS[sort_by]
    table = changed_kernels(result, sort_by=sort_by).head(num_kernels)
    unit = time_unit(float(table[column].abs().max()) if len(table) else 0)
    scale, symbol = (1, "") if sort_by == "count" else (unit.ns, f" ({unit.symbol})")
    looks = {
        BOTH: ("In both", NEUTRAL, ""),
        FIRST: (f"Only in {_legend_name(result.first)}", FIRST_COLOR, "/"),
        SECOND: (f"Only in {_legend_name(result.second)}", SECOND_COLOR, "\\"),
    }
    rows = records(table)
    names = [None if pd.isna(row["name_first"]) else row["name_first"] for row in rows]
    bars = [
        row_bars(
            np.array([rows[place][column] / scale for place in places]),
            [_kernel_hover(rows[place], result) for place in places],
            y=np.array(places),
            width=_BAR_WIDTH,
            name=name,
            marker={"color": color, "pattern": {"shape": pattern}},
            **selecting("kernel", [names[place] for place in places]),
            **(
                faded_but([at for at, place in enumerate(places) if names[place] == selected])
                if selected and selected in names
                else {}
            ),
        )
        for side, (name, color, pattern) in looks.items()
        if (places := [place for place, row in enumerate(rows) if row["in"] == side])
    ]
    per = f" {result.unit}" if result.unit and sort_by != "mean" else ""
    return rows_drawing(
        bars,
        plot_names([row["kernel"] for row in rows]),
        axis(f"Change in {_CHANGE_OF[sort_by]}{per}{symbol}", zeroline=True),
        barmode="overlay",
        showlegend=True,
    )


def _kernel_hover(row: Row, result: Compare) -> str:
    per = f" {result.unit}" if result.unit else ""
    total = f"{duration(row['total_first_ns'])} → {duration(row['total_second_ns'])}"
    count = f"{number(row['count_first'])} → {number(row['count_second'])}"
    mean = f"{duration(row['mean_first_ns'])} → {duration(row['mean_second_ns'])}"
    return (
        f"{hover_name(row['kernel'])}<br>{type_words(row['kernel_type'])}<br>"
        f"total{per}: {total} ({signed(row['delta_total_ns'], duration)})<br>"
        f"launches{per}: {count}<br>mean: {mean}"
    )


def _legend_name(job: str) -> str:
    return plot_text(cut_in_the_middle(job, _LEGEND_WIDTH))


def times(result: Compare) -> Drawing:
    """Draw the times of both jobs side by side, on one scale."""
    table = result.times[result.times[["first_ns", "second_ns"]].any(axis=1)]
    unit = time_unit(float(table[["first_ns", "second_ns"]].to_numpy().max()))
    jobs = ((FIRST, result.first, FIRST_COLOR), (SECOND, result.second, SECOND_COLOR))
    bars = [
        row_bars(
            table[f"{side}_ns"].to_numpy(dtype=float) / unit.ns,
            [_time_hover(row, side, name) for row in records(table)],
            name=_legend_name(name),
            marker={"color": color},
        )
        for side, name, color in jobs
    ]
    per = f" {result.unit}" if result.unit else ""
    return rows_drawing(
        bars,
        [_TIME_NAMES[time] for time in table["time"]],
        axis(f"Time{per} ({unit.symbol})", rangemode="tozero"),
        barmode="group",
        height=height_for_rows(len(table) + 1),
    )


def _time_hover(row: Row, side: str, job: str) -> str:
    share = f", {percent(row[f'{side}_percent'])} of the {row['percent_of']}"
    return (
        f"{hover_name(job)}<br>{_TIME_NAMES[row['time']]}: "
        f"{duration(row[f'{side}_ns'])}{share}<br>"
        f"change: {signed(row['delta_ns'], duration)}, "
        f"{number(row['delta_percentage_points'])} percentage points"
    )


def tails(result: Compare) -> Drawing:
    """Draw how the longest events of each category compare, as the second job ÷ the first."""
    defined = result.tails[result.tails["ratio_mean"] > 0]
    categories = list(dict.fromkeys(defined["category"]))
    marks = [
        _tail_marks(defined[defined["percent"] == longest], categories, longest, place)
        for place, longest in enumerate(_TAIL_MARKERS, start=-1)
    ]
    return drawing(
        marks,
        showlegend=True,
        shapes=[line_across("y", 1)],
        xaxis=axis(
            tickvals=list(range(len(categories))),
            ticktext=[category_label(each) for each in categories],
            range=[-0.5, max(len(categories), 1) - 0.5],
            showgrid=False,
        ),
        yaxis=decades_axis("Mean of longest events, second ÷ first", defined["ratio_mean"], number),
    )


def _tail_marks(
    table: pd.DataFrame, categories: list[str], longest: int, place: int
) -> PlotlyTrace:
    symbol, color = _TAIL_MARKERS[longest]
    return trace(
        "scatter",
        x=[categories.index(each) + _TAIL_DISTANCE * place for each in table["category"]],
        y=table["ratio_mean"].to_numpy(dtype=float),
        name=f"Longest {longest} %",
        mode="markers",
        marker={"color": color, "symbol": symbol, "size": 10},
        hovertext=[_tail_hover(row) for row in records(table)],
    )


def _tail_hover(row: Row) -> str:
    return (
        f"{category_label(row['category'])}, longest {row['percent']} %<br>"
        f"{duration(row['mean_second_ns'])} ({row['k_second']:,} of {row['count_second']:,}) ÷ "
        f"{duration(row['mean_first_ns'])} ({row['k_first']:,} of {row['count_first']:,}) = "
        f"{number(row['ratio_mean'])}"
    )
