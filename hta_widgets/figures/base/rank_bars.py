"""Bars over ranks, for tables with one row per GPU; with many ranks, only the most telling ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.arrays import Float64Array, Int64Array
from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace, selecting, trace
from hta_widgets.figures.base.style import (
    CLASS_COLORS,
    CLASS_PATTERNS,
    axis,
    bar_marker,
    drawing,
    emphasis,
    ring,
    row_ticks,
)
from hta_widgets.quantities import duration, percent, time_unit

_MOST_BARS: Final = 64
"""Plotly takes 0.2 s to draw 256 ranks as bars one pixel wide: only the most telling are drawn."""


class BarPart(NamedTuple):
    """One part of a stacked bar; some are only drawn where the column is not 0 everywhere.

    `pattern` is that of `bar_marker`.
    """

    column: str
    name: str
    color: str
    only_where_any: bool = False
    pattern: str | None = None

    @property
    def marker(self) -> dict[str, Any]:
        """Marker of its bars."""
        return bar_marker(self.color, self.pattern)

    @classmethod
    def of_class(
        cls, column: str, name: str, budget_class: str, *, only_where_any: bool = False
    ) -> BarPart:
        """A part that looks like a class of the budget."""
        return cls(
            column,
            name,
            CLASS_COLORS[budget_class],
            only_where_any,
            pattern=CLASS_PATTERNS.get(budget_class),
        )


def rank_labels(table: pd.DataFrame) -> list[str]:
    """Label of each row: the rank, and its device if a rank has several."""
    ranks, devices = table["rank"].tolist(), table["device"].tolist()
    several = len(set(ranks)) < len(ranks)
    return [
        f"{rank} · GPU {device}" if several and device >= 0 else f"{rank}"
        for rank, device in zip(ranks, devices, strict=True)
    ]


def _drawn_rows(
    table: pd.DataFrame, heights: Sequence[Float64Array], selected: Collection[int]
) -> Int64Array:
    """Positions of the rows to draw: all, or the selected ones and those that differ most.

    How much a row differs is the sum of the distances of its parts from their medians.
    """
    if len(table) <= _MOST_BARS:
        return np.arange(len(table))
    parts = np.nan_to_num(np.array(heights))
    apart = np.abs(parts - np.median(parts, axis=1, keepdims=True)).sum(axis=0)
    is_selected = table["rank"].isin([*selected]).to_numpy()
    if np.count_nonzero(is_selected) < _MOST_BARS:
        apart[is_selected] = np.inf
    return np.sort(np.argsort(-apart, kind="stable")[:_MOST_BARS])


def _rank_axis(table: pd.DataFrame, ranks: int) -> dict[str, Any]:
    """Axis with one position per row, and fewer labels if there are many."""
    those = f" (the {len(table)} of {ranks} that differ most from the median)"
    labels = rank_labels(table)
    return axis(
        f"Rank{those if ranks > len(table) else ''}",
        **row_ticks(labels),
        range=[-0.5, max(len(labels), 1) - 0.5],
        showgrid=False,
    )


def rank_gap(table: pd.DataFrame) -> float:
    """Gap between bars, wider if there are only a few."""
    return max(0.25, 1 - 0.16 * len(table))


def stacked_time_bars(
    table: pd.DataFrame,
    parts: Sequence[BarPart],
    *,
    whole: str,
    whole_name: str,
    selected: Collection[int] = (),
    as_percent: bool = True,
    steps: int = 0,
) -> Drawing:
    """Draw parts of a time as one stacked bar per row; a click selects the rank.

    Parameters
    ----------
    table : DataFrame
        Has ``rank``, ``device``, the columns of `parts` and `whole`, in ns.
    parts : sequence of BarPart
        From the bottom up.
    whole : str
        Column that the parts add up to.
    steps : int
        Number of steps to divide times by, also in hover texts; 0 shows the total.
    """
    if steps:
        columns = [whole, *(each.column for each in parts)]
        table = table.assign(**{name: table[name] / steps for name in columns})
        whole_name = f"{whole_name} per step"
    parts = [each for each in parts if not each.only_where_any or table[each.column].any()]
    unit = time_unit(float(table[whole].max()))
    scale = table[whole].where(table[whole] > 0) / 100 if as_percent else unit.ns
    heights = [(table[each.column] / scale).to_numpy(np.float64) for each in parts]
    rows, ranks = _drawn_rows(table, heights, selected), len(table)
    table, heights = table.iloc[rows], [each[rows] for each in heights]
    hover = _hover(table, parts, whole, whole_name)
    bars = [
        _bars(table, each, height, texts, selected)
        for each, height, texts in zip(parts, heights, hover, strict=True)
    ]
    per_step = " per step" * (steps > 0)
    title = f"Share of {whole_name} (%)" if as_percent else f"Time ({unit.symbol}{per_step})"
    limits = {"range": [0, 100]} if as_percent else {"rangemode": "tozero"}
    return drawing(
        bars,
        barmode="stack",
        bargap=rank_gap(table),
        xaxis=_rank_axis(table, ranks),
        yaxis=axis(title, **limits),
        **rank_rings(table["rank"].tolist(), selected),
    )


def bars_of_ranks(
    table: pd.DataFrame,
    heights: Float64Array,
    hover: list[str],
    *,
    color: str,
    yaxis: dict[str, Any],
    selected: Collection[int] = (),
    **attributes: Any,  # noqa: ANN401
) -> Drawing:
    """Draw one bar per row, with a hover text each; a click selects the rank.

    The table has ``rank`` and ``device``; further attributes are plotly attributes of the bars.
    """
    rows, count = _drawn_rows(table, [heights], selected), len(table)
    table, hover = table.iloc[rows], [hover[row] for row in rows.tolist()]
    ranks = table["rank"].tolist()
    bars = trace(
        "bar",
        x=np.arange(len(table)),
        y=heights[rows],
        marker={"color": color},
        hovertext=hover,
        **selecting("ranks", ranks),
        **attributes,
        **rank_emphasis(ranks, selected),
    )
    return drawing(
        [bars],
        showlegend=False,
        bargap=rank_gap(table),
        xaxis=_rank_axis(table, count),
        yaxis=yaxis,
        **rank_rings(ranks, selected),
    )


def _hover(
    table: pd.DataFrame, parts: Sequence[BarPart], whole: str, whole_name: str
) -> list[list[str]]:
    """Hover text of each bar, for each part."""
    totals = table[whole].tolist()
    ends = [f"{duration(total)} {whole_name}" for total in totals]
    labels = rank_labels(table)
    return [
        [
            f"Rank {label}<br>{each.name}: {duration(ns)}, {percent(100 * ns / total)} of {end}"
            if total
            else f"Rank {label}: no {whole_name}"
            for label, ns, total, end in zip(
                labels, table[each.column].tolist(), totals, ends, strict=True
            )
        ]
        for each in parts
    ]


def _bars(
    table: pd.DataFrame,
    part: BarPart,
    heights: Float64Array,
    hover: list[str],
    selected: Collection[int],
) -> PlotlyTrace:
    return trace(
        "bar",
        x=np.arange(len(table)),
        y=heights,
        name=part.name,
        marker=part.marker,
        hovertext=hover,
        **selecting("ranks", table["rank"].tolist()),
        **rank_emphasis(table["rank"].tolist(), selected),
    )


def rank_emphasis(ranks: Iterable[int], selected: Collection[int]) -> dict[str, Any]:
    """Settings of a bar trace that fade bars whose rank is outside a selection."""
    kept = set(selected)
    return emphasis([place for place, rank in enumerate(ranks) if rank in kept])


def rows_of_ranks(ranks: Sequence[int], selected: Collection[int]) -> dict[str, Any]:
    """Layout settings for one row per rank, the first on top: the axis, and rings."""
    rings = [ring(y0=row - 0.5, y1=row + 0.5) for row, rank in enumerate(ranks) if rank in selected]
    rows = axis(
        "Rank",
        tickvals=list(range(len(ranks))),
        ticktext=[str(rank) for rank in ranks],
        range=[len(ranks) - 0.5, -0.5],
        showgrid=False,
    )
    return {"yaxis": rows, **({"shapes": rings} if rings else {})}


def rank_rings(ranks: Iterable[int], selected: Collection[int]) -> dict[str, Any]:
    """Layout settings that ring the vertical bars of selected ranks, unless all are selected."""
    every = list(ranks)
    marked = [place for place, rank in enumerate(every) if rank in set(selected)]
    if len(marked) == len(every):
        return {}
    rings = [ring(x0=place - 0.5, x1=place + 0.5) for place in marked]
    return {"shapes": rings} if rings else {}
