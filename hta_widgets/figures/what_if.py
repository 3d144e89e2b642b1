"""Figures of a what-if: what bounds a step, and when each rank finishes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from hta_widgets.diagnosis.replay.critical_path import PRECEDING, UNEXPLAINED
from hta_widgets.diagnosis.what_if import WhatIfSteps
from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace, selecting
from hta_widgets.figures.base.rank_bars import rows_of_ranks
from hta_widgets.figures.base.style import (
    CLASS_COLORS,
    NEUTRAL,
    axis,
    class_marker,
    drawing,
    height_for_rows,
    row_bars,
    rows_drawing,
)
from hta_widgets.quantities import NS_PER_MS, duration, time_unit

CLASS_OF: Final = {
    "the host": "late_launching",
    "the GPU": "compute",
    "copying": "copies",
    "communication": "transfer",
    "data loading": "data_loading",
    PRECEDING: "waiting",
    UNEXPLAINED: "other_idle",
}
"""Budget class whose look each of them takes."""

_BARS_HEIGHT: Final = 130
_ROWS: Final = ("Now", "Changed")
_MOST_RANKS: Final = 64
"""Maximum number of ranks drawn; with more, the rows would be unreadable."""


def changed_step(result: WhatIfSteps) -> Drawing:
    """Draw the critical path of the mean step by what bounds it, now and changed."""
    table = result.classes
    longest_ns = max(table["recorded_ms"].sum(), table["ms"].sum()) * NS_PER_MS
    unit = time_unit(longest_ns)
    bars: list[PlotlyTrace] = []
    columns = (table[name].tolist() for name in ("what", "recorded_ms", "ms"))
    for what, recorded_ms, ms in zip(*columns, strict=True):
        lengths = np.array([recorded_ms, ms]) * NS_PER_MS
        if not lengths.any():
            continue
        bars.append(
            row_bars(
                lengths / unit.ns,
                [
                    f"{row}<br>{what}: {duration(ns)}"
                    for row, ns in zip(_ROWS, lengths.tolist(), strict=True)
                ],
                name=what,
                marker=class_marker(CLASS_OF[what]),
            )
        )
    return rows_drawing(
        bars,
        [*_ROWS],
        axis(f"Critical path of the mean step ({unit.symbol})", rangemode="tozero"),
        barmode="stack",
        bargap=0.35,
        height=_BARS_HEIGHT,
        showlegend=True,
    )


def rank_ends(result: WhatIfSteps, *, selected: Collection[int] = ()) -> Drawing:
    """Draw when each rank finishes, now and changed; a click selects the rank."""
    table = result.ranks.head(_MOST_RANKS)
    unit = time_unit(float(table[["recorded_ms", "ms"]].to_numpy().max()) * NS_PER_MS)
    ranks = table["rank"].tolist()
    traces = [
        row_bars(
            table[column].to_numpy() * NS_PER_MS / unit.ns,
            [duration(ms * NS_PER_MS) for ms in table[column].tolist()],
            name=name,
            marker={"color": color, "line": {"width": 0}},
            hovertemplate=f"rank %{{customdata[0]}}<br>{name}: %{{hovertext}}<extra></extra>",
            **selecting("ranks", ranks),
        )
        for name, column, color in (
            (_ROWS[0], "recorded_ms", NEUTRAL),
            (_ROWS[1], "ms", CLASS_COLORS["compute"]),
        )
    ]
    return drawing(
        traces,
        barmode="group",
        height=height_for_rows(2 * len(ranks)),
        xaxis=axis(f"Finishes after ({unit.symbol})", rangemode="tozero"),
        **rows_of_ranks(ranks, selected),
    )
