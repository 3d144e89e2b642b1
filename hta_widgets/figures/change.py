"""Figures of a change: what the mean step of two jobs differs in, part by part."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from hta_widgets.analyses.budget.classes import CLASS_LABELS
from hta_widgets.diagnosis.change.explain_change import Change, count_words
from hta_widgets.diagnosis.change.summary import Summary
from hta_widgets.diagnosis.change.waterfall import LEVELS, Line, Opened, level
from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace, trace
from hta_widgets.figures.base.style import (
    NEUTRAL,
    axis,
    drawing,
    faded,
    line_across,
    ring,
    rows_drawing,
)
from hta_widgets.figures.base.text import hover_name, plot_names, plot_text
from hta_widgets.figures.budget_bars import job_budgets
from hta_widgets.quantities import counted, duration, signed, time_unit

LONGER, SHORTER = "#D55E00", "#009E73"
"""Parts that take longer in the second job, and shorter; their side of the axis also tells."""

MOST_ROWS: Final = 12
"""Maximum bars of one level; the sum of the others gets one more."""

_SMALL_HEIGHT: Final = 170
_WIDTH: Final = 56
_BAR_WIDTH: Final = 0.7
_ROOM: Final = 0.15
"""Room at each end for the numbers next to the bars, as a share of the axis length."""


def budgets_of_both(change: Change) -> Drawing:
    """Draw what the mean step of each job is spent on, the first on top."""
    times = level(change.waterfall, "class").set_index("class")[["first_ns", "second_ns"]]
    names = [change.first.name, change.second.name]
    units = [change.first.unit, change.second.unit]
    return job_budgets(times.rename(index=CLASS_LABELS), names=names, units=units)


def step_lengths(job: Summary, *, longest_ns: int) -> Drawing:
    """Draw how long each step of a job takes, on a scale up to the longest step of all jobs."""
    unit = time_unit(longest_ns)
    lengths = job.steps["job_ns"].to_numpy(dtype=np.float64) / unit.ns
    mean = float(lengths.mean()) if lengths.size else 0.0
    return drawing(
        [trace("bar", y=lengths, x=np.arange(lengths.size), marker={"color": NEUTRAL})],
        height=_SMALL_HEIGHT,
        showlegend=False,
        xaxis=axis("Step", tickvals=[], showgrid=False),
        yaxis=axis(unit.symbol, range=[0, 1.05 * longest_ns / unit.ns]),
        shapes=[line_across("y", mean, color=LONGER)],
    )


def waterfall_bars(change: Change, opened: Opened, *, chosen: tuple[str, ...] = ()) -> Drawing:
    """Draw where the difference of two mean steps comes from; each bar starts where the last ends.

    The rows above are the whole difference and the opened parts, the innermost with a bar; clicking
    one goes back to it. Clicking a bar below opens it. The row of the chosen path gets a ring if
    it is among those below.
    """
    shown, others = opened.below[:MOST_ROWS], opened.below[MOST_ROWS:]
    deltas = [line.delta_ns for line in (*opened.above, *shown)]
    rest = sum(line.delta_ns for line in others)
    ends = [*accumulate((line.delta_ns for line in shown), initial=0)]
    above = [f"‹ {change.label(line.path)}" for line in opened.above[1:]]
    labels = [f"all of {change.label(())}", *plot_names(above, _WIDTH)]
    labels += plot_names([change.label(line.path) for line in shown], _WIDTH)
    rows = len(opened.above)
    begins = [*(0 for _ in opened.above), *ends[:-1]]
    lengths = [*(0 for _ in opened.above[1:]), *deltas[rows - 1 :]]  # rows above would dwarf these
    looks = [NEUTRAL] * rows + [LONGER if line.delta_ns > 0 else SHORTER for line in shown]
    hovers = [_hover(change, line) for line in (*opened.above, *shown)]
    paths = [[[*line.path]] for line in (*opened.above, *shown)]
    if others:
        labels.append(counted(len(others), "other"))
        begins, deltas, lengths = [*begins, ends[-1]], [*deltas, rest], [*lengths, rest]
        looks.append(faded(NEUTRAL, 0.4))
    edges = [0, *(begin + each for begin, each in zip(begins, lengths, strict=True))]
    unit = time_unit(max(*map(abs, edges), 1))
    room = max(_ROOM * (max(edges) - min(edges)), 1)
    low, high = (min(edges) - room) / unit.ns, (max(edges) + room) / unit.ns
    bars = [
        _bars(
            [low] * len(paths),
            [high - low] * len(paths),
            marker={"color": "rgba(0, 0, 0, 0)"},  # so that a short bar's whole row is clickable
            customdata=paths,
            meta={"sets": "opened"},
            hovertext=hovers,
        ),
        _bars(
            [each / unit.ns for each in begins],
            [each / unit.ns for each in lengths],
            marker={"color": looks},
            text=[signed(each, duration) for each in deltas],
            textposition="outside",
            cliponaxis=False,
            hoverinfo="skip",
        ),
    ]
    rings = [
        ring(y0=place - 0.45, y1=place + 0.45)
        for place, line in enumerate(shown, start=rows)
        if line.path == chosen
    ]
    return rows_drawing(
        bars,
        labels,
        axis(f"Change ({unit.symbol} per step)", zeroline=True, range=[low, high]),
        barmode="overlay",
        showlegend=False,
        meta={"wide": True},
        shapes=[line_across("y", rows - 0.5, dash="dot"), *rings],  # below the opened parts
    )


def _bars(begins: ArrayLike, lengths: ArrayLike, **attributes: Any) -> PlotlyTrace:  # noqa: ANN401
    return trace(
        "bar",
        orientation="h",
        width=_BAR_WIDTH,
        y=np.arange(np.size(begins)),
        base=np.array(begins, dtype=np.float64),
        x=np.array(lengths, dtype=np.float64),
        **attributes,
    )


def _hover(change: Change, line: Line) -> str:
    where = [hover_name(change.label(line.path[: depth + 1])) for depth in range(len(line.path))]
    name = LEVELS[len(line.path) - 1] if line.path else ""
    change_words = signed(line.delta_ns, duration)
    times = f"{duration(line.first_ns)} → {duration(line.second_ns)} ({change_words})"
    said = f"{name}: {where[-1]}" if where else plot_text(change.label(()))
    return f"{said}<br>{times}<br>per step {count_words(line)}"
