"""Figures of the launch statistics: three histograms, and what each launching API launches."""

from __future__ import annotations

from collections import Counter
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
from hta_widgets.figures.style import (
    NEUTRAL,
    TYPE_COLORS,
    axis,
    drawing,
    height_for_rows,
    names_axis,
)
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
    every = result.distributions
    table = every[(every["distribution"] == distribution).to_numpy()]
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
    launched = _launched(result.launched)
    operations: Counter[str] = Counter()
    for of_type in launched.values():
        operations.update({api: count for api, (count, _) in of_type.items()})
    calls: Counter[str] = Counter()
    for api, of_rank in zip(result.apis["launch_api"], result.apis["calls"].tolist(), strict=True):
        calls[api] += of_rank
    apis = sorted(operations, key=lambda api: (-operations[api], api))
    return drawing(
        [
            _bar_of_type(launched[kernel_type], kernel_type, apis, calls)
            for kernel_type in TYPE_COLORS
            if kernel_type in launched
        ],
        barmode="stack",
        height=height_for_rows(len(apis)),
        showlegend=True,
        xaxis=axis("Operations launched", rangemode="tozero"),
        yaxis=names_axis([plot_name(api) for api in apis]),
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
) -> Trace:
    return trace(
        "bar",
        x=np.array([operations for operations, _ in launched.values()]),
        y=np.array([apis.index(api) for api in launched]),
        orientation="h",
        name=kernel_type.capitalize(),
        marker={"color": TYPE_COLORS[kernel_type]},
        hovertext=[
            f"{plot_name(api)}<br>Calls: {calls[api]:,}<br>{kernel_type.capitalize()} operations: "
            f"{operations:,}, {duration(ns)} on the GPU"
            for api, (operations, ns) in launched.items()
        ],
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _bin_hover(table: pd.DataFrame, unit: TimeUnit, counted: str) -> list[str]:
    return [
        f"{start / unit.ns:,.7g} to {end / unit.ns:,.7g} {unit.symbol}<br>{counted}: {count:,}"
        for start, end, count in zip(
            *(table[name].tolist() for name in ("start_ns", "end_ns", "count")), strict=True
        )
    ]


def _note(text: str) -> dict[str, object]:
    """Words in the middle of an empty figure."""
    middle = {"x": 0.5, "y": 0.5, "xref": "paper", "yref": "paper"}
    return {"text": text, "showarrow": False, **middle}
