"""Figures of the launch statistics: three histograms, and operations by launch API."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd

from hta_widgets.analyses.launch_stats import (
    LAUNCH_DELAY_OUTLIERS,
    RUNTIME_OUTLIERS,
    SHORT_KERNELS,
    LaunchStats,
)
from hta_widgets.arrays import Int64Array
from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace, trace
from hta_widgets.figures.base.style import (
    NEUTRAL,
    TYPE_COLORS,
    axis,
    count_axis,
    drawing,
    row_bars,
    rows_drawing,
)
from hta_widgets.figures.base.text import plot_name, plot_names
from hta_widgets.quantities import capitalised, duration, time_unit
from hta_widgets.trace.model.kernels import type_words

_WORDS = {
    SHORT_KERNELS: "Launch call duration ({unit}), up to {cutoff}",
    RUNTIME_OUTLIERS: "Launch call duration ({unit}), above {cutoff}",
    LAUNCH_DELAY_OUTLIERS: "Launch delay ({unit}), above {cutoff}",
}
"""What a histogram shows."""


def launch_histogram(result: LaunchStats, distribution: str) -> Drawing:
    """Draw one of the `DISTRIBUTIONS`, summed over ranks.

    Empty bins get no bar, except the first and the last, which span the axis.
    """
    cutoff_ns = (
        result.launch_delay_cutoff_ns
        if distribution == LAUNCH_DELAY_OUTLIERS
        else result.runtime_cutoff_ns
    )
    start_ns, end_ns, counts = _bins(result.distributions, distribution)
    unit = time_unit(end_ns.max(initial=0))
    quantity = _WORDS[distribution].format(unit=unit.symbol, cutoff=duration(cutoff_ns))
    start, end = start_ns / unit.ns, end_ns / unit.ns
    bar = trace(
        "bar",
        x=(start + end) / 2,
        width=end - start,
        y=counts,
        marker={"color": NEUTRAL, "line": {"width": 0}},
        hovertext=[
            f"{first:,.7g} to {last:,.7g} {unit.symbol}<br>Calls: {count:,}"
            for first, last, count in zip(
                start.tolist(), end.tolist(), counts.tolist(), strict=True
            )
        ],
    )
    return drawing(
        [bar],
        height=260,
        showlegend=False,
        bargap=0,
        xaxis=axis(
            quantity,
            rangemode="nonnegative",  # otherwise a single bar would be centred on 0
        ),
        yaxis=count_axis("Calls", counts.max(initial=0)),
    )


def _bins(table: pd.DataFrame, distribution: str) -> list[Int64Array]:
    """Start (ns), end (ns) and count of the drawn bins of one distribution."""
    places = np.flatnonzero(table["distribution"].to_numpy(object) == distribution)
    drawn = table["count"].to_numpy()[places] > 0
    drawn[:1] = drawn[-1:] = True
    columns = (table[name].to_numpy() for name in ("start_ns", "end_ns", "count"))
    return [column[places[drawn]] for column in columns]


def launches_by_api(result: LaunchStats) -> Drawing:
    """Draw how many operations each API launches, by kernel type, summed over ranks."""
    launched = _launched(result.launched)
    operations: Counter[str] = Counter()
    for of_type in launched.values():
        operations.update({api: count for api, (count, _) in of_type.items()})
    calls: Counter[str] = Counter()
    for api, of_rank in zip(result.apis["launch_api"], result.apis["calls"].tolist(), strict=True):
        calls[api] += of_rank
    apis = sorted(operations, key=lambda api: (-operations[api], api))
    return rows_drawing(
        [
            _bar_of_type(launched[kernel_type], kernel_type, apis, calls)
            for kernel_type in TYPE_COLORS
            if kernel_type in launched
        ],
        plot_names(apis),
        count_axis("Operations launched", max(operations.values(), default=0)),
        barmode="stack",
        showlegend=True,
    )


def _launched(table: pd.DataFrame) -> dict[str, dict[str, tuple[int, int]]]:
    """Operations and their time (ns) on the GPU by type and API, summed over ranks."""
    names = ("kernel_type", "launch_api", "operations", "gpu_duration_ns")
    sums: dict[str, dict[str, tuple[int, int]]] = {}
    for kernel_type, api, operations, ns in sorted(
        zip(*(table[name].tolist() for name in names), strict=True)
    ):
        of_type = sums.setdefault(kernel_type, {})
        before = of_type.get(api, (0, 0))
        of_type[api] = before[0] + operations, before[1] + ns
    return sums


def _bar_of_type(
    launched: dict[str, tuple[int, int]], kernel_type: str, apis: list[str], calls: Counter[str]
) -> PlotlyTrace:
    name = capitalised(type_words(kernel_type))
    return row_bars(
        np.array([operations for operations, _ in launched.values()]),
        [
            f"{plot_name(api)}<br>Calls: {calls[api]:,}<br>{name}: "
            f"{operations:,}, {duration(ns)} on the GPU"
            for api, (operations, ns) in launched.items()
        ],
        y=np.array([apis.index(api) for api in launched]),
        name=name,
        marker={"color": TYPE_COLORS[kernel_type]},
    )
