"""Panel of the duration tails."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
from traitlets import Enum, Float

from hta_widgets.analyses.duration_tails import ALL_RANKS, DurationTails, duration_tails
from hta_widgets.analyses.shared.duration_categories import DEVICE, HOST, side_of
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.duration_tails import category_shares, tail_curves
from hta_widgets.panels.base.controls import Choice, Control, RankPicker, Slider
from hta_widgets.panels.base.panel import Panel
from hta_widgets.trace.model.formats import Recorded

ALL = "all"
SIDES = (("All", ALL), ("Device", DEVICE), ("Host", HOST))
LISTS = (("Tails", "tails"), ("Categories", "categories"))


class DurationTailsPanel(Panel):
    """How much of the time the longest few kernels, copies and calls take."""

    title = "Longest events"
    wide = True
    needs = (Recorded.KERNELS,)
    controls: ClassVar[tuple[Control, ...]] = (
        RankPicker(),
        Slider("percent", "Longest", min=0.1, max=50, step=0.1, unit="%", log=True),
        Choice("side", "Time of", SIDES),
        Choice("listed", "Table", LISTS),
    )

    percent = Float(1.0, min=0.1, max=50).tag(sync=True)
    """How many of the events to look at, beside 1, 5 and 10 %, in steps of 0.1."""

    side = Enum([value for _, value in SIDES], ALL).tag(sync=True)
    """Events of the device, of the host, or both."""

    listed = Enum([value for _, value in LISTS], "tails").tag(sync=True)
    """What the table lists."""

    def analyse(self) -> DurationTails:
        """Measure the tails on the selected ranks."""
        return duration_tails(self.job, self.ranks, percent=self.percent)

    def draw(self, result: DurationTails) -> dict[str, Drawing]:
        """Draw the time by category, and the time in the longest events."""
        return {
            "Time by category": category_shares(result, side=self._side),
            "Time in the longest events": tail_curves(result, side=self._side),
        }

    def tabulate(self, result: DurationTails) -> pd.DataFrame:
        """List tails or categories of the side shown; of all ranks together, too, if several."""
        table: pd.DataFrame = getattr(result, self.listed)
        several = len(self.job.select_ranks(self.ranks)) > 1
        rows = zip(table["rank"].tolist(), table["category"].tolist(), strict=True)
        wanted = [
            (several or rank != ALL_RANKS) and self._side in {"", side_of(category)}
            for rank, category in rows
        ]
        return table[np.array(wanted, dtype=bool)]

    def nothing_to_show(self, result: DurationTails) -> str | None:
        """Say so where no event of the side was recorded."""
        sides = set(result.categories["side"])
        if not sides:
            return "No kernels, copies or calls of the CPU to look at."
        return None if not self._side or self._side in sides else f"No events of the {self._side}."

    @property
    def _side(self) -> str:
        return "" if self.side == ALL else str(self.side)
