"""Panel of the overlap: how much communication is hidden behind computation."""

from __future__ import annotations

from typing import ClassVar

import pandas as pd
from traitlets import Bool

from hta_widgets.analyses.overlap import Overlap, overlap
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.overlap import overlap as draw_overlap
from hta_widgets.panels.base.controls import SHARE_OR_TIME
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.selection import TIME_FIELDS


class OverlapPanel(Panel[Overlap]):
    """How much of each GPU's communication is hidden behind computation."""

    name = "overlap"
    tab = "communication"
    place = 2
    title = "Communication–computation overlap"
    follows = TIME_FIELDS
    needs_communication = True
    any_number_of_ranks = True
    table_of_all = True
    table_labels: ClassVar = {
        "overlap_time_ns": "hidden behind computation",
        "exposed_communication_ns": "communication not hidden",
        "overlap_percent": "hidden",
        "cuda_graph_time_ns": "CUDA graphs of unknown content",
        "beside_graph_ns": "concurrent with a CUDA graph",
    }

    as_percent: bool = parameter(Bool(True), SHARE_OR_TIME)
    """Show shares of each GPU's communication time instead of time."""

    def analyse(self, ranks: list[int]) -> Overlap:
        """Measure the overlap on the ranks."""
        return overlap(self.job, ranks, **self.selection.time_of(self.job))

    def draw(self, result: Overlap) -> dict[str, Drawing]:
        """Draw a stacked bar for each GPU."""
        shown = self.of_all_ranks(result)
        figure = draw_overlap(shown, selected=self.ranks, as_percent=self.as_percent)
        return {"Communication time of each GPU": figure}

    def tabulate(self, result: Overlap) -> pd.DataFrame:
        """List the GPUs, without the columns on CUDA graphs of unknown content if there are none.

        For a job that replays 3,720 kernels in graphs, a column of zeros read as "no CUDA graphs".
        """
        graphs = ["cuda_graph_time_ns", "beside_graph_ns"]
        has_any = bool(result.ranks[graphs].any(axis=None))
        return result.ranks if has_any else result.ranks.drop(columns=graphs)

    def nothing_to_show(self, result: Overlap) -> str | None:
        """Explain an empty panel: no communication."""
        communicates = result.ranks["communication_time_ns"].any()
        return None if communicates else result.finding
