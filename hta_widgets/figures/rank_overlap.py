"""Figures of the overlap by rank: a column per activity, and activity over time."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.rank_overlap import RankOverlap
from hta_widgets.analyses.rank_overlap.finding import LANE_KEYS
from hta_widgets.analyses.rank_overlap.outlier_rules import OUTLIER
from hta_widgets.analyses.rank_overlap.outliers import SHARES, TIMES
from hta_widgets.arrays import Float64Array
from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace, objects, trace
from hta_widgets.figures.base.lane_panes import DrawnLanes, Pane, panes_for, side_by_side
from hta_widgets.figures.base.style import NEUTRAL, axis, drawing, height_for_rows, names_axis
from hta_widgets.quantities import time_unit

STRIPS_AT_MOST = 8
"""Maximum number of lanes drawn as strips; more are drawn as images."""

_MARK_COLOR = NEUTRAL
"""Not the colour of a budget class, as an outlier can be one in any class."""
_MARKS = {"higher": "triangle-up", "lower": "triangle-down"}
_BESIDE = 0.38
"""Place of a mark in its cell, from -0.5 to 0.5: to the right of the number."""
_LEAST_RANGE = 0.05
"""Smallest range of the colour scale, as a share of the time."""
_THICKNESS = 0.8


_MOST_WRITTEN: Final = 16
"""Maximum number of lanes with numbers in their cells; the cells of more lanes are too low."""


def time_by_lane(
    result: RankOverlap, *, selected: Collection[int] = (), as_percent: bool = True
) -> Drawing:
    """Draw a column of cells for each activity, all on one scale from 0; mark the outliers."""
    drawn = DrawnLanes.of(result.lanes)
    longest_ns = float(result.lanes["span_ns"].max())
    unit = time_unit(longest_ns)
    times = result.lanes[list(TIMES)].to_numpy() / unit.ns
    shares = result.lanes[list(SHARES)].to_numpy()
    shown, other = (shares, times) if as_percent else (times, shares)
    symbol, other_symbol = ("%", unit.symbol) if as_percent else (unit.symbol, "%")
    least = _LEAST_RANGE * (100 if as_percent else longest_ns / unit.ns)
    symbols = _symbols(result.outliers, drawn)
    traces, panes = [], panes_for(result.lanes)
    drawn_columns = shown[:, [pane.column for pane in panes]]
    most = float(np.nanmax(drawn_columns, initial=least))  # of the colour scale of all activities
    for pane in panes:
        cells = drawn.heatmap(
            pane,
            _column(shown, pane),
            x=[0],
            zmin=0,
            zmax=most,
            colorbar=_color_bar(pane, symbol),
            text=_column(other, pane),
            **({"texttemplate": "%{z:.3~r}"} if len(drawn.names) <= _MOST_WRITTEN else {}),
            hovertext=drawn.titles,
            hovertemplate=f"%{{hovertext}}<br>{pane.name}: %{{z:,.3~r}} {symbol}, "
            f"%{{text:,.3~r}} {other_symbol}<extra></extra>",
        )
        column = (SHARES if as_percent else TIMES)[pane.column]
        traces += [cells, *([_marks(pane, symbols[column])] if column in symbols else [])]
    x_axis = axis(tickvals=[], showgrid=False, range=[-0.5, 0.5])
    return side_by_side(panes, traces, drawn, selected, x_axis)


def images_over_time(result: RankOverlap, *, selected: Collection[int] = ()) -> Drawing:
    """Draw an image for each activity: lanes from top to bottom, slices from left to right."""
    drawn, time = DrawnLanes.of(result.lanes), _SliceTimes.of(result)
    panes = panes_for(result.lanes)
    # One byte for each cell: differences in colour below 1 % are invisible.
    shares = np.rint(_slice_shares(result)).astype(np.uint8)
    traces = [
        drawn.heatmap(
            pane,
            shares[pane.column],
            x0=time.start + time.width / 2,
            dx=time.width,
            zmin=0,
            zmax=100,
            showscale=False,
            hovertemplate=f"Rank %{{y}}<br>{pane.name}: %{{z}} % of the time slice<br>{time.hover}",
        )
        for pane in panes
    ]
    x_axis = axis(f"Time ({time.symbol})", showgrid=False)
    return side_by_side(panes, traces, drawn, selected, x_axis)


def strips_over_time(result: RankOverlap, *, selected: Collection[int] = ()) -> Drawing:
    """Draw a strip for each lane: a stacked bar of the activities in each time slice.

    If there are more than `STRIPS_AT_MOST` lanes, the first of the selected ranks are drawn.
    """
    rows = np.arange(len(result.lanes))
    if rows.size > STRIPS_AT_MOST:
        rows = np.flatnonzero(result.lanes["rank"].isin(list(selected)))[:STRIPS_AT_MOST]
    drawn, time = DrawnLanes.of(result.lanes).take(rows), _SliceTimes.of(result)
    shares = _slice_shares(result)[:, rows]
    below = np.cumsum(shares, axis=0) - shares
    return drawing(
        [_strip_bars(pane, shares, below, drawn, time) for pane in panes_for(result.lanes)],
        barmode="overlay",
        bargap=0,
        height=height_for_rows(2 * rows.size),
        xaxis=axis(f"Time after the first kernel ({time.symbol})", showgrid=False),
        yaxis=names_axis(drawn.names, "Rank"),
        **drawn.rings(selected),
    )


class _SliceTimes(NamedTuple):
    """Start of the first slice after the first kernel, and width of the slices, on an axis."""

    start: float
    width: float
    slices: int
    symbol: str

    @classmethod
    def of(cls, result: RankOverlap) -> _SliceTimes:
        """Times in the unit that fits all slices together."""
        slices, lanes = result.slices, result.lanes
        start_ns, end_ns = int(slices["start_ns"].min()), int(slices["end_ns"].max())
        span_ns = end_ns - start_ns
        first_ns = int(lanes["start_ns"][lanes["kernels"] > 0].min()) if span_ns else start_ns
        unit = time_unit(span_ns)
        count = int(slices["slice"].max()) + 1
        width = max(span_ns, 1) / unit.ns / count
        return cls((start_ns - first_ns) / unit.ns, width, count, unit.symbol)

    @property
    def middles(self) -> NDArray[Any]:
        """Middle of each slice, in single precision if that keeps them distinct."""
        middles = self.start + (np.arange(self.slices) + 0.5) * self.width
        return middles if self.start else middles.astype(np.float32)

    @property
    def hover(self) -> str:
        """The time line of a hover text."""
        return f"%{{x:,.4~r}} {self.symbol} after the first kernel<extra></extra>"


def _strip_bars(
    pane: Pane,
    shares: Float64Array,
    below: Float64Array,
    drawn: DrawnLanes,
    time: _SliceTimes,
) -> PlotlyTrace:
    row, place = np.nonzero(shares[pane.column])
    share = shares[pane.column, row, place]
    bottom = row + _THICKNESS * (0.5 - (below[pane.column, row, place] + share) / 100)
    whose = [[key[0], name] for key, name in zip(drawn.keys, drawn.names, strict=True)]
    return trace(
        "bar",
        x=time.middles[place],
        y=(_THICKNESS * share / 100).astype(np.float32),
        base=np.round(bottom, 4).astype(object),  # plotly sends it as text
        width=time.width,
        name=pane.name,
        marker={"color": pane.color, "line": {"width": 0}},
        customdata=objects(whose)[row],
        meta={"select": "ranks"},
        hovertext=np.round(share, 1).astype(str),
        hovertemplate=f"Rank %{{customdata[1]}}<br>{pane.name}: %{{hovertext}} % of the time slice"
        f"<br>{time.hover}",
    )


def _slice_shares(result: RankOverlap) -> Float64Array:
    """Share (%) of each activity in each slice, of the shape (5, lanes, slices)."""
    slices = result.slices
    length_ns = (slices["end_ns"] - slices["start_ns"]).to_numpy()
    spent = np.array([slices[column].to_numpy() for column in TIMES])
    shares = 100 * spent / np.maximum(length_ns, 1)
    return np.asarray(shares.reshape(len(TIMES), len(result.lanes), -1))


def _column(values: Float64Array, pane: Pane) -> NDArray[np.float32]:
    return values[:, pane.column, np.newaxis].astype(np.float32)


def _color_bar(pane: Pane, symbol: str) -> dict[str, Any]:
    left, right = pane.domain
    return {
        "orientation": "h",
        "x": (left + right) / 2,
        "y": 0,
        "yanchor": "top",
        "len": right - left,
        "thickness": 8,
        "outlinewidth": 0,
        "nticks": 3,
        "tickangle": 0,
        "ticksuffix": f" {symbol}",
        "showticksuffix": "last",
    }


def _symbols(outliers: pd.DataFrame, drawn: DrawnLanes) -> dict[str, dict[str, str]]:
    """Mark of each outlier, by column: filled, or open for a possible one."""
    found = outliers[(outliers["verdict"] != "").to_numpy()]
    words = (found[name].tolist() for name in ("column", "direction", "verdict"))
    keys = zip(*(found[key].tolist() for key in LANE_KEYS), strict=True)
    name_of = dict(zip(drawn.keys, drawn.names, strict=True))
    symbols: dict[str, dict[str, str]] = {}
    for column, direction, verdict, key in zip(*words, keys, strict=True):
        symbol = _MARKS[direction] + ("" if verdict == OUTLIER else "-open")
        symbols.setdefault(column, {})[name_of[key]] = symbol
    return symbols


def _marks(pane: Pane, symbols: dict[str, str]) -> PlotlyTrace:
    return trace(
        "scatter",
        x=[_BESIDE] * len(symbols),
        y=list(symbols),
        mode="markers",
        marker={"symbol": list(symbols.values()), "size": 9, "color": _MARK_COLOR},
        hoverinfo="skip",
        xaxis=f"x{pane.axis}",
    )
