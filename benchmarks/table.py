"""Results as a table: ours, HTA's, their ratio, the target, and whether it is met."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

HEADINGS = ("", "ours", "HTA", "ratio", "target", "met")
_MEASURED = re.compile(r"`(\w+)")
"""What a row is of, where there is one for each of many parameters."""

_EXACT_FROM = 100
_RATIO_EXACT_FROM = 20


@dataclass(frozen=True)
class Row:
    """One figure.

    Attributes
    ----------
    what : str
    ours, theirs : float, optional
        In `unit`; None where it could not be measured.
    unit : str
        ``s`` or ``MB``.
    times_better : float, optional
        Target: this many times less than HTA.
    at_most : float, optional
        Target: no more than this.
    """

    what: str
    ours: float | None
    theirs: float | None = None
    unit: str = "s"
    times_better: float | None = None
    at_most: float | None = None

    @property
    def ratio(self) -> float | None:
        """How many times less ours is."""
        return self.theirs / self.ours if self.ours and self.theirs else None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None if there is no target or no measurement."""
        if self.at_most is not None and self.ours is not None:
            return self.ours <= self.at_most
        if self.times_better is not None and self.ratio is not None:
            return self.ratio >= self.times_better
        return None

    @property
    def spent(self) -> float:
        """Part of the target that is used up: above 1 it is missed; 0 without a target."""
        if self.at_most and self.ours is not None:
            return self.ours / self.at_most
        return self.times_better / self.ratio if self.times_better and self.ratio else 0.0

    def cells(self) -> list[str]:
        """Text of each column."""
        return [
            self.what,
            quantity(self.ours, self.unit),
            quantity(self.theirs, self.unit),
            "" if self.ratio is None else f"{_times(self.ratio)}×",
            self._target(),
            {True: "yes", False: "**no**", None: ""}[self.met],
        ]

    def _target(self) -> str:
        if self.at_most is not None:
            return f"≤ {quantity(self.at_most, self.unit)}"
        return "" if self.times_better is None else f"≥ {self.times_better:g}×"


def markdown(title: str, text: str, rows: Iterable[Row], *, judged: bool = True) -> str:
    """Write a table with a heading and a text; unless judged, without targets."""
    if not judged:
        rows = [replace(row, times_better=None, at_most=None) for row in rows]
    lines = [HEADINGS, ("---", *["---:"] * 4, "---"), *(row.cells() for row in rows)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"## {title}\n\n{text}\n{table}\n"


def closest(rows: Iterable[Row]) -> list[Row]:
    """Of each analysis or panel, the row that is closest to its target, or misses it most.

    Examples
    --------
    >>> [row.what for row in closest([Row("`a.x`", 2, at_most=4), Row("`a.y`", 3, at_most=4)])]
    ['`a.y`']
    """
    found: dict[str, Row] = {}
    for row in rows:
        name = _MEASURED.search(row.what)
        key = name[1] if name else row.what
        found[key] = max(found.get(key, row), row, key=lambda each: each.spent)
    return [*found.values()]


def quantity(value: float | None, unit: str) -> str:
    """Write a value in the unit that suits its size.

    Examples
    --------
    >>> quantity(43.51, "s"), quantity(0.0123, "s"), quantity(3976.2, "MB"), quantity(None, "s")
    ('43.5 s', '12.3 ms', '3,976 MB', '')
    """
    if value is None:
        return ""
    if unit == "s" and value < 1:
        value, unit = value * 1000, "ms"
    if value >= _EXACT_FROM:
        return f"{value:,.0f} {unit}"
    return f"{float(f'{value:.3g}'):g} {unit}"


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= _RATIO_EXACT_FROM else f"{ratio:.1f}"
