"""What one computation of a panel gave."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from hta_widgets.analyses.result import Result
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.panels.base.latest import Latest
from hta_widgets.panels.base.view import figure_view, table_view

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True)
class Outcome:
    """A result, and what the panel makes of it."""

    result: Result
    notices: list[str]
    empty: str | None
    drawings: dict[str, Drawing]
    table: pd.DataFrame

    @cached_property
    def figures(self) -> dict[str, go.Figure]:
        """The drawings as plotly's figures."""
        return {name: drawing.figure() for name, drawing in self.drawings.items()}

    def view(self, latest: Latest) -> dict[str, Any]:
        """Everything that the browser shows of it."""
        return {
            "finding": self.result.finding,
            "notices": self.notices,
            "empty": self.empty,
            "error": None,
            "figures": [
                latest.get(place, partial(figure_view, *named), *named)
                for place, named in enumerate(self.drawings.items())
            ],
            "table": latest.get("table", partial(table_view, self.table), self.table),
        }
