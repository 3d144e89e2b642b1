"""Panel of the duration tails: how much time the few longest events take."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import pandas as pd
from traitlets import Float

from hta_widgets.analyses.duration_tails import ALL_RANKS, DurationTails, duration_tails
from hta_widgets.analyses.time.duration_categories import side_of
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.duration_tails import category_shares, tail_curves
from hta_widgets.panels.base.controls import Choice, Slider
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.trace.model.formats import Recorded

Side: TypeAlias = Literal["all", "device", "host"]
Listed: TypeAlias = Literal["tails", "categories"]


class DurationTailsPanel(Panel[DurationTails]):
    """How much time the longest few kernels, copies and API calls take."""

    name = "duration_tails"
    tab = "kernels"
    place = 2
    title = "Duration tails"
    needs = (Recorded.KERNELS,)
    needs_gpu_work = True

    percent: float = parameter(
        Float(1.0, min=0.1, max=50), Slider("Longest events", step=0.1, unit="%", log=True)
    )
    """Share of the events (0.1 to 50 %), in addition to 1, 5 and 10 %."""

    side: Side = parameter(
        LabelledEnum({"all": "Both", "device": "Device", "host": "Host"}), Choice("Side")
    )
    """Events of the device, of the host, or both."""

    listed: Listed = parameter(
        LabelledEnum({"tails": "Tails", "categories": "Categories"}), Choice("Table")
    )
    """Contents of the table."""

    def analyse(self, ranks: list[int]) -> DurationTails:
        """Measure the tails on the ranks."""
        return duration_tails(self.job, ranks, percent=self.percent, side=self.side)

    def draw(self, result: DurationTails) -> dict[str, Drawing]:
        """Draw the time by category, and the time in the longest events."""
        return {
            "Time by category": category_shares(result, side=self._side),
            "Time in the longest events": tail_curves(result, side=self._side),
        }

    def tabulate(self, result: DurationTails) -> pd.DataFrame:
        """List the tails or categories of the side, including sums if there are several ranks."""
        table = super().tabulate(result)
        several = len(self.job.select_ranks(self.ranks)) > 1
        rows = zip(table["rank"].tolist(), table["category"].tolist(), strict=True)
        wanted = [
            (several or rank != ALL_RANKS) and self._side in {"", side_of(category)}
            for rank, category in rows
        ]
        return table[np.array(wanted, dtype=bool)]

    def nothing_to_show(self, result: DurationTails) -> str | None:
        """Explain an empty panel: no events, or none on the selected side."""
        sides = set(result.categories["side"])
        if not sides:
            return result.finding
        if self._side and self._side not in sides:
            return result.finding
        return None

    @property
    def _side(self) -> str:
        return "" if self.side == "all" else self.side
