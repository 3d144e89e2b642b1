"""Panel of the temporal breakdown: computing, otherwise busy, or idle."""

from __future__ import annotations

from typing import ClassVar

from traitlets import Bool

from hta_widgets.analyses.temporal_breakdown import TemporalBreakdown, temporal_breakdown
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.temporal_breakdown import temporal_breakdown as draw_gpu_time
from hta_widgets.panels.base.controls import SHARE_OR_TIME
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.selection import TIME_FIELDS
from hta_widgets.trace.job import Job


class TemporalBreakdownPanel(Panel[TemporalBreakdown]):
    """How each GPU spends its time: computing, in CUDA graphs, otherwise busy, or idle."""

    name = "temporal_breakdown"
    tab = "ranks"
    place = 3
    title = "Temporal breakdown"
    listed = "ranks"
    follows = TIME_FIELDS
    any_number_of_ranks = True
    table_of_all = True
    table_labels: ClassVar = {
        "kernel_time_ns": "GPU span",
        "non_compute_time_ns": "busy without computing",
        "communication_time_ns": "communication not hidden",
    }

    as_percent: bool = parameter(Bool(True), SHARE_OR_TIME)
    """Show shares of each GPU's span instead of time."""

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """Whether there are several ranks; for a single one, the budget shows the same."""
        return super().concerns(job) and len(job.ranks) > 1

    def analyse(self, ranks: list[int]) -> TemporalBreakdown:
        """Break down the time of the ranks."""
        return temporal_breakdown(self.job, ranks, **self.selection.time_of(self.job))

    def draw(self, result: TemporalBreakdown) -> dict[str, Drawing]:
        """Draw a stacked bar for each GPU."""
        shown = self.of_all_ranks(result)
        figure = draw_gpu_time(shown, selected=self.ranks, as_percent=self.as_percent)
        return {"GPU time by activity": figure}

    def nothing_to_show(self, result: TemporalBreakdown) -> str | None:
        """Explain an empty panel: no GPU work."""
        return None if result.ranks["kernel_time_ns"].any() else result.finding
