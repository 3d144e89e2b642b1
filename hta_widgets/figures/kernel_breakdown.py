"""Figures of the kernel breakdown: types, top kernels, one kernel over the ranks."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeAlias, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.kernel_breakdown import OTHERS, KernelBreakdown
from hta_widgets.analyses.launching_calls import sums_by_group
from hta_widgets.figures.drawing import Drawing, trace
from hta_widgets.figures.ranks import SELECT_RANKS, rank_axis, rank_emphasis, rank_gap
from hta_widgets.figures.style import (
    IDLE,
    axis,
    drawing,
    emphasis,
    height_for_rows,
    names_axis,
    type_color,
)
from hta_widgets.figures.text import hover_name, plot_names
from hta_widgets.quantities import duration, percent, time_unit

SELECT_KERNEL = {"select": "kernel"}
PIES_AT_MOST = 4
LEGEND_WIDTH = 32
SLICE_EDGE = "rgba(127, 127, 127, 0.5)"

_Row: TypeAlias = dict[str, Any]


def kernel_types(result: KernelBreakdown, *, as_pie: bool = False) -> Drawing:
    """Draw the busy time by combination of kernel types, summed over ranks."""
    table = result.types
    names = [name.replace(" overlapping ", " + ") for name in table["kernel_type"]]
    colors = [type_color(name) for name in table["kernel_type"]]
    hover = [
        f"{name}<br>{duration(ns)}, {percent(share)} of the busy time"
        for name, ns, share in zip(
            table["kernel_type"], table["sum_ns"], table["percentage"], strict=True
        )
    ]
    if as_pie:
        return _pie(names, table["sum_ns"], colors, hover)
    bar = trace(
        "bar",
        x=table["percentage"].to_numpy(dtype=float),
        y=np.arange(len(table)),
        orientation="h",
        marker={"color": colors},
        text=[percent(share) for share in table["percentage"]],
        textposition="auto",
        hovertext=hover,
        hovertemplate="%{hovertext}<extra></extra>",
    )
    return drawing(
        [bar],
        height=height_for_rows(len(table)),
        showlegend=False,
        xaxis=axis("Share of busy time (%)", rangemode="tozero"),
        yaxis=names_axis(names),
    )


def top_kernels(result: KernelBreakdown, *, kernel_type: str = "", selected: str = "") -> Drawing:
    """Draw the time of the top kernels, summed over ranks, longest first.

    Parameters
    ----------
    result : KernelBreakdown
    kernel_type : str
        Only kernels of this type; all types when empty.
    selected : str
        Name of the kernel to emphasise; none when empty.
    """
    table = top_kernel_times(result, kernel_type)
    unit = time_unit(float(table["sum_ns"].max()) if len(table) else 0)
    rows = _records(table)
    bar = trace(
        "bar",
        x=table["sum_ns"].to_numpy(dtype=float) / unit.ns,
        y=np.arange(len(table)),
        orientation="h",
        marker={"color": [_color(row) for row in rows]},
        customdata=[[None if row["folded"] else row["name"]] for row in rows],
        meta=SELECT_KERNEL,
        hovertext=[_kernel_hover(row) for row in rows],
        hovertemplate="%{hovertext}<extra></extra>",
        **emphasis([place for place, row in enumerate(rows) if row["name"] == selected]),
    )
    return drawing(
        [bar],
        height=height_for_rows(len(table)),
        showlegend=False,
        xaxis=axis(f"Time, summed over ranks ({unit.symbol})", rangemode="tozero"),
        yaxis=names_axis(plot_names([_label(row) for row in rows])),
    )


def top_kernels_of_rank(result: KernelBreakdown, rank: int, *, kernel_type: str = "") -> Drawing:
    """Draw the top kernels of one rank as a pie."""
    table = result.kernels[result.kernels["rank"] == rank]
    if kernel_type:
        table = table[table["kernel_type"] == kernel_type]
    table = table.sort_values("sum_ns", ascending=False, kind="stable")
    rows = _records(table)
    colors = [_color(row) for row in rows]
    names = plot_names([_label(row) for row in rows], LEGEND_WIDTH)
    return _pie(names, table["sum_ns"], colors, [_kernel_hover(row) for row in rows])


def kernel_durations(
    result: KernelBreakdown, name: str, *, selected: Collection[int] = ()
) -> Drawing:
    """Draw the mean duration of one kernel's launches on each rank, from shortest to longest."""
    every = result.every_kernel
    table = every[every["name"] == name].sort_values("rank").assign(device=-1)
    unit = time_unit(float(table["max_ns"].max()) if len(table) else 0)
    mean = table["mean_ns"].to_numpy(dtype=float)
    bar = trace(
        "bar",
        x=np.arange(len(table)),
        y=mean / unit.ns,
        error_y={
            "type": "data",
            "symmetric": False,
            "array": (table["max_ns"].to_numpy(dtype=float) - mean) / unit.ns,
            "arrayminus": (mean - table["min_ns"].to_numpy(dtype=float)) / unit.ns,
            "thickness": 1.2,
        },
        marker={"color": type_color(table["kernel_type"].iloc[0]) if len(table) else IDLE},
        customdata=[[rank] for rank in table["rank"].tolist()],
        meta=SELECT_RANKS,
        hovertext=[
            f"Rank {row['rank']}<br>mean {duration(row['mean_ns'])}, from "
            f"{duration(row['min_ns'])} to {duration(row['max_ns'])}, {row['count']:,} launches"
            for row in _records(table)
        ],
        hovertemplate="%{hovertext}<extra></extra>",
        **rank_emphasis(table, selected),
    )
    return drawing(
        [bar],
        showlegend=False,
        bargap=rank_gap(table),
        xaxis=rank_axis(table),
        yaxis=axis(f"Mean duration, min to max ({unit.symbol})", rangemode="tozero"),
    )


def top_kernel_times(result: KernelBreakdown, kernel_type: str = "") -> pd.DataFrame:
    """Sum the kernels over ranks; those that no rank names become one row per type.

    Returns
    -------
    DataFrame
        ``kernel_type``, ``name``, ``sum_ns``, ``count``, ``folded`` (kernels in a row ``others``),
        longest first, ``others`` last.
    """
    every = result.every_kernel
    if kernel_type:
        every = every[every["kernel_type"] == kernel_type]
    named = result.kernels[result.kernels["folded"] == 0]
    keys = set(zip(named["kernel_type"].tolist(), named["name"].tolist(), strict=True))
    kernels, kernel_of_row = _distinct(every)
    labels = [(each, name if (each, name) in keys else OTHERS) for each, name in kernels]
    rows = {label: row for row, label in enumerate(dict.fromkeys(labels))}
    row_of_kernel = np.array([rows[label] for label in labels], dtype=np.int64)
    row = row_of_kernel[kernel_of_row]
    folds = np.array([name == OTHERS for _, name in rows], dtype=bool)
    table = pd.DataFrame(list(rows), columns=["kernel_type", "name"])
    table["sum_ns"] = sums_by_group(every["sum_ns"].to_numpy(), row, len(rows))
    table["count"] = sums_by_group(every["count"].to_numpy(), row, len(rows))
    table["folded"] = np.where(folds, np.bincount(row_of_kernel, minlength=len(rows)), 0)
    order = np.lexsort((-table["sum_ns"].to_numpy(), folds))
    return table.iloc[order].reset_index(drop=True)


def _distinct(every: pd.DataFrame) -> tuple[list[tuple[str, str]], NDArray[np.int64]]:
    """Type and name of each kernel, as they come up, and which of them each row is."""
    kernels: dict[tuple[str, str], int] = {}
    pairs = zip(every["kernel_type"].tolist(), every["name"].tolist(), strict=True)
    places = [kernels.setdefault(pair, len(kernels)) for pair in pairs]
    return list(kernels), np.array(places, dtype=np.int64)


def _records(table: pd.DataFrame) -> list[_Row]:
    return cast("list[_Row]", table.to_dict("records"))


def _color(row: _Row) -> str:
    return IDLE if row["name"] == OTHERS else type_color(row["kernel_type"])


def _label(row: _Row) -> str:
    if not row["folded"]:
        return str(row["name"])
    return f"{row['folded']:,} others ({str(row['kernel_type']).lower()})"


def _kernel_hover(row: _Row) -> str:
    name = hover_name(str(row["name"])) if not row["folded"] else _label(row)
    return f"{name}<br>{row['kernel_type']}: {duration(row['sum_ns'])} in {row['count']:,} launches"


def _pie(labels: list[str], values: pd.Series[int], colors: list[str], hover: list[str]) -> Drawing:
    pie = trace(
        "pie",
        labels=labels,
        values=values.to_numpy(dtype=float),
        marker={"colors": colors, "line": {"width": 1, "color": SLICE_EDGE}},
        sort=False,
        direction="clockwise",
        textinfo="percent",
        textposition="inside",
        insidetextorientation="horizontal",
        hovertext=hover,
        hovertemplate="%{hovertext}<extra></extra>",
    )
    return drawing(
        [pie],
        height=340,
        margin={"l": 8, "r": 8, "t": 28, "b": 8},
        legend={"x": 1.02, "y": 0.5},
        uniformtext={"minsize": 10, "mode": "hide"},
    )
