"""Figures of the kernel breakdown: types, top kernels, one kernel across the ranks."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from hta_widgets.analyses.kernel_breakdown import OTHERS, KernelBreakdown, totals_over_ranks
from hta_widgets.analyses.time.rows import Row, records
from hta_widgets.arrays import Float64Array
from hta_widgets.figures.base.drawing import Drawing, selecting, trace
from hta_widgets.figures.base.rank_bars import bars_of_ranks
from hta_widgets.figures.base.style import (
    NEUTRAL,
    axis,
    drawing,
    emphasis,
    row_bars,
    rows_drawing,
    type_color,
)
from hta_widgets.figures.base.text import hover_name, plot_names
from hta_widgets.quantities import capitalised, counted, duration, percent, time_unit
from hta_widgets.trace.model.kernels import type_words

PIES_AT_MOST = 4
LEGEND_WIDTH = 40
SLICE_EDGE = "rgba(127, 127, 127, 0.5)"


def kernel_types(result: KernelBreakdown, *, as_pie: bool = False) -> Drawing:
    """Draw the busy time by combination of kernel types, summed over ranks."""
    table = result.types
    names = [capitalised(type_words(name)) for name in table["kernel_type"]]
    colors = [type_color(name) for name in table["kernel_type"]]
    hover = [
        f"{name}<br>{duration(ns)}, {percent(share)} of the busy time"
        for name, ns, share in zip(names, table["sum_ns"], table["percentage"], strict=True)
    ]
    if as_pie:
        return _pie(names, table["sum_ns"].to_numpy(dtype=float), colors, hover)
    bar = row_bars(
        table["percentage"].to_numpy(dtype=float),
        hover,
        marker={"color": colors},
        text=[percent(share) for share in table["percentage"]],
        textposition="auto",
    )
    return rows_drawing([bar], names, axis("Busy time (%)", rangemode="tozero"))


def top_kernels(
    result: KernelBreakdown, *, kernel_type: str = "", selected: Collection[str] = ()
) -> Drawing:
    """Draw the time of the top kernels of one type, or of all, summed over ranks, longest first.

    If several kernels are selected and some of them are not among the top, as many of the selected
    ones are drawn, too: those with the most time.
    """
    rows = _over_ranks(result, kernel_type, selected)
    time_ns = np.array([row["sum_ns"] for row in rows], dtype=float)
    unit = time_unit(time_ns.max(initial=0))
    bar = row_bars(
        time_ns / unit.ns,
        [_kernel_hover(row) for row in rows],
        marker={"color": [_color(row) for row in rows]},
        **selecting("kernel", [None if row["folded"] else row["name"] for row in rows]),
        **emphasis([place for place, row in enumerate(rows) if row["name"] in selected]),
    )
    return rows_drawing(
        [bar],
        plot_names([_label(row) for row in rows], among=result.names),
        axis(f"Total time ({unit.symbol})", rangemode="tozero"),
    )


def top_kernels_of_rank(result: KernelBreakdown, rank: int, *, kernel_type: str = "") -> Drawing:
    """Draw the top kernels of one rank as a pie."""
    rows = [
        row
        for row in records(result.kernels)
        if row["rank"] == rank and kernel_type in {"", row["kernel_type"]}
    ]
    rows.sort(key=lambda row: -row["sum_ns"])
    time_ns = np.array([row["sum_ns"] for row in rows], dtype=float)
    colors = [_color(row) for row in rows]
    names = plot_names([_label(row) for row in rows], LEGEND_WIDTH, among=result.names)
    return _pie(names, time_ns, colors, [_kernel_hover(row) for row in rows])


def kernel_durations(
    result: KernelBreakdown, name: str, *, selected: Collection[int] = ()
) -> Drawing:
    """Draw the duration of one kernel on each rank: the mean, with a range from min to max."""
    every = result.every_kernel
    table = every[every["name"] == name].sort_values("rank").assign(device=-1)
    unit = time_unit(float(table["max_ns"].max()) if len(table) else 0)
    mean = table["mean_ns"].to_numpy(dtype=float)
    hover = [
        f"Rank {row['rank']}<br>mean {duration(row['mean_ns'])}, from "
        f"{duration(row['min_ns'])} to {duration(row['max_ns'])}, {_launches(row)}"
        for row in records(table)
    ]
    return bars_of_ranks(
        table,
        mean / unit.ns,
        hover,
        color=type_color(table["kernel_type"].iloc[0]) if len(table) else NEUTRAL,
        yaxis=axis(f"Duration: mean, min and max ({unit.symbol})", rangemode="tozero"),
        selected=selected,
        error_y={
            "type": "data",
            "symmetric": False,
            "array": (table["max_ns"].to_numpy(dtype=float) - mean) / unit.ns,
            "arrayminus": (mean - table["min_ns"].to_numpy(dtype=float)) / unit.ns,
            "thickness": 1.2,
        },
    )


def _over_ranks(result: KernelBreakdown, kernel_type: str, selected: Collection[str]) -> list[Row]:
    """Sum the kernels over ranks, longest first; kernels not named on any rank come last, by type.

    ``folded`` is the number of kernels that a row named ``others`` stands for.
    """
    columns = (result.kernels[name].tolist() for name in ("kernel_type", "name", "folded"))
    named = {(each, name) for each, name, folded in zip(*columns, strict=True) if not folded}
    totals = totals_over_ranks(result.every_kernel)
    chosen = [key for key in totals if key[1] in selected]
    if len(chosen) > 1 and not named.issuperset(chosen):  # "others" held 59 % of a finding's time
        named |= {*sorted(chosen, key=lambda key: -totals[key].ns)[: max(len(named), 1)]}
    rows: dict[tuple[str, str], Row] = {}
    for (each, name), total in totals.items():
        if kernel_type in {"", each}:
            label = name if (each, name) in named else OTHERS
            new = {"kernel_type": each, "name": label, "sum_ns": 0, "count": 0, "folded": 0}
            row = rows.setdefault((each, label), new)
            row["sum_ns"] += total.ns
            row["count"] += total.launches
            row["folded"] += label == OTHERS
    return sorted(rows.values(), key=lambda row: (row["name"] == OTHERS, -row["sum_ns"]))


def _color(row: Row) -> str:
    return NEUTRAL if row["name"] == OTHERS else type_color(row["kernel_type"])


def _label(row: Row) -> str:
    if not row["folded"]:
        return str(row["name"])
    return f"{counted(row['folded'], 'other')} ({type_words(row['kernel_type'])})"


def _kernel_hover(row: Row) -> str:
    name = hover_name(str(row["name"])) if not row["folded"] else _label(row)
    words = capitalised(type_words(row["kernel_type"]))
    return f"{name}<br>{words}: {duration(row['sum_ns'])} in {_launches(row)}"


def _launches(row: Row) -> str:
    return counted(row["count"], "launch", "launches")


def _pie(labels: list[str], values: Float64Array, colors: list[str], hover: list[str]) -> Drawing:
    pie = trace(
        "pie",
        labels=labels,
        values=values,
        marker={"colors": colors, "line": {"width": 1, "color": SLICE_EDGE}},
        sort=False,
        direction="clockwise",
        textinfo="percent",
        textposition="inside",
        insidetextorientation="horizontal",
        hovertext=hover,
    )
    return drawing(
        [pie],
        height=340,
        margin={"l": 8, "r": 8, "t": 28, "b": 8},
        legend={"x": 1.02, "y": 0.5},
        uniformtext={"minsize": 10, "mode": "hide"},
    )
