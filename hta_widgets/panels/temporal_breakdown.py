"""Panel of the temporal breakdown."""

from __future__ import annotations

from typing import ClassVar

import pandas as pd
from traitlets import Bool

from hta_widgets.analyses.temporal_breakdown import TemporalBreakdown, temporal_breakdown
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.temporal_breakdown import temporal_breakdown as draw_gpu_time
from hta_widgets.panels.base.controls import SHARE_OR_TIME, Control, RankPicker
from hta_widgets.panels.base.panel import Panel


class TemporalBreakdownPanel(Panel):
    """How each GPU spends its time: computing, busy without computing, or idle."""

    title = "Temporal breakdown"
    any_number_of_ranks = True
    controls: ClassVar[tuple[Control, ...]] = (RankPicker(), SHARE_OR_TIME)

    as_percent = Bool(True).tag(sync=True)
    """Show shares of each GPU's kernel time instead of time."""

    def analyse(self) -> TemporalBreakdown:
        """Break down the time of the selected ranks."""
        return temporal_breakdown(self.job, self.ranks)

    def draw(self, result: TemporalBreakdown) -> dict[str, Drawing]:
        """Draw a stacked bar for each GPU."""
        shown = temporal_breakdown(self.job) if self.linked and self.ranks else result
        figure = draw_gpu_time(shown, selected=self.ranks, as_percent=self.as_percent)
        return {"Time of each GPU": figure}

    def tabulate(self, result: TemporalBreakdown) -> pd.DataFrame:
        """One row per GPU."""
        return result.ranks

    def nothing_to_show(self, result: TemporalBreakdown) -> str | None:
        """Say so where no GPU did anything."""
        return None if result.ranks["kernel_time_ns"].any() else "No GPU work to break down."
