"""Lanes drawn as rows of cells, in side-by-side panes: one pane per activity."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.rank_overlap.finding import LANE_KEYS, lane_names
from hta_widgets.analyses.rank_overlap.lanes import ACTIVITIES, GRAPH
from hta_widgets.arrays import Int64Array
from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace, selecting, trace
from hta_widgets.figures.base.style import (
    CLASS_COLORS,
    OVERLAPPED,
    TYPE_COLORS,
    axis,
    drawing,
    faded,
    height_for_rows,
    ring,
)
from hta_widgets.figures.base.text import hover_name

_FAINTEST = 0.05
_GAP = 0.03
_TICKS_AT_MOST = 24
_HIGHEST = 420
_HEADING_HEIGHT = 28
_SCALE_HEIGHT = 36


class Pane(NamedTuple):
    """The pane of one activity; `column` is the activity's position in `ACTIVITIES`."""

    column: int
    place: int
    panes: int
    name: str
    color: str

    @property
    def domain(self) -> tuple[float, float]:
        """Left and right edge, as shares of the width."""
        width = (1 - _GAP * (self.panes - 1)) / self.panes
        left = self.place * (width + _GAP)
        return left, left + width

    @property
    def axis(self) -> str:
        """Suffix of the pane's axis names."""
        return str(self.place + 1) if self.place else ""

    @property
    def scale(self) -> list[list[Any]]:
        """Colour scale, from the lowest to the highest value."""
        return [[0, faded(self.color, _FAINTEST)], [1, self.color]]


ACTIVITY_WORDS: Final = {
    "compute": "Compute only",
    "communicate": "Communication only",
    "overlap": "Both",
    "graph": "CUDA graphs",
    "empty": "No kernel",
}
"""Headings of `ACTIVITIES`."""

_NAMES = [ACTIVITY_WORDS[activity] for activity in ACTIVITIES]
_COLORS = (
    *(TYPE_COLORS["COMPUTATION"], TYPE_COLORS["COMMUNICATION"], OVERLAPPED),
    *(TYPE_COLORS["CUDA_GRAPH"], CLASS_COLORS["other_idle"]),
)


def panes_for(lanes: pd.DataFrame) -> list[Pane]:
    """Panes of the activities; CUDA graphs get one only where some were recorded as a whole."""
    has_graphs = lanes["graph_ns"].any()
    columns = [each for each in range(len(ACTIVITIES)) if each != GRAPH or has_graphs]
    return [
        Pane(column, place, len(columns), _NAMES[column], _COLORS[column])
        for place, column in enumerate(columns)
    ]


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

    def take(self, rows: Int64Array) -> DrawnLanes:
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
            xaxis=f"x{pane.axis}",
            **selecting("ranks", [rank for rank, _, _ in self.keys]),
            **settings,
        )

    def rings(self, selected: Collection[int]) -> dict[str, Any]:
        """Layout settings that draw a line around the selected ranks, if not all are drawn."""
        marked = [rank in selected for rank, _, _ in self.keys]
        if all(marked):
            return {}
        runs = [list(run) for _, run in groupby(range(len(marked)), key=marked.__getitem__)]
        shapes = [ring(y0=run[0] - 0.5, y1=run[-1] + 0.5) for run in runs if marked[run[0]]]
        return {"shapes": shapes} if shapes else {}


def side_by_side(
    panes: Sequence[Pane],
    traces: Sequence[Any],
    drawn: DrawnLanes,
    selected: Collection[int],
    x_axis: dict[str, Any],
) -> Drawing:
    """Put the traces of all panes together, over one axis of lanes."""
    count = len(drawn.names)
    return drawing(
        list(traces),
        height=min(height_for_rows(count) + _HEADING_HEIGHT, _HIGHEST),
        margin={"l": 8, "r": 16, "t": _HEADING_HEIGHT, "b": _SCALE_HEIGHT},
        showlegend=False,
        annotations=[_heading(pane) for pane in panes],
        yaxis=axis(
            "Rank",
            type="category",
            tickvals=drawn.names[:: _tick_step(count)],
            range=[count - 0.5, -0.5],
            showgrid=False,
            ticks="",
        ),
        **{f"xaxis{pane.axis}": {**x_axis, "domain": pane.domain} for pane in panes},
        **drawn.rings(selected),
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
