"""Step lines over time in stacked strips, reduced to what the screen can show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace, trace
from hta_widgets.figures.base.style import DEFAULT_HEIGHT, axis, drawing, round_ticks
from hta_widgets.figures.base.text import plot_text
from hta_widgets.intervals import Times
from hta_widgets.quantities import NS_PER_US, counted, time_unit

POINTS_AT_MOST = 2400
STRIPS_AT_MOST = 8
ZOOM = {"zoom": "window_us"}
"""A zoom sets the parameter `window_us` to the range of the x axis, which is in µs."""

_STRIP_HEIGHT = 76
_LOWEST_STRIP = 48
_STRIPS_HEIGHT = 400  # of many strips together
_AXES_HEIGHT = 60
_LABEL_HEIGHT = 20
_LABEL_SIZE = 11
_OF_FOUR_TICKS = 50  # px: with eight strips, the ticks 0.6, 0.4 and 0.2 overprinted each other
_TICKS = 6


@dataclass(frozen=True, eq=False)
class StepLine:
    """A value that holds from one change to the next."""

    name: str
    unit: str
    color: str
    time_ns: Times
    values: NDArray[Any]
    beside: bool = False
    """Whether it is drawn in the previous line's strip, in front of that line."""


class StepLines(NamedTuple):
    """Lines to draw, and the total number of lines if only some are drawn."""

    drawn: Sequence[StepLine]
    in_all: int = 0
    what: str = "changes"
    """What the drawn lines have the most of."""


class _Stretch(NamedTuple):
    """The time that is shown, ends included."""

    start_ns: int
    end_ns: int


def lines_of_ranks(
    rank: Int64Array,
    count: Int64Array,
    labels: Sequence[str],
    changes: Mapping[int, Mapping[str, NDArray[Any]]],
    *,
    value: str,
    unit: str,
    color: str,
    shift_ns: Mapping[int, int],
) -> list[StepLine]:
    """Make all lines of a table.

    Parameters
    ----------
    rank, count : ndarray of int64
        Rank and number of changes of each line; the lines of a rank are contiguous.
    changes : mapping of rank to columns
        ``time_ns``, and the column `value` that holds from then on; line by line.
    shift_ns : mapping of rank to int
        Time to add for each rank, to put all on a common axis; 0 for missing ranks.
    """
    first = _first_changes(rank, count)
    found = []
    for label, each, begin, size in zip(labels, rank.tolist(), first, count, strict=True):
        rows, shift = slice(begin, begin + size), shift_ns.get(each, 0)
        time_ns, values = changes[each]["time_ns"][rows], changes[each][value][rows]
        found.append(StepLine(label, unit, color, time_ns + shift if shift else time_ns, values))
    return found


def _first_changes(rank: Int64Array, count: Int64Array) -> Int64Array:
    """Position of the first change of each line among the changes of its rank."""
    before = np.cumsum(count) - count
    _, first, place = np.unique(rank, return_index=True, return_inverse=True)
    return np.asarray(before - before[first[place]])


def lines_with_most_changes(lines: Sequence[StepLine], wanted: Mask) -> StepLines:
    """The `STRIPS_AT_MOST` wanted lines with the most changes, in the original order."""
    changes = np.array([line.time_ns.size for line in lines], dtype=np.int64)
    return lines_with_most(lines, wanted, changes, "changes")


def lines_with_most(
    lines: Sequence[StepLine], wanted: Mask, numbers: Int64Array, what: str
) -> StepLines:
    """The `STRIPS_AT_MOST` wanted lines with the largest numbers, in the original order."""
    places = np.flatnonzero(wanted)
    most = places[np.argsort(-numbers[places], kind="stable")[:STRIPS_AT_MOST]]
    return StepLines([lines[place] for place in np.sort(most).tolist()], places.size, what)


def step_lines(
    lines: StepLines, *, window_us: Sequence[float] = (), points: int = POINTS_AT_MOST
) -> Drawing:
    """Draw each line in its own strip over one time axis (µs), with at most `points` in all."""
    drawn, in_all, what = lines
    strips = np.cumsum([not line.beside for line in drawn], dtype=np.int64) - 1
    count = int(strips.max(initial=-1)) + 1
    stretch = _stretch(drawn, window_us)
    changes = [_changes_on(stretch, line.time_ns) for line in drawn]
    chosen = [
        steps_to_draw(line.time_ns, line.values, *stretch, share)
        for line, share in zip(drawn, _shares(changes, points), strict=True)
    ]
    traces = [
        _trace(line, positions, stretch, place)
        for place, line, positions in zip(strips.tolist(), drawn, chosen, strict=True)
    ]
    caption = _caption(sum(map(len, chosen)), sum(changes), len(drawn), in_all, what)
    return drawing(
        traces,
        height=_AXES_HEIGHT + _strips_height(count),
        showlegend=False,
        dragmode="zoom",
        meta=ZOOM,
        xaxis=_time_axis(stretch, caption, count),
        annotations=[
            _label(line, place, count)
            for place, line in zip(strips.tolist(), drawn, strict=True)
            if not line.beside
        ],
        **_value_axes(
            [
                line.values[positions]
                for line, positions in zip(drawn, chosen, strict=True)
                if not line.beside
            ]
        ),
    )


def _strips_height(count: int) -> int:
    """Height of all strips together; the more strips, the lower each is."""
    each = max(_LOWEST_STRIP, min(_STRIP_HEIGHT, _STRIPS_HEIGHT // max(count, 1)))
    return max(DEFAULT_HEIGHT - _AXES_HEIGHT, each * count)


def _stretch(lines: Sequence[StepLine], window_us: Sequence[float]) -> _Stretch:
    if len(window_us):
        start_ns, end_ns = (round(us * NS_PER_US) for us in window_us)
        return _Stretch(start_ns, max(start_ns + 1, end_ns))
    drawn = [line.time_ns for line in lines if line.time_ns.size]
    if not drawn:
        return _Stretch(0, 1)
    start_ns = min(int(each[0]) for each in drawn)
    return _Stretch(start_ns, max(start_ns + 1, *(int(each[-1]) for each in drawn)))


def _changes_on(stretch: _Stretch, time_ns: Times) -> int:
    first, last = np.searchsorted(time_ns, [stretch.start_ns, stretch.end_ns + 1])
    return int(last - first)


def _shares(changes: Sequence[int], points: int) -> list[int]:
    """Number of points for each line; what a line with few changes does not need goes to others."""
    shares = [0] * len(changes)
    left = points
    for done, place in enumerate(np.argsort(changes).tolist()):
        shares[place] = min(changes[place] + 1, left // (len(changes) - done))
        left -= shares[place]
    return shares


def _trace(line: StepLine, positions: Int64Array, stretch: _Stretch, place: int) -> PlotlyTrace:
    name = plot_text(line.name)
    time_ns, values = line.time_ns[positions], line.values[positions]
    if positions.size:
        # The last value holds to the end of the stretch.
        time_ns = np.append(np.maximum(time_ns, stretch.start_ns), stretch.end_ns)
        values = np.append(values, values[-1])
    return trace(
        "scatter",
        x=time_ns / NS_PER_US,
        y=values,
        name=name,
        mode="lines",
        line={"shape": "hv", "width": 1, "color": line.color},
        fill="tozeroy",
        xaxis="x",
        yaxis=_axis_id(place),
        hovertemplate=f"{name}<br>%{{x:,.3f}} µs: %{{y:,.4~g}} {line.unit}<extra></extra>",
    )


def _axis_id(place: int) -> str:
    return "y" if place == 0 else f"y{place + 1}"


def _top(place: int, strips: int) -> float:
    height = _strips_height(strips)
    return 1 - place / strips - _LABEL_HEIGHT / height


def _value_axes(values: Sequence[NDArray[Any]]) -> dict[str, Any]:
    """Axes of the strips, from top to bottom, with room for a label above each."""
    strips = len(values)
    inside = _strips_height(strips) / max(strips, 1) - _LABEL_HEIGHT
    return {
        f"yaxis{place + 1 if place else ''}": axis(
            domain=[1 - (place + 1) / strips, _top(place, strips)],
            anchor="x",
            rangemode="tozero",
            nticks=4,
            exponentformat="none",  # plotly's "400µ" (of a GB/s) reads as a time
            **(_whole_ticks(each) if inside >= _OF_FOUR_TICKS else _two_ticks(each)),
        )
        for place, each in enumerate(values)
    }


def _whole_ticks(values: NDArray[Any]) -> dict[str, Any]:
    """Whole ticks for counts up to two, where plotly would also tick fractions; 0 for none."""
    most = values.max(initial=0)
    if most <= 0:
        return {"tickvals": [0]}
    return {"dtick": 1} if values.dtype.kind in "iu" and most <= 2 else {}  # noqa: PLR2004


def _two_ticks(values: NDArray[Any]) -> dict[str, Any]:
    """Ticks at 0 and near the top; plotly's own choice may leave only the one at 0."""
    most = float(values.max(initial=0))
    if most <= 0:
        return {"tickvals": [0]}
    power = 10.0 ** math.floor(math.log10(most))
    return {"tickvals": [0, max(n * power for n in (1, 2, 5) if n * power <= most)]}


def _label(line: StepLine, place: int, strips: int) -> dict[str, Any]:
    return {
        "text": plot_text(line.name),
        "showarrow": False,
        "x": 0,
        "y": _top(place, strips),
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "font": {"size": _LABEL_SIZE},
    }


def _caption(shown: int, changes: int, strips: int, lines_in_all: int, what: str) -> str:
    parts = counted(changes, "change")
    if shown < changes:
        parts = f"{shown:,} of {parts} drawn (min, max and last of each interval)"
    if lines_in_all > strips:
        parts += f"; the {strips} of {lines_in_all} lines with the most {what}"
    return parts


def _time_axis(stretch: _Stretch, caption: str, strips: int) -> dict[str, Any]:
    """Axis in µs, as a zoom reports it, with labels in the most readable unit."""
    start_ns, end_ns = stretch
    unit = time_unit(max(abs(start_ns), abs(end_ns)))
    ticks, decimals = round_ticks(start_ns / unit.ns, end_ns / unit.ns, _TICKS)
    return axis(
        f"Time ({unit.symbol}) · {caption}",
        range=[start_ns / NS_PER_US, end_ns / NS_PER_US],
        tickvals=[tick * unit.ns / NS_PER_US for tick in ticks],
        ticktext=[f"{tick:,.{decimals}f}" for tick in ticks],
        fixedrange=False,
        anchor=_axis_id(max(strips - 1, 0)),
    )


_KEPT_PER_INTERVAL = 3


def steps_to_draw(
    time_ns: Times, values: NDArray[Any], start_ns: int, end_ns: int, points: int
) -> Int64Array:
    """Choose the changes of a step line that are needed to draw it between two times, inclusive.

    If there are more changes than points, the time is cut into equal intervals, and the minimum,
    maximum and last value of each interval are kept: peaks stay visible, and the line has its true
    height between intervals. The value that holds at the start is always kept as well.

    Times must ascend, and values must not be NaN. Returns ascending positions in both.
    """
    first = max(int(np.searchsorted(time_ns, start_ns, side="right")) - 1, 0)
    last = int(np.searchsorted(time_ns, end_ns, side="right"))
    if last - first <= points:
        return np.arange(first, last)
    intervals = max(points // _KEPT_PER_INTERVAL, 1)
    inner = np.ceil(np.linspace(start_ns, end_ns, intervals + 1)[1:-1]).astype(np.int64)
    cuts = first + np.searchsorted(time_ns[first:last], inner)
    edges = dict.fromkeys((first, *cuts.tolist(), last))
    # M4 (Jugel et al., VLDB 2014) without the first value of an interval: a step line holds the
    # last value of the interval before it.
    kept = [first]
    for begin, end in pairwise(edges):
        run = values[begin:end]
        kept += (begin + int(run.argmin()), begin + int(run.argmax()), end - 1)
    return np.array(sorted({*kept}), dtype=np.int64)
