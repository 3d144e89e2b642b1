"""Figures as plotly's JSON: cheap to make, and validated only when Python asks for a figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import plotly.graph_objects as go

PlotlyTrace: TypeAlias = dict[str, Any]

LONG_NAMES: Final = 580
"""Minimum width (px) of bars labelled with kernel or line names, next to a chart of `FEW_BARS`."""

FEW_BARS: Final = 420


_NOT_READ: Final = ("customdata", "meta")
"""What clicks select, by the names that were recorded."""


@dataclass(frozen=True)
class Drawing:
    """Plotly's traces and layout, holding NumPy arrays."""

    data: list[PlotlyTrace]
    layout: dict[str, Any]

    def figure(self) -> go.Figure:
        """Make plotly's figure, without a template.

        Raises
        ------
        ValueError
            If plotly does not know an attribute or does not accept its value.
        """
        import plotly.graph_objects as go  # noqa: PLC0415  # panels do without: they send JSON

        return go.Figure(data=self.data, layout={"template": "none", **self.layout})

    def in_words(self, words: Callable[[str], str]) -> Drawing:
        """The same drawing with other words in everything that is read, such as its legend."""
        return Drawing([_worded(each, words) for each in self.data], _worded(self.layout, words))


def _worded(value: Any, words: Callable[[str], str]) -> Any:  # noqa: ANN401
    if isinstance(value, str):
        return words(value)
    if isinstance(value, list):
        return [_worded(each, words) for each in value]
    if isinstance(value, np.ndarray) and value.dtype == object:
        return objects(_worded(value.tolist(), words))
    if isinstance(value, dict):
        return {
            key: each if key in _NOT_READ else _worded(each, words) for key, each in value.items()
        }
    return value


def with_width(figure: Drawing, least_width: int) -> Drawing:
    """The same figure, with a minimum width (px) where other figures stand next to it."""
    meta = {**figure.layout.get("meta", {}), "least_width": least_width}
    return Drawing(figure.data, {**figure.layout, "meta": meta})


def trace(kind: str, **attributes: Any) -> PlotlyTrace:  # noqa: ANN401
    """Describe a plotly trace of a type such as ``bar``; hovering shows its hover texts only."""
    says = {"hovertemplate": "%{hovertext}<extra></extra>"} if "hovertext" in attributes else {}
    return {"type": kind, **says, **attributes}


def selecting(select: str, keys: Iterable[str | int | None]) -> dict[str, Any]:
    """Settings of a trace that say what a click on each of its marks selects, such as ``ranks``."""
    return {"customdata": objects([[key] for key in keys]), "meta": {"select": select}}


def objects(rows: list[list[Any]]) -> NDArray[np.object_]:
    """Array of texts and ids, which plotly sends unchanged."""
    return np.array(rows, dtype=object)
