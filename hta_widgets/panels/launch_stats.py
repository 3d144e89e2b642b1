"""Panel of the launch statistics: what launching GPU work costs, and the slowest launches."""

from __future__ import annotations

from typing import Literal, TypeAlias

from traitlets import Bool, Float

from hta_widgets.analyses.launch_stats import (
    LAUNCH_DELAY_OUTLIERS,
    RUNTIME_OUTLIERS,
    SHORT_KERNELS,
    LaunchStats,
    launch_stats,
)
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.launch_stats import launch_histogram, launches_by_api
from hta_widgets.panels.base.controls import Choice, Slider, Toggle
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.kernels import TYPE_WORDS

_TITLES = {
    SHORT_KERNELS: "Launch calls longer than their GPU work",
    RUNTIME_OUTLIERS: "Long launch calls",
    LAUNCH_DELAY_OUTLIERS: "Long launch delays",
}

WorstBy: TypeAlias = Literal["launch_delay", "cpu_duration"]


class LaunchStatsPanel(Panel[LaunchStats]):
    """Cost of launching GPU work, and the slowest launches."""

    name = "launch_stats"
    tab = "idle"
    place = 3
    title = "Launch statistics"
    listed = "worst"
    table_names = TYPE_WORDS
    needs = (Recorded.KERNELS,)
    needs_gpu_work = True

    runtime_cutoff: float = parameter(
        Float(50, min=0), Slider("Calls longer than", unit="µs", max=500)
    )
    """Calls longer than this (µs) are outliers."""

    launch_delay_cutoff: float = parameter(
        Float(100, min=0), Slider("Delays longer than", unit="µs", max=2000)
    )
    """Delays longer than this (µs) are outliers."""

    include_memory_events: bool = parameter(Bool(True), Toggle("Include copies and memsets"))
    """Include copies and memsets."""

    worst_by: WorstBy = parameter(
        LabelledEnum({"launch_delay": "Launch delay", "cpu_duration": "Call duration"}),
        Choice("Slowest by"),
    )
    """Ranking of the slowest launches in the table."""

    def analyse(self, ranks: list[int]) -> LaunchStats:
        """Pair the operations of the ranks with their launches."""
        return launch_stats(
            self.job,
            ranks,
            runtime_cutoff=self.runtime_cutoff,
            launch_delay_cutoff=self.launch_delay_cutoff,
            include_memory_events=self.include_memory_events,
            worst_by=self.worst_by,
        )

    def draw(self, result: LaunchStats) -> dict[str, Drawing]:
        """Draw the histograms that have any calls, and the operations by launch API."""
        counted = {*result.distributions["distribution"]}
        histograms = {
            title: launch_histogram(result, each)
            for each, title in _TITLES.items()
            if each in counted
        }
        return {**histograms, "Operations by launch API": launches_by_api(result)}

    def nothing_to_show(self, result: LaunchStats) -> str | None:
        """Explain an empty panel: no launches."""
        return None if result.ranks["operations"].any() else result.finding
