"""Figure of the modules: a tree of rows, each with its time by phase."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.time.modules import PHASES
from hta_widgets.arrays import Int64Array
from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace, selecting
from hta_widgets.figures.base.style import PHASE_COLORS, axis, emphasis, row_bars, rows_drawing
from hta_widgets.figures.base.text import hover_name, plot_names
from hta_widgets.quantities import counted, duration, percent, time_unit

SMALL: Final = 0.001
"""Share of the total time below which sibling modules share a row."""

MOST_ROWS: Final = 40

TITLES: Final = {
    "gpu": "GPU time",
    "cpu": "CPU time",
    "idle": "GPU idle time caused",
    "exposed": "Exposed communication time",
}
_INSIDE: Final = "› "
_CLOSED: Final = " ▸"


class Row(NamedTuple):
    """One module, or several small siblings (``path`` is then empty)."""

    path: str
    label: str
    times: Int64Array
    calls: int
    inside: int


def modules(
    totals: pd.DataFrame,
    times: pd.DataFrame,
    whole_ns: int,
    *,
    weight: str = "gpu",
    levels: int = 3,
    selected: Collection[str] = (),
) -> Drawing:
    """Draw the tree of modules, outer ones above those inside them.

    Parameters
    ----------
    totals, times : DataFrame
        See `module_totals` and `time_by_phase`.
    whole_ns : int
        Time that the shares in hover texts refer to.
    weight : {"gpu", "cpu", "idle", "exposed"}
        Kind of the times.
    levels : int
        Number of open levels; modules around and inside selected ones are shown as well.
    """
    rows = _rows(totals, times, whole_ns, levels, selected)
    unit = time_unit(float(max((row.times.sum() for row in rows), default=0)))
    chosen = [place for place, row in enumerate(rows) if row.path in selected]
    labels = [row.label for row in rows]
    hover = [_hover(row, whole_ns) for row in rows]
    return rows_drawing(
        [
            _bars(phase, rows, unit.ns, hover) | emphasis(chosen)
            for phase in PHASES
            if any(row.times[PHASES.index(phase)] for row in rows)
        ],
        plot_names(labels),
        axis(f"{TITLES[weight]} ({unit.symbol})", rangemode="tozero"),
        barmode="stack",
        showlegend=True,
    )


def _rows(
    totals: pd.DataFrame,
    times: pd.DataFrame,
    whole_ns: int,
    levels: int,
    selected: Collection[str],
) -> list[Row]:
    """The rows from top to bottom; modules that are too small or too many share rows."""
    parents = totals["parent"].tolist()
    by_phase, sums = times.to_numpy(), times.to_numpy().sum(axis=1)
    inside: dict[int, list[int]] = {}
    for place in np.argsort(-sums, kind="stable").tolist():
        inside.setdefault(parents[place], []).append(place)
    open_ones = _open(totals, levels, selected)
    candidates = [place for place, parent in enumerate(parents) if parent in open_ones]
    largest = sorted(candidates, key=lambda place: -sums[place])[:MOST_ROWS]
    shown = {place for place in largest if sums[place] >= max(SMALL * whole_ns, 1)}
    names, paths, calls = (totals[name].tolist() for name in ("name", "path", "calls"))

    def below(place: int, depth: int) -> Iterator[Row]:
        children = inside.get(place, []) if place in open_ones else []
        for child in (each for each in children if each in shown):
            closed = len(inside.get(child, [])) if child not in open_ones else 0
            label = _INSIDE * depth + names[child] + _CLOSED * (closed > 0)
            yield Row(paths[child], label, by_phase[child], calls[child], closed)
            yield from below(child, depth + 1)
        rest = [each for each in children if each not in shown]
        if rest and (together := by_phase[rest].sum(axis=0)).any():
            label = f"{_INSIDE * depth}({len(rest)} smaller)"
            yield Row("", label, together, sum(calls[each] for each in rest), 0)

    return [*below(-1, 0)]


def _open(totals: pd.DataFrame, levels: int, selected: Collection[str]) -> set[int]:
    """Positions of the modules whose inner modules are shown; -1 for the outermost."""
    parents, depths = totals["parent"].tolist(), totals["depth"].tolist()
    found = {-1} | {place for place, depth in enumerate(depths) if depth < levels - 1}
    for place, path in enumerate(totals["path"].tolist()):
        if path in selected:
            while place not in found:
                found.add(place)
                place = parents[place]  # noqa: PLW2901
    return found


def _bars(phase: str, rows: list[Row], scale: float, hover: list[str]) -> PlotlyTrace:
    return row_bars(
        np.array([row.times[PHASES.index(phase)] for row in rows]) / scale,
        hover,
        name=phase.capitalize(),
        marker={"color": PHASE_COLORS[phase]},
        **selecting("modules", [row.path or None for row in rows]),
    )


def _hover(row: Row, whole_ns: int) -> str:
    total_ns = int(row.times.sum())
    lines: list[Any] = [
        hover_name(row.path or row.label),
        f"{duration(total_ns)}, {percent(100 * total_ns / (whole_ns or 1))} of the total",
    ]
    lines += [
        f"{phase}: {duration(ns)}"
        for phase, ns in zip(PHASES, row.times.tolist(), strict=True)
        if ns and ns != total_ns
    ]
    if row.calls:
        lines.append(counted(row.calls, "call"))
    if row.inside:
        lines.append(f"{counted(row.inside, 'module')} inside: click to open")
    return "<br>".join(lines)
