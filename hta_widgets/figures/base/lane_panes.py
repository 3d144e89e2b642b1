"""Lanes as rows of cells, in four panes side by side: one for each activity."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.rank_overlap.finding import LANE_KEYS, lane_names
from hta_widgets.analyses.rank_overlap.timeline import ACTIVITIES
from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace, objects, trace
from hta_widgets.figures.base.rank_bars import SELECT_RANKS
from hta_widgets.figures.base.style import (
    IDLE,
    OVERLAPPED,
    TYPE_COLORS,
    axis,
    drawing,
    height_for_rows,
)
from hta_widgets.figures.base.text import hover_name

_VEIL = "rgba(128, 128, 128, 0.55)"
_FAINTEST = 0.05
_GAP = 0.03
_TICKS_AT_MOST = 24
_HIGHEST = 640
_HEADING_HEIGHT = 28
_SCALE_HEIGHT = 36


class Pane(NamedTuple):
    """The place of one activity among four side by side."""

    column: int
    name: str
    color: str

    @property
    def domain(self) -> tuple[float, float]:
        """Left and right edge, as shares of the width."""
        count = len(ACTIVITIES)
        width = (1 - _GAP * (count - 1)) / count
        left = self.column * (width + _GAP)
        return left, left + width

    @property
    def axis(self) -> str:
        """Suffix of its axis names."""
        return str(self.column + 1) if self.column else ""

    @property
    def scale(self) -> list[list[Any]]:
        """Colours from the least to the most."""
        red, green, blue = (int(self.color[at : at + 2], 16) for at in (1, 3, 5))
        return [[0, f"rgba({red}, {green}, {blue}, {_FAINTEST})"], [1, self.color]]


_COLORS = (TYPE_COLORS["COMPUTATION"], TYPE_COLORS["COMMUNICATION"], OVERLAPPED, IDLE)
PANES = tuple(
    Pane(column, name.capitalize(), color)
    for column, (name, color) in enumerate(zip(ACTIVITIES, _COLORS, strict=True))
)


class DrawnLanes(NamedTuple):
    """The lanes of a figure, from top to bottom."""

    keys: list[tuple[int, int, int]]
    names: list[str]
    titles: NDArray[np.object_]

    @classmethod
    def of(cls, lanes: pd.DataFrame) -> DrawnLanes:
        """All lanes of a result."""
        keys = zip(*(lanes[key].tolist() for key in LANE_KEYS), strict=True)
        names = lane_names(lanes)
        labels = zip(names, lanes["label"], strict=True)
        titles = [[f"Rank {name} ({hover_name(label)})"] for name, label in labels]
        return cls(list(keys), names, np.array(titles, dtype=object).reshape(-1, 1))

    def take(self, rows: NDArray[np.int64]) -> DrawnLanes:
        """Some of the lanes."""
        places = rows.tolist()
        names = [self.names[place] for place in places]
        return DrawnLanes([self.keys[place] for place in places], names, self.titles[rows])

    def heatmap(self, pane: Pane, z: NDArray[np.generic], **settings: Any) -> PlotlyTrace:  # noqa: ANN401
        """Draw cells in a pane; a click selects the rank of a row."""
        return trace(
            "heatmap",
            z=z,
            y=self.names,
            name=pane.name,
            colorscale=pane.scale,
            customdata=objects([[rank] for rank, _, _ in self.keys]),
            meta=SELECT_RANKS,
            xaxis=f"x{pane.axis}",
            **settings,
        )

    def veil(self, selected: Collection[int]) -> dict[str, Any]:
        """Layout settings that grey out the ranks that are not selected."""
        hidden = [bool(selected) and rank not in selected for rank, _, _ in self.keys]
        runs = [list(run) for _, run in groupby(range(len(hidden)), key=hidden.__getitem__)]
        shapes = [
            {
                "type": "rect",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": run[0] - 0.5,
                "y1": run[-1] + 0.5,
                "fillcolor": _VEIL,
                "line": {"width": 0},
            }
            for run in runs
            if hidden[run[0]]
        ]
        return {"shapes": shapes} if shapes else {}


def four_panes(
    traces: Sequence[Any], drawn: DrawnLanes, selected: Collection[int], x_axis: dict[str, Any]
) -> Drawing:
    """Put the traces of four panes together, over one axis of lanes."""
    count = len(drawn.names)
    return drawing(
        list(traces),
        height=min(height_for_rows(count) + _HEADING_HEIGHT, _HIGHEST),
        margin={"l": 8, "r": 16, "t": _HEADING_HEIGHT, "b": _SCALE_HEIGHT},
        showlegend=False,
        annotations=[_heading(pane) for pane in PANES],
        yaxis=axis(
            "Rank",
            type="category",
            tickvals=drawn.names[:: _tick_step(count)],
            range=[count - 0.5, -0.5],
            showgrid=False,
            ticks="",
        ),
        **{f"xaxis{pane.axis}": {**x_axis, "domain": pane.domain} for pane in PANES},
        **drawn.veil(selected),
    )


def _tick_step(count: int) -> int:
    """Step between labelled lanes: a power of two, like typical numbers of GPUs."""
    step = 1
    while count > step * _TICKS_AT_MOST:
        step *= 2
    return step


def _heading(pane: Pane) -> dict[str, Any]:
    return {
        "text": pane.name,
        "x": sum(pane.domain) / 2,
        "y": 1,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "center",
        "yanchor": "bottom",
        "showarrow": False,
    }
