"""Figures of the critical path: its classes, where it runs, and what each kernel is worth."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.diagnosis.critical_path import CriticalPathTables
from hta_widgets.diagnosis.replay.critical_path import BOUND_BY, shares
from hta_widgets.figures.base.drawing import Drawing, selecting
from hta_widgets.figures.base.rank_bars import rows_of_ranks
from hta_widgets.figures.base.style import (
    CLASS_COLORS,
    CLASS_INK,
    axis,
    class_marker,
    drawing,
    emphasis,
    height_for_rows,
    row_bars,
    rows_drawing,
)
from hta_widgets.figures.base.text import hover_name, plot_names
from hta_widgets.figures.what_if import CLASS_OF
from hta_widgets.quantities import counted, duration, percent, some_of, time_unit

LOOK: Final = {each: CLASS_OF[what] for what, classes in BOUND_BY.items() for each in classes} | {
    "return from a sync": "late_synchronising",
    "profiler": "other_idle",
}
"""Budget class whose look each class of the path takes."""

_LEGEND: Final = {each: what for what, classes in BOUND_BY.items() for each in classes} | {
    each: each for each in ("return from a sync", "profiler")
}

_MOST_PIECES: Final = 500
"""With more pieces over time, consecutive pieces of the same name are joined."""

_LEAST_PERCENT: Final = 0.01
"""Classes with a smaller share of the path get no bar: it would be invisible."""

_RUNS: Final = ("compute", "copies", "communication", "transfer")
"""Classes of the path in which a GPU operation runs."""


def path_classes(result: CriticalPathTables) -> Drawing:
    """Draw how much of the path each class takes up, the longest first."""
    table = result.classes[result.classes["percent"] >= _LEAST_PERCENT]
    unit = time_unit(float(table["ns"].max()) if len(table) else 0)
    pairs = zip(table["ns"].tolist(), table["percent"].tolist(), strict=True)
    shares = [f"{duration(ns)} ({percent(share)})" for ns, share in pairs]
    names = table["class"].tolist()
    bars = row_bars(
        table["ns"].to_numpy() / unit.ns,
        names,
        marker={"color": [CLASS_COLORS[LOOK[name]] for name in names], "line": {"width": 0}},
        text=shares,
        textposition="auto",
        insidetextfont={"color": [CLASS_INK.get(LOOK[name], "#FFFFFF") for name in names]},
        hovertemplate="%{hovertext}: %{text}<extra></extra>",
    )
    title = f"Critical path ({unit.symbol}){_bound_by(result, names)}"
    return rows_drawing([bars], names, axis(title, rangemode="tozero"))


def _bound_by(result: CriticalPathTables, names: list[str]) -> str:
    """What bounds the steps, with its share, if that is the sum of several bars."""
    what, share = next(iter(shares(result.classes).items()))
    bars = [name for name in names if name in BOUND_BY[what]]
    return f"<br>{what}: {percent(share)} ({some_of(bars, 2)})" if len(bars) > 1 else ""


def kernel_drags(
    result: CriticalPathTables, *, num_kernels: int = 10, selected: str = ""
) -> Drawing:
    """Draw what removing one call of each kernel saves; a click selects the kernel."""
    table = result.kernels[result.kernels["drag_ns"] > 0].head(num_kernels)
    unit = time_unit(float(table["drag_ns"].max()) if len(table) else 0)
    kernels = table["kernel"].tolist()
    names = plot_names(kernels)
    ran = result.pieces[result.pieces["class"].isin(_RUNS)]
    class_of = dict(zip(ran["kernel"].tolist(), ran["class"].tolist(), strict=True))
    bars = row_bars(
        table["drag_ns"].to_numpy() / unit.ns,
        [
            f"{hover_name(row['kernel'])}<br>saved without its costliest call: "
            f"{duration(row['drag_ns'])}<br>on the path: {duration(row['ns'])} in "
            f"{row['critical_calls']:,} of {counted(row['calls'], 'call')}"
            for row in table.to_dict("records")
        ],
        marker={
            "color": [CLASS_COLORS[LOOK[class_of.get(each, "compute")]] for each in kernels],
            "line": {"width": 0},
        },
        **selecting("kernel", kernels),
        **emphasis([at for at, kernel in enumerate(kernels) if kernel == selected]),
    )
    return rows_drawing([bars], names, axis(f"Saved ({unit.symbol})", rangemode="tozero"))


def path_over_time(result: CriticalPathTables, *, selected: Collection[int] = ()) -> Drawing:
    """Draw which rank the path runs on, and as what, along the path's own time.

    Unlike recorded time, the path's time has no gaps where a step is not analysed or where the
    profiler was working.
    """
    pieces = _joined(result.pieces)
    unit = time_unit(float(result.pieces["ns"].sum()))
    ranks = sorted(pieces["rank"].unique().tolist())
    row_of = {rank: row for row, rank in enumerate(ranks)}
    traces = []
    for name in dict.fromkeys(pieces["name"].tolist()):
        mine = pieces[pieces["name"] == name]
        traces.append(
            row_bars(
                mine["ns"].to_numpy() / unit.ns,
                [f"{row['class']}: {duration(row['ns'])}" for row in mine.to_dict("records")],
                y=[row_of[rank] for rank in mine["rank"].tolist()],
                base=((mine["end_ns"] - mine["ns"]) / unit.ns).tolist(),
                width=0.8,
                name=name,
                marker=class_marker(LOOK[mine["class"].iloc[0]]),
                hovertemplate="rank %{customdata[0]}<br>%{hovertext}<extra></extra>",
                **selecting("ranks", mine["rank"].tolist()),
            )
        )
    return drawing(
        traces,
        barmode="overlay",
        height=height_for_rows(max(len(ranks), 2)),
        showlegend=True,
        xaxis=axis(f"Time along the path ({unit.symbol})", rangemode="tozero"),
        **rows_of_ranks(ranks, selected),
    )


def _joined(pieces: pd.DataFrame) -> pd.DataFrame:
    """Pieces with their names; if there are many, consecutive ones of the same name are joined."""
    names = pieces["class"].map(_LEGEND)
    table = pieces[["ns", "rank", "class"]].assign(end_ns=pieces["ns"].cumsum(), name=names)
    if len(table) <= _MOST_PIECES:
        return table
    changes = (table["rank"].diff() != 0) | (table["name"] != table["name"].shift())
    found = table.groupby(np.cumsum(changes.to_numpy()), sort=False).agg(
        ns=("ns", "sum"),
        rank=("rank", "first"),
        **{"class": ("class", "first")},
        end_ns=("end_ns", "last"),
        name=("name", "first"),
    )
    return found[found["ns"].rank(method="first", ascending=False) <= _MOST_PIECES]
