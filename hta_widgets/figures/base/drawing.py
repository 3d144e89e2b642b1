"""Figures as plotly's JSON: light to make, and checked by plotly where Python asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import plotly.graph_objects as go

Trace: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Drawing:
    """What plotly draws: its traces and its layout, with arrays of numpy in them."""

    data: list[Trace]
    layout: dict[str, Any]

    def figure(self) -> go.Figure:
        """Make plotly's figure, without a template.

        Raises
        ------
        ValueError
            If plotly knows an attribute by another name, or does not take its value.
        """
        import plotly.graph_objects as go  # noqa: PLC0415  # panels do without: they send JSON

        return go.Figure(data=self.data, layout={"template": "none", **self.layout})


def trace(kind: str, **attributes: Any) -> Trace:  # noqa: ANN401
    """Describe a trace of a kind of plotly's, such as ``bar``."""
    return {"type": kind, **attributes}


def objects(rows: list[list[Any]]) -> NDArray[np.object_]:
    """Rows of texts and ids, which are sent as they are."""
    return np.array(rows, dtype=object)
