"""One computation of a panel: the result, and everything shown of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Generic, TypeVar

import pandas as pd

from hta_widgets.analyses.result import Result
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.panels.base.memoize import MemoizeLast
from hta_widgets.panels.base.protocol import View
from hta_widgets.panels.base.view import figure_view, table_view

if TYPE_CHECKING:
    import plotly.graph_objects as go

ResultT = TypeVar("ResultT", bound=Result)


@dataclass(frozen=True)
class RenderedView(Generic[ResultT]):
    """A result, its figures and its table.

    Parameters
    ----------
    result : Result
        What the analysis returned.
    notices : list of str
        Notices to show.
    empty : str or None
        Reason why there is nothing to draw.
    drawings : dict of str to Drawing
        The figures by name.
    table : DataFrame
        The data table.
    """

    result: ResultT
    notices: list[str]
    empty: str | None
    drawings: dict[str, Drawing]
    table: pd.DataFrame

    @cached_property
    def figures(self) -> dict[str, go.Figure]:
        """The drawings as plotly's figures."""
        return {name: drawing.figure() for name, drawing in self.drawings.items()}

    def view(self, memo: MemoizeLast, *, rev: int, error: str | None) -> View:
        """Encode the view for the browser; `memo` keeps the parts that have not changed."""
        return {
            "rev": rev,
            "finding": self.result.finding,
            "notices": self.notices,
            "empty": self.empty,
            "error": error,
            "figures": [
                memo.get(place, partial(figure_view, *named), *named)
                for place, named in enumerate(self.drawings.items())
            ],
            "table": memo.get("table", partial(table_view, self.table), self.table),
        }
