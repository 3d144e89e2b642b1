"""Layout of a picture: its axes, and the room around them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final

from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace
from hta_widgets.figures.svg.axes import Axis
from hta_widgets.figures.svg.bars import Boxes, Whiskers, boxes_of, whiskers_of
from hta_widgets.figures.svg.elements import LINE_HEIGHT, widest
from hta_widgets.figures.svg.legend import ROW_HEIGHT, Entry, entries_of, in_rows
from hta_widgets.figures.svg.marks import cell_edges

WIDTH: Final = 760
"""Width of every picture (px)."""

EDGE: Final = 8
TICK_GAP: Final = 5
TITLE_HEIGHT: Final = 18
SCALE_HEIGHT: Final = 26
_RIGHT_MARGIN = 2 * EDGE  # room for the last tick label
_LABELS_AT_MOST = 440
_DEFAULT_HEIGHT = 320


class Frame:
    """The axes of a figure in a picture.

    Attributes
    ----------
    bars : dict of (str, str) to list of Boxes
        Bars, by the names of their axes in the layout (as are the next two).
    whiskers : dict of (str, str) to list of Whiskers
    traces : dict of (str, str) to list of dict
        The other traces.
    height : float
        Height of the picture (px).
    """

    def __init__(self, drawn: Drawing) -> None:
        self.layout = drawn.layout
        self.height: float = drawn.layout.get("height", _DEFAULT_HEIGHT)
        self._entries = entries_of(drawn)
        self.bars: dict[tuple[str, str], list[Boxes]] = {}
        self.whiskers: dict[tuple[str, str], list[Whiskers]] = {}
        self.traces: dict[tuple[str, str], list[PlotlyTrace]] = {}
        for axes, traces in _by_axes(drawn.data).items():
            bars = [each for each in traces if each["type"] == "bar"]
            self.bars[axes] = list(boxes_of(bars, self.layout))
            self.whiskers[axes] = [found for each in bars if (found := whiskers_of(each))]
            self.traces[axes] = [each for each in traces if each["type"] != "bar"]

    @cached_property
    def left(self) -> float:
        """Left end of the axes."""
        axes = self._unplaced(1).values()
        titled = any(axis.title for axis in axes)
        labels = min(widest(text for axis in axes for _, text in axis.ticks), _LABELS_AT_MOST)
        return EDGE + labels + TICK_GAP + (TITLE_HEIGHT if titled else 0)

    @cached_property
    def right(self) -> float:
        """Right end of the axes."""
        return WIDTH - _RIGHT_MARGIN

    @cached_property
    def legend(self) -> list[list[Entry]]:
        """Rows of the legend, which is as wide as the axes."""
        return in_rows(self._entries, self.right - self.left)

    @cached_property
    def top(self) -> float:
        """Upper end of the axes."""
        notes = self.layout.get("annotations", ())
        above = any(note["y"] == 1 and note.get("yanchor") == "bottom" for note in notes)
        return EDGE + ROW_HEIGHT * len(self.legend) + (LINE_HEIGHT if above else 0)

    @cached_property
    def bottom(self) -> float:
        """Lower end of the axes."""
        axes = self._unplaced(0).values()
        scales = any("colorbar" in each for every in self.traces.values() for each in every)
        below = EDGE + (LINE_HEIGHT + TICK_GAP if any(axis.ticks for axis in axes) else 0)
        below += TITLE_HEIGHT if any(axis.title for axis in axes) else 0
        return self.height - below - (SCALE_HEIGHT if scales else 0)

    @cached_property
    def x(self) -> dict[str, Axis]:
        """Horizontal axes by name."""
        unplaced = self._unplaced(0).items()
        return {name: axis.placed(self.left, self.right) for name, axis in unplaced}

    @cached_property
    def y(self) -> dict[str, Axis]:
        """Vertical axes by name."""
        unplaced = self._unplaced(1).items()
        return {name: axis.placed(self.bottom, self.top) for name, axis in unplaced}

    def on_paper(self, x: float, y: float) -> tuple[float, float]:
        """Place (px) of a point given as shares of the axes' width and height."""
        across = self.left + x * (self.right - self.left)
        return across, self.bottom - y * (self.bottom - self.top)

    def _unplaced(self, side: int) -> dict[str, Axis]:
        names = sorted({axes[side] for axes in self.traces} or {("xaxis", "yaxis")[side]})
        return {name: self._axis(name, side) for name in names}

    def _axis(self, name: str, side: int) -> Axis:
        shown: list[Any] = []
        padded = True
        for axes in self.traces:
            if axes[side] == name:
                shown += [boxes[side] for boxes in self.bars[axes]]
                for each in self.whiskers[axes]:
                    shown += [each.low, each.high] if side else [each.x]
                for trace in self.traces[axes]:
                    cells = trace["type"] == "heatmap"
                    padded = padded and not cells
                    edges = cells and not side
                    shown.append(cell_edges(trace) if edges else trace["xy"[side]])
        return Axis.of(self.layout.get(name, {}), shown, padded=padded)


def _by_axes(traces: Iterable[PlotlyTrace]) -> dict[tuple[str, str], list[PlotlyTrace]]:
    """Traces by the names of their axes in the layout."""
    found: defaultdict[tuple[str, str], list[PlotlyTrace]] = defaultdict(list)
    for trace in traces:
        found[_axis_name(trace, "x"), _axis_name(trace, "y")].append(trace)
    return found


def _axis_name(trace: PlotlyTrace, side: str) -> str:
    """Name in the layout: ``xaxis2`` of the trace's ``x2``."""
    return str(trace.get(f"{side}axis", side)).replace(side, f"{side}axis")
