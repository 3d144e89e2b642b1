"""Axes: map the numbers of a figure to places in a picture."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Float64Array
from hta_widgets.figures.base.style import round_ticks
from hta_widgets.figures.svg.elements import text_width

_PADDING = 0.05
_LABEL_GAP = 10
_FEW_POWERS = 2
_TICKS = 6


@dataclass(frozen=True)
class Axis:
    """An axis: its settings in plotly's words, its range, and where it lies.

    Parameters
    ----------
    settings : dict
        Settings in the layout.
    start, end : float
        Numbers at its ends; logarithms on a logarithmic axis.
    names : tuple of str
        What the numbers 0, 1, … stand for on an axis of names.
    first, last : float
        Places (px) of the ends.
    """

    settings: dict[str, Any]
    start: float
    end: float
    names: tuple[str, ...] = ()
    first: float = 0
    last: float = 1

    @classmethod
    def of(cls, settings: dict[str, Any], shown: Iterable[Any], *, padded: bool = True) -> Axis:
        """Make an axis that shows names, or numbers with room beyond them if `padded`."""
        columns = [np.asarray(each) for each in shown]
        texts = [text for each in columns if each.dtype.kind in "OU" for text in each.tolist()]
        names = tuple(dict.fromkeys(text for text in texts if isinstance(text, str)))
        axis = cls(settings, 0, 1, names)
        if "range" in settings:
            start, end = settings["range"]
            return replace(axis, start=float(start), end=float(end))
        start, end = axis._range_of(columns, padded=padded)
        return replace(axis, start=start, end=end)

    def placed(self, first: float, last: float) -> Axis:
        """Return the axis between two places, narrowed to its domain."""
        low, high = self.settings.get("domain", (0, 1))
        length = last - first
        return replace(self, first=first + low * length, last=first + high * length)

    def at(self, values: Any) -> Float64Array:  # noqa: ANN401
        """Places (px) of numbers or names; NaN where there is none."""
        share = (self._numbers(values) - self.start) / ((self.end - self.start) or 1)
        return np.asarray(self.first + share * (self.last - self.first))

    @cached_property
    def ticks(self) -> list[tuple[Any, str]]:
        """Values and labels of the ticks; none if the axis is not visible."""
        if not self._is_visible:
            return []
        values = self.settings.get("tickvals")
        if values is not None:
            texts = map(str, self.settings.get("ticktext", values))
            return list(zip(values, texts, strict=True))
        return self._powers() if self._is_log else self._round()

    def ticks_side_by_side(self) -> list[tuple[Any, str]]:
        """Values and labels of a horizontal axis, as many as fit."""
        ticks = self.ticks
        widest = max((text_width(text) for _, text in ticks), default=0) + _LABEL_GAP
        room = max(1, int(abs(self.last - self.first) / widest))
        return ticks[:: -(-len(ticks) // room)] if ticks else []

    @property
    def title(self) -> str:
        """Title; empty if there is none or the axis is not visible."""
        return str(self.settings.get("title", {}).get("text", "")) if self._is_visible else ""

    @property
    def _is_visible(self) -> bool:
        return self.settings.get("visible", True) is not False

    @property
    def _is_log(self) -> bool:
        return self.settings.get("type") == "log"

    def _numbers(self, values: Any) -> Float64Array:  # noqa: ANN401
        array = np.asarray(values)
        if self.names and array.dtype.kind in "OU":
            place = {name: number for number, name in enumerate(self.names)}
            return np.array([place.get(each, math.nan) for each in array.tolist()], dtype=float)
        numbers = array.astype(float)
        if not self._is_log:
            return numbers
        positive = np.where(numbers > 0, numbers, np.nan)
        return np.asarray(np.log10(positive))

    def _range_of(self, columns: Sequence[NDArray[Any]], *, padded: bool) -> tuple[float, float]:
        numbers = [self._numbers(each).ravel() for each in columns if each.size]
        known = np.concatenate(numbers) if numbers else np.empty(0)
        known = known[np.isfinite(known)]
        if not known.any():
            return 0.0, 1.0
        start, end = float(known.min()), float(known.max())
        if self.settings.get("rangemode") == "tozero":
            start, end = min(start, 0.0), max(end, 0.0)
        room = _PADDING * (end - start or abs(end)) if padded else 0
        return start and start - room, end and end + room

    def _round(self) -> list[tuple[float, str]]:
        start, end = sorted((self.start, self.end))
        count = min(_TICKS, self.settings.get("nticks", _TICKS))
        values, decimals = round_ticks(start, end, count)
        return [(value, f"{value:,.{decimals}f}") for value in values]

    def _powers(self) -> list[tuple[float, str]]:
        """Powers of ten, with ticks at 2 and 5 between them if there are few."""
        start, end = sorted((self.start, self.end))
        few = end - start <= _FEW_POWERS
        numbers = [
            factor * 10.0**power
            for power in range(math.floor(start), math.ceil(end) + 1)
            for factor in ((1, 2, 5) if few else (1,))
        ]
        return [(each, f"{each:g}") for each in numbers if start <= math.log10(each) <= end]
