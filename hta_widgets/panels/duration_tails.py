"""Panel of the duration tails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import pandas as pd
from traitlets import Float

from hta_widgets.analyses.duration_tails import ALL_RANKS, DurationTails, duration_tails
from hta_widgets.analyses.shared.duration_categories import side_of
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.duration_tails import category_shares, tail_curves
from hta_widgets.panels.base.controls import Choice, Slider
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.parameters import PanelParameters, Source
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.trace.model.formats import Recorded

if TYPE_CHECKING:
    from typing_extensions import Unpack

Side: TypeAlias = Literal["all", "device", "host"]
Listed: TypeAlias = Literal["tails", "categories"]


class DurationTailsParameters(PanelParameters, total=False):
    """Parameters of `DurationTailsPanel`."""

    percent: float
    side: Side
    listed: Listed


class DurationTailsPanel(Panel[DurationTails]):
    """How much of the time the longest few kernels, copies and API calls take.

    Parameters
    ----------
    source : Job, TraceAnalysis, path, list of paths or mapping of rank to path
        What to analyse.
    percent : float
        Share of the events (0.1 to 50 %), besides 1, 5 and 10 %.
    side : {"all", "device", "host"}
        Events of the device, of the host, or both.
    listed : {"tails", "categories"}
        Contents of the table.
    **parameters
        `ranks`, `selection`, `job_notices` and `layout`, as for every `Panel`.
    """

    name = "duration_tails"
    tab = "kernels"
    place = 2
    title = "Duration tails"
    wide = True
    needs = (Recorded.KERNELS,)

    percent = Float(1.0, min=0.1, max=50).tag(
        sync=True, control=Slider("Longest events", step=0.1, unit="%", log=True)
    )
    side = LabelledEnum[Side]({"all": "Both", "device": "Device", "host": "Host"}).tag(
        sync=True, control=Choice("Side")
    )
    listed = LabelledEnum[Listed]({"tails": "Tails", "categories": "Categories"}).tag(
        sync=True, control=Choice("Table")
    )

    def __init__(self, source: Source, **parameters: Unpack[DurationTailsParameters]) -> None:
        super().__init__(source, **parameters)

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
        """List the tails or categories of the side; if there are several ranks, with their sums."""
        table: pd.DataFrame = getattr(result, self.listed)
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
