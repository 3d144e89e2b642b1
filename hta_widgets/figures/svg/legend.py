"""Legend of a picture: rows above the charts, or a column next to a pie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hta_widgets.figures.base.drawing import Drawing, PlotlyTrace
from hta_widgets.figures.base.style import NEUTRAL
from hta_widgets.figures.svg.elements import LINE_HEIGHT, element, label, text_width
from hta_widgets.figures.svg.marks import DASHES, symbol_mark

ROW_HEIGHT = LINE_HEIGHT + 4
_SWATCH = 10
_TEXT_LEFT = 15
_GAP = 16


class Entry(NamedTuple):
    """A name with its look: the colour of an area, a line or a mark."""

    name: str
    color: str
    dash: str | None = None
    symbol: str | None = None
    hatched: bool = False
    edge: str = ""

    @property
    def width(self) -> float:
        """Width (px) with the gap after it."""
        return _TEXT_LEFT + text_width(self.name) + _GAP

    def draw(self, x: float, y: float) -> str:
        """Draw the entry, centred at height `y`."""
        return self._swatch(x, y) + label(self.name, x + _TEXT_LEFT, y)

    def _swatch(self, x: float, y: float) -> str:
        if self.symbol:
            return symbol_mark(self.symbol, x + _SWATCH / 2, y, _SWATCH / 2, self.color)
        if self.dash is None:
            top = y - _SWATCH / 2
            look = {"fill_opacity": ".5", "stroke": self.color} if self.hatched else {}
            look |= {"stroke": self.edge} if self.edge else {}
            return element(
                "rect", x=x, y=top, width=_SWATCH, height=_SWATCH, fill=self.color, **look
            )
        dashes = {"stroke_dasharray": DASHES[self.dash]} if self.dash in DASHES else {}
        path = f"M{x:.0f} {y:.0f}h{_SWATCH}"
        return element("path", d=path, stroke=self.color, stroke_width=2, **dashes)


def entries_of(drawn: Drawing) -> list[Entry]:
    """The entries of the legend that plotly would show."""
    named = [trace for trace in drawn.data if trace.get("name") and trace.get("showlegend", True)]
    shown = drawn.layout.get("showlegend", len(drawn.data) > 1)
    return [_entry(trace) for trace in named] if shown else []


def _entry(trace: PlotlyTrace) -> Entry:
    if "lines" in trace.get("mode", ""):
        return Entry(trace["name"], trace["line"]["color"], trace["line"].get("dash", "solid"))
    marker = trace.get("marker", {})
    color = marker.get("color", NEUTRAL)
    symbol = marker.get("symbol", "circle") if trace["type"] == "scatter" else None
    shown = color if isinstance(color, str) else color[0]
    edge = marker.get("line", {}).get("color", "")
    return Entry(trace["name"], shown, symbol=symbol, hatched="pattern" in marker, edge=edge)


def in_rows(entries: Sequence[Entry], width: float) -> list[list[Entry]]:
    """Distribute entries over rows of a given width."""
    rows: list[list[Entry]] = []
    left = 0.0
    for entry in entries:
        if not rows or entry.width > left:
            rows.append([])
            left = width
        rows[-1].append(entry)
        left -= entry.width
    return rows


def draw_rows(rows: Sequence[Sequence[Entry]], x: float, y: float) -> str:
    """Draw rows of entries, starting at their top left corner."""
    drawn = []
    for number, row in enumerate(rows):
        left, middle = x, y + ROW_HEIGHT * (number + 0.5)
        for entry in row:
            drawn.append(entry.draw(left, middle))
            left += entry.width
    return "".join(drawn)
