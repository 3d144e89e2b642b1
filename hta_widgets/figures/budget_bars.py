"""Budgets side by side: a stacked bar for each rank, or for each step."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.budget.classes import BUDGET
from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace, selecting, trace
from hta_widgets.figures.base.style import (
    NEUTRAL,
    axis,
    class_marker,
    drawing,
    faded,
    legend_entry,
    ring,
    row_ticks,
)
from hta_widgets.figures.base.text import plot_names
from hta_widgets.quantities import NS_PER_MS

_ROW_HEIGHT: Final = 26
_LEAST_ROW_HEIGHT: Final = 13  # the height of a label
_MOST_HEIGHT: Final = 250
_MARGIN: Final = 40
_LEAST_HEIGHT: Final = 80
_STEPS_HEIGHT: Final = 190
_MOST_RANKS: Final = 16
_TYPICAL_RANKS: Final = 3  # at each end and around the median, if there are more than _MOST_RANKS
_ROOM_ABOVE: Final = 1.05
_LEGEND_HEIGHT: Final = 48
_RING: Final = {"line": {"width": 2, "color": "#0072B2"}}


def rank_budgets(
    table: pd.DataFrame, *, selected: Collection[int] = (), unit: str = "ms per step"
) -> Drawing:
    """Draw a horizontal bar for each rank, the first row at the top; a click selects the rank.

    With more than 16 ranks, only the first, middle, last and selected ones are drawn, and the
    gaps between them say how many are left out. The table has ``rank``, ``period_ms`` and the
    budget classes in ms; `unit` is the label of the axis.
    """
    runs = _shown_runs(len(table), np.flatnonzero(table["rank"].isin([*selected])).tolist())
    shown = table.iloc[[place for run in runs for place in run]]
    rows, ticks, count = _rows(runs, [f"rank {rank}" for rank in table["rank"].tolist()])
    bars = _bars(shown, "rank", orientation="h", y=rows)
    row = max(_LEAST_ROW_HEIGHT, min(_ROW_HEIGHT, _MOST_HEIGHT // max(len(table), 1)))
    return drawing(
        bars,
        barmode="stack",
        bargap=0.3,
        height=_MARGIN + max(row * count, _LEAST_HEIGHT),
        showlegend=False,
        margin={"l": 8, "r": 16, "t": 0, "b": 8},
        xaxis=axis(unit, range=[0, float(table["period_ms"].max())]),
        yaxis=axis(
            "",
            **ticks,
            range=[count - 0.5, -0.5],
            showgrid=False,
            ticks="",
        ),
        shapes=_rings(dict(zip(rows, shown["rank"].tolist(), strict=True)), selected, "y"),
    )


def job_budgets(times: pd.DataFrame, *, names: Sequence[str], units: Sequence[str] = ()) -> Drawing:
    """Draw a horizontal bar for each job, all on one scale, the first on top.

    The times (ns) have a row per class, by its label, and a column per job; `units` says what each
    job's time covers, and follows its name.
    """
    labels = plot_names(names)
    if units:
        labels = [f"{name} ({unit})" for name, unit in zip(labels, units, strict=True)]
    occurring = [each for each in BUDGET if each.label in times.index]
    legend = [legend_entry(each.label, each.name) for each in occurring]
    rows = list(range(len(labels)))
    bars = [
        trace(
            "bar",
            name=each.label,
            orientation="h",
            y=rows,
            x=times.loc[each.label].to_numpy(np.float64) / NS_PER_MS,
            marker=class_marker(each.name),
            hovertemplate=f"{each.label}: %{{x:.3~r}} ms<extra></extra>",
        )
        for each in occurring
    ]
    height = _MARGIN + max(_LEAST_HEIGHT, len(labels) * _LEAST_HEIGHT // 2)
    return drawing(
        bars,
        barmode="stack",
        bargap=0.3,
        height=_LEGEND_HEIGHT + height,
        showlegend=True,
        margin={"l": 8, "r": 16, "t": 0, "b": 8},
        meta={"wide": True, "legend": legend, "height": height},
        xaxis=axis("ms", rangemode="tozero"),
        yaxis=axis(
            "", tickvals=rows, ticktext=labels, range=[len(rows) - 0.5, -0.5], showgrid=False
        ),
    )


def step_budgets(
    table: pd.DataFrame, *, selected: Collection[int] = (), unit: str = "ms"
) -> Drawing:
    """Draw a vertical bar for each step, in order; a click selects the step.

    The table has ``step``, ``period_ms`` and the budget classes in ms; with a window also
    ``whole_step_ms``, drawn behind the part inside the window. `unit` is the label of the axis.
    """
    gap = max(0.3, 1 - 0.1 * len(table))
    numbers = [str(step) if step >= 0 else "GPU span" for step in table["step"].tolist()]
    bars = _bars(table, "step", x=list(range(len(numbers))))
    return drawing(
        bars,
        barmode="stack",
        bargap=gap,
        height=_LEGEND_HEIGHT + _STEPS_HEIGHT,
        showlegend=True,
        margin={"l": 8, "r": 16, "t": 4, "b": 8},
        meta={"wide": False, "height": _STEPS_HEIGHT},
        yaxis=axis(unit, rangemode="tozero", **_whole_range(table)),
        xaxis=axis("Step", **row_ticks(numbers), range=[-0.5, len(numbers) - 0.5], showgrid=False),
        shapes=[
            *_whole_steps(table, (1 - gap) / 2),
            *_rings(dict(enumerate(table["step"].tolist())), selected, "x"),
        ],
    )


def _shown_runs(count: int, chosen: Sequence[int]) -> list[range]:
    """Positions of the ranks to draw, as runs of neighbours."""
    if count <= _MOST_RANKS:
        return [range(count)] if count else []
    middle = (count - _TYPICAL_RANKS) // 2
    starts = (0, middle, count - _TYPICAL_RANKS)
    places = {*chosen[:_TYPICAL_RANKS]}.union(*(range(at, at + _TYPICAL_RANKS) for at in starts))
    edges = [place for place in sorted(places) if place - 1 not in places]
    ends = [place + 1 for place in sorted(places) if place + 1 not in places]
    return [range(first, last) for first, last in zip(edges, ends, strict=True)]


def _rows(runs: Sequence[range], names: list[str]) -> tuple[list[int], dict[str, Any], int]:
    """The row of each drawn rank, the labels of rows and gaps, and the number of rows."""
    rows, labels, at, reached = list[int](), dict[int, str](), 0, 0
    for run in runs:
        if run.start > reached:
            labels[at] = f"{run.start - reached} more"
            at += 1
        labels |= {at + place - run.start: names[place] for place in run}
        rows += range(at, at + len(run))
        at, reached = at + len(run), run.stop
    return rows, {"tickvals": [*labels], "ticktext": [*labels.values()]}, at


def _bars(
    table: pd.DataFrame,
    key: str,
    **attributes: Any,  # noqa: ANN401
) -> list[PlotlyTrace]:
    """One trace for each class in the table."""
    horizontal = "y" in attributes
    return [
        trace(
            "bar",
            name=each.short,
            **attributes,
            **{"x" if horizontal else "y": table[f"{each.name}_ms"].to_numpy(np.float64)},
            marker=class_marker(each.name),
            hovertemplate=f"{key} %{{customdata[0]}}: {each.short} "
            f"%{{{'x' if horizontal else 'y'}:.3~r}} ms<extra></extra>",
            **selecting(f"{key}s", table[key].tolist()),
        )
        for each in BUDGET
        if f"{each.name}_ms" in table
    ]


def _whole_steps(table: pd.DataFrame, half_width: float) -> list[dict[str, Any]]:
    """For each step that is drawn in part, a box as long as the whole step, behind that part."""
    if "whole_step_ms" not in table:
        return []
    is_cut = table["whole_step_ms"] > table["period_ms"]
    return [
        {
            "type": "rect",
            "layer": "below",
            "x0": place - half_width,
            "x1": place + half_width,
            "y0": 0,
            "y1": float(table["whole_step_ms"].iloc[place]),
            "fillcolor": faded(NEUTRAL, 0.2),
            "line": {"width": 1, "color": NEUTRAL, "dash": "dot"},
        }
        for place in np.flatnonzero(is_cut).tolist()
    ]


def _whole_range(table: pd.DataFrame) -> dict[str, Any]:
    """Axis range that includes the boxes of whole steps; without any, plotly's own."""
    if "whole_step_ms" not in table:
        return {}
    return {"range": [0, _ROOM_ABOVE * float(table["whole_step_ms"].max())]}


def _rings(
    numbers: Mapping[int, int], selected: Collection[int], along: str
) -> list[dict[str, Any]]:
    """A line around the bar of each selected rank or step; `numbers` maps rows to them."""
    return [
        ring(**{f"{along}0": place - 0.46, f"{along}1": place + 0.46}) | _RING
        for place, number in numbers.items()
        if number in selected
    ]
