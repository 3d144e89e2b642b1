"""Panel of the overlap of communication and computation."""

from __future__ import annotations

from typing import ClassVar

import pandas as pd
from traitlets import Bool

from hta_widgets.analyses.overlap import Overlap, overlap
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.overlap import overlap as draw_overlap
from hta_widgets.panels.base.controls import SHARE_OR_TIME, Control, RankPicker
from hta_widgets.panels.base.panel import Panel


class OverlapPanel(Panel):
    """How much of each GPU's communication is hidden behind computation."""

    title = "Communication overlap"
    any_number_of_ranks = True
    controls: ClassVar[tuple[Control, ...]] = (RankPicker(), SHARE_OR_TIME)

    as_percent = Bool(True).tag(sync=True)
    """Show shares of each GPU's communication time instead of time."""

    def analyse(self) -> Overlap:
        """Measure the overlap on the selected ranks."""
        return overlap(self.job, self.ranks)

    def draw(self, result: Overlap) -> dict[str, Drawing]:
        """Draw a stacked bar for each GPU."""
        shown = overlap(self.job) if self.linked and self.ranks else result
        figure = draw_overlap(shown, selected=self.ranks, as_percent=self.as_percent)
        return {"Communication of each GPU": figure}

    def tabulate(self, result: Overlap) -> pd.DataFrame:
        """One row per GPU."""
        return result.ranks

    def nothing_to_show(self, result: Overlap) -> str | None:
        """Say so where no GPU communicates."""
        communicates = result.ranks["communication_time_ns"].any()
        return None if communicates else "No communication to overlap."
