"""Figures of a diagnosis: the budget of a step, and which ranks are slower than others, when."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.budget.classes import BUDGET, BudgetClass
from hta_widgets.analyses.time.rows import records
from hta_widgets.arrays import Float64Array
from hta_widgets.diagnosis.budget_table import class_of
from hta_widgets.diagnosis.own_time import OwnTime
from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace, selecting, trace
from hta_widgets.figures.base.style import (
    CLASS_COLORS,
    CLASS_INK,
    CLASS_PATTERNS,
    Fill,
    axis,
    bar_marker,
    class_fill,
    class_marker,
    drawing,
    legend_entry,
    ring,
    row_bars,
    rows_drawing,
)
from hta_widgets.figures.base.text import plot_names, plot_text
from hta_widgets.figures.svg.elements import text_width
from hta_widgets.quantities import NS_PER_MS, duration, number, percent, time_unit

NARROWEST: Final = 360
"""Width (px) of a bar on the narrowest page; labels that do not fit there go into the legend."""

MOST_ROWS: Final = 64
MOST_COLUMNS: Final = 100
"""Maximum rows and columns of a heat map; with more, each shows the slowest of several."""

FULL_COLOR_PERCENT: Final = 50.0
"""How much longer than the median gets the full colour. It is the same for all jobs, so that noise
looks like noise."""

_SLOW: Final = "198, 40, 40"
_BUDGET_HEIGHT: Final = 130
_HEIGHT_WITHOUT_LEGEND: Final = 82
_TEXT_ROOM: Final = 10
_MAP_MARGIN: Final = 78
_ROW_HEIGHTS: Final = (22, 9)
_FEW_ROWS: Final = 16
_TICKS_AT_MOST: Final = 24
_CHAIN_WIDTH: Final = 64


def cause_look(cause: str) -> tuple[str, Fill]:
    """Colour and fill of the class of time that a cause takes."""
    name = class_of(cause).name
    return CLASS_COLORS[name], class_fill(name)


def budget_title(table: pd.DataFrame) -> str:
    """Title of a budget, which covers a step, or the GPU span if there are no steps."""
    return f"Where {'a step' if (table['step'] >= 0).any() else 'the GPU span'} goes"


def step_budget(
    table: pd.DataFrame,
    *,
    whose: str = "all ranks",
    classes: Sequence[BudgetClass] = BUDGET,
) -> Drawing:
    """Draw the mean of some rows of a `budget` as one bar that is its own legend.

    `whose` says in words whose steps these are; `classes` are those of `named_classes`.
    """
    whole_ns = float(table["period_ns"].mean())
    unit = time_unit(whole_ns)
    has_steps = bool((table["step"] >= 0).any())
    noun = "mean step" if has_steps else "mean GPU span"
    parts = [(each, float(table[f"{each.name}_ns"].mean())) for each in classes]
    bars = [_part(each, ns, whole_ns, noun) for each, ns in parts if ns > 0]
    title = f"{duration(whole_ns)} in the {noun} of {whose}"
    legend = [
        legend_entry(bar["name"], each.name)
        for bar, (each, _) in zip(bars, (part for part in parts if part[1] > 0), strict=True)
        if bar["showlegend"]
    ]
    return drawing(
        bars,
        barmode="stack",
        bargap=0,
        height=_BUDGET_HEIGHT,
        showlegend=True,
        margin={"l": 0, "r": 1, "t": 4, "b": 24},
        meta={"wide": True, "legend": legend, "height": _HEIGHT_WITHOUT_LEGEND},
        xaxis=axis(
            title,
            range=[0, whole_ns / unit.ns],
            tickvals=[],
            showgrid=False,
            automargin=False,
        ),
        yaxis=axis(tickvals=[], showgrid=False, range=[-0.5, 0.5], automargin=False),
    )


def _part(each: BudgetClass, ns: float, whole_ns: float, noun: str) -> PlotlyTrace:
    unit = time_unit(whole_ns)
    share = ns / whole_ns
    text = f"{each.label} {duration(ns)}"
    room = share * NARROWEST - _TEXT_ROOM
    is_labelled = each.name not in CLASS_PATTERNS and text_width(text) <= room
    said = f"{duration(ns)} of the {noun}, {percent(100 * share)}"
    return trace(
        "bar",
        orientation="h",
        x=[ns / unit.ns],
        y=[0],
        name=text,
        marker=class_marker(each.name),
        text=[text if is_labelled else ""],
        textposition="inside",
        insidetextanchor="start",
        textangle=0,
        insidetextfont={"color": CLASS_INK.get(each.name, "#FFFFFF")},
        showlegend=not is_labelled,
        hovertext=[f"{each.label}: {said}"],
    )


def fusable_bars(table: pd.DataFrame, *, unit: str) -> Drawing:
    """Draw how much time fusing consecutive kernels would save, and how much would be left.

    The table has ``kernels``, ``first_kernel``, ``count``, ``total_ms`` and ``saved_ms``; `unit` is
    the unit of the times, in words.
    """
    said = [
        f"{number(row['count'])} times, {duration(row['total_ms'] * NS_PER_MS)}, of which "
        f"{duration(row['saved_ms'] * NS_PER_MS)} could be saved"
        for row in records(table)
    ]
    left = (table["total_ms"] - table["saved_ms"]).to_numpy()
    parts = (
        ("saved by fusing", table["saved_ms"].to_numpy(), bar_marker(CLASS_COLORS["compute"], "/")),
        ("left when fused", left, {"color": CLASS_COLORS["compute"]}),
    )
    bars = [
        row_bars(
            values,
            [*map(plot_text, said)],
            name=name,
            marker=marker,
            **selecting("kernel", [each or None for each in table["first_kernel"]]),
        )
        for name, values, marker in parts
    ]
    return rows_drawing(
        bars,
        plot_names(table["kernels"].tolist(), _CHAIN_WIDTH),
        axis(f"Time ({unit})", rangemode="tozero"),
        barmode="stack",
        showlegend=True,
        meta={"wide": True},
    )


def own_time_cells(
    own: OwnTime, *, selected: Collection[int] = (), steps: Collection[int] = ()
) -> Drawing:
    """Draw how much longer than the median each rank takes, by step; a click selects the rank."""
    rows, columns = _rows_of(own), _Columns.of(own)
    count = len(rows)
    cells = trace(
        "heatmap",
        z=np.array([columns.folded(row.percent, row.percent) for row in rows], dtype=np.float32),
        text=np.array([columns.folded(row.own_ms, row.percent) for row in rows], dtype=np.float32),
        x0=columns.middle,
        dx=columns.each,
        y=[row.name for row in rows],
        zmin=0,
        zmax=FULL_COLOR_PERCENT,
        colorscale=[[0, f"rgba({_SLOW}, 0.05)"], [1, "#C62828"]],
        showscale=False,
        xgap=1,
        ygap=1,
        hovertemplate="%{y}, step %{x}<br>%{z:+.3~r} % compared with the median<br>"
        "own time %{text:,.4~r} ms<extra></extra>",
        **selecting("ranks", [row.rank for row in rows]),
    )
    least, most = _ROW_HEIGHTS[::-1]
    return drawing(
        [cells],
        height=_MAP_MARGIN + count * (most if count <= _FEW_ROWS else least),
        minreducedheight=least,  # else a single row pushes the axis title into its tick labels
        meta={"wide": True},
        xaxis=axis("Step", showgrid=False, **columns.ticks()),
        yaxis=axis(
            "",
            type="category",
            tickvals=[row.name for row in rows][:: -(-count // _TICKS_AT_MOST)],
            range=[count - 0.5, -0.5],
            showgrid=False,
            ticks="",
        ),
        **_rings(
            [place for place, row in enumerate(rows) if not {*row.ranks}.isdisjoint(selected)],
            columns.among(steps),
            columns,
        ),
    )


class _Row(NamedTuple):
    """A row of cells: a rank, or the slowest of several in each step."""

    name: str
    rank: int | None
    ranks: tuple[int, ...]
    percent: Float64Array
    own_ms: Float64Array


def _rows_of(own: OwnTime) -> list[_Row]:
    """The median rank, and all ranks."""
    ranks: list[int] = own.percent.index.tolist()
    percent, own_ms = own.percent.to_numpy(), own.own_ns.to_numpy() / NS_PER_MS
    size = 1
    while len(ranks) > size * MOST_ROWS:
        size *= 2
    places = [range(start, min(start + size, len(ranks))) for start in range(0, len(ranks), size)]
    rows = [_slowest(ranks, list(block), percent, own_ms) for block in places]
    if len(ranks) > 1 and own.usual_percent.size > 1:
        usual_ms = np.asarray(np.nanmedian(own_ms, axis=0), dtype=np.float64)
        rows.insert(
            0, _Row("median", None, (), np.asarray(own.usual_percent, dtype=np.float64), usual_ms)
        )
    return rows


def _slowest(
    ranks: list[int],
    places: list[int],
    percent: Float64Array,
    own_ms: Float64Array,
) -> _Row:
    some = tuple(ranks[place] for place in places)
    if len(some) == 1:
        return _Row(f"rank {some[0]}", some[0], some, percent[places[0]], own_ms[places[0]])
    known = np.nan_to_num(percent[places], nan=-np.inf)
    worst, columns = known.argmax(axis=0), np.arange(percent.shape[1])
    guilty = some[int(np.nan_to_num(percent[places]).mean(axis=1).argmax())]
    name = f"ranks {some[0]}–{some[-1]}"
    return _Row(name, guilty, some, percent[places][worst, columns], own_ms[places][worst, columns])


class _Columns(NamedTuple):
    """Columns of cells: steps, or blocks of them."""

    first: int
    steps: int
    each: int

    @classmethod
    def of(cls, own: OwnTime) -> _Columns:
        """Columns of as few steps each as `MOST_COLUMNS` allows."""
        count = own.percent.shape[1]
        return cls(int(own.percent.columns[0]), count, -(-count // MOST_COLUMNS))

    @property
    def middle(self) -> float:
        """Middle of the first column."""
        return self.first + (self.each - 1) / 2

    def folded(self, values: Float64Array, by: Float64Array) -> list[float]:
        """The value of each column, taken from the step in which `by` is largest."""
        known = np.nan_to_num(by, nan=-np.inf)
        blocks = [slice(start, start + self.each) for start in range(0, self.steps, self.each)]
        return [float(values[block][known[block].argmax()]) for block in blocks]

    def among(self, chosen: Collection[int]) -> list[int]:
        """Positions of the columns that contain any of the chosen steps."""
        inside = {step for step in chosen if 0 <= step - self.first < self.steps}
        return sorted({(step - self.first) // self.each for step in inside})

    def ticks(self) -> dict[str, Any]:
        """Axis settings: if there are few steps, each has a label."""
        if self.first < 0:
            return {"tickvals": []}
        if self.steps > _TICKS_AT_MOST:
            return {}
        return {"tickvals": [*range(self.first, self.first + self.steps)]}


def _rings(rows: Sequence[int], columns: Sequence[int], drawn: _Columns) -> dict[str, Any]:
    """Layout settings that draw a line around marked cells; without rows or columns, around all."""
    if not rows and not columns:
        return {}
    shapes = [
        ring(**across, **up)
        for across in _runs(columns, "x", drawn.first - 0.5, drawn.each)
        for up in _runs(rows, "y", -0.5, 1)
    ]
    return {"shapes": shapes}


def _runs(places: Sequence[int], axis: str, start: float, size: int) -> list[dict[str, Any]]:
    """Edges of the runs of neighbouring positions along an axis."""
    if not places:
        return [{f"{axis}ref": "paper", f"{axis}0": 0, f"{axis}1": 1}]
    runs = [
        [place for _, place in run]
        for _, run in groupby(enumerate(places), key=lambda pair: pair[1] - pair[0])
    ]
    return [
        {f"{axis}0": start + run[0] * size, f"{axis}1": start + (run[-1] + 1) * size}
        for run in runs
    ]
