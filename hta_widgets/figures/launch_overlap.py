"""Figures of the launch overlap: hidden launch time of each rank, kernel time by launch API."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from hta_widgets.analyses.launch_overlap import LaunchOverlap
from hta_widgets.analyses.time.rows import Row, records
from hta_widgets.arrays import Int64Array
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.base.rank_bars import BarPart, bars_of_ranks, stacked_time_bars
from hta_widgets.figures.base.style import (
    CLASS_COLORS,
    NEUTRAL,
    OVERLAPPED,
    axis,
    row_bars,
    rows_drawing,
)
from hta_widgets.figures.base.text import hover_name, plot_names
from hta_widgets.quantities import counted, duration, percent, time_unit

_SERIES = (
    BarPart("hidden_ns", "Hidden behind kernels", OVERLAPPED),
    BarPart("unknown_ns", "Cannot tell", NEUTRAL, only_where_any=True),
    BarPart("exposed_ns", "Not hidden", CLASS_COLORS["late_launching"]),
)


def hidden_launch_time(
    result: LaunchOverlap, *, selected: Collection[int] = (), as_percent: bool = True
) -> Drawing:
    """Draw how much of each rank's launch time is hidden behind kernels, and how much is not."""
    return stacked_time_bars(
        result.ranks.assign(device=-1),
        _SERIES,
        whole="call_time_ns",
        whole_name="launch time",
        selected=selected,
        as_percent=as_percent,
    )


def overlapping_launches(result: LaunchOverlap, *, selected: Collection[int] = ()) -> Drawing:
    """Draw the share of each rank's launches that start before an earlier kernel has ended."""
    table = result.ranks.assign(device=-1)
    return bars_of_ranks(
        table,
        table["overlapping_percent"].to_numpy(dtype=float),
        [_launches_hover(row) for row in records(table)],
        color=OVERLAPPED,
        yaxis=axis("Share of launches (%)", range=[0, 100]),
        selected=selected,
    )


def _launches_hover(row: Row) -> str:
    if not row["launches"]:
        return f"Rank {row['rank']}: no launches"
    return (
        f"Rank {row['rank']}<br>{row['overlapping']:,} of "
        f"{counted(row['launches'], 'launch', 'launches')} ({percent(row['overlapping_percent'])})"
    )


def kernel_time_by_api(result: LaunchOverlap, *, as_percent: bool = True) -> Drawing:
    """Draw the time of the kernels that each API launches, summed over ranks, longest first."""
    names = ("launch_api", "launches", "kernels", "kernel_time_ns")
    sums: dict[str, Int64Array] = {}
    for api, *numbers in zip(*(result.launch_apis[name].tolist() for name in names), strict=True):
        sums[api] = sums.get(api, 0) + np.array(numbers)
    apis = sorted(sums, key=lambda api: (-sums[api][-1], api))
    time_ns = np.array([sums[api][-1] for api in apis], dtype=np.int64)
    unit = time_unit(float(time_ns.max(initial=0)))
    share = 100 * time_ns / (time_ns.sum() or np.nan)
    bar = row_bars(
        share if as_percent else time_ns / unit.ns,
        [
            f"{hover_name(api)}<br>{counted(sums[api][0], 'call')}, "
            f"{counted(sums[api][1], 'kernel')}, {duration(sums[api][2])} "
            f"({percent(each)} of the kernel time)"
            for api, each in zip(apis, share.tolist(), strict=True)
        ],
        marker={"color": NEUTRAL},
    )
    title = "Share of kernel time (%)" if as_percent else f"Kernel time ({unit.symbol})"
    return rows_drawing([bar], plot_names(apis), axis(title, rangemode="tozero"))
