"""One computation of a panel: the result, and everything that is shown of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Generic, TypeVar

import pandas as pd

from hta_widgets.analyses.result import Result
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.panels.base.memoize import MemoizeLast
from hta_widgets.panels.base.protocol import FindingRow, View
from hta_widgets.panels.base.table import TableLook, kernel_labels, table_view
from hta_widgets.panels.base.view import figure_view

if TYPE_CHECKING:
    import plotly.graph_objects as go

ResultT = TypeVar("ResultT", bound=Result)


@dataclass(frozen=True)
class RenderedView(Generic[ResultT]):
    """A result, its figures and its table."""

    result: ResultT
    said: str
    """Sentence below the title."""
    notices: list[str]
    empty: str | None
    """Why there is nothing to draw."""
    drawings: dict[str, Drawing]
    table: pd.DataFrame
    findings: list[FindingRow]
    """Causes of lost time, if the panel shows any."""
    findings_title: str
    listed: pd.DataFrame
    """The table as the page lists it."""
    look: TableLook

    @cached_property
    def figures(self) -> dict[str, go.Figure]:
        """The drawings as plotly figures."""
        return {name: drawing.figure() for name, drawing in self.drawings.items()}

    @cached_property
    def names(self) -> dict[str, str]:
        """Labels that the table shows in place of kernel names."""
        return kernel_labels(self.listed, self.look)

    def view(self, memo: MemoizeLast, *, rev: int, error: str | None) -> View:
        """Encode the view for the browser; `memo` keeps parts that have not changed."""
        return {
            "rev": rev,
            "time": "",
            "finding": self.said,
            "findings": self.findings,
            "findings_title": self.findings_title,
            "notices": self.notices,
            "empty": self.empty,
            "error": error,
            "figures": [
                memo.get(place, partial(figure_view, *named), *named)
                for place, named in enumerate(self.drawings.items())
            ],
            "table": memo.get(
                "table", partial(table_view, self.listed, self.look, self.names), self.listed
            ),
        }
