"""Panel of the launch statistics."""

from __future__ import annotations

from typing import ClassVar

import pandas as pd
from traitlets import Bool, Enum, Float

from hta_widgets.analyses.launch_stats import (
    LAUNCH_DELAY_OUTLIERS,
    RUNTIME_OUTLIERS,
    SHORT_KERNELS,
    LaunchStats,
    launch_stats,
)
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.launch_stats import launch_histogram, launches_by_api
from hta_widgets.panels.base.controls import Choice, Control, RankPicker, Slider, Toggle
from hta_widgets.panels.base.panel import Panel
from hta_widgets.trace.model.formats import Recorded

WORST = (("Launch delay", "launch_delay"), ("Call duration", "cpu_duration"))


class LaunchStatsPanel(Panel):
    """What it costs to launch GPU work, and which launches are the worst."""

    title = "Kernel launches"
    wide = True
    needs = (Recorded.KERNELS,)
    controls: ClassVar[tuple[Control, ...]] = (
        RankPicker(),
        Slider("runtime_cutoff", "Long calls above", max=500, unit="µs", open_ended=True),
        Slider("launch_delay_cutoff", "Long delays above", max=2000, unit="µs", open_ended=True),
        Toggle("include_memory_events", "Memory operations"),
        Choice("worst_by", "Worst by", WORST),
    )

    runtime_cutoff = Float(50, min=0).tag(sync=True)
    """Calls longer than this (µs) are outliers."""

    launch_delay_cutoff = Float(100, min=0).tag(sync=True)
    """Delays longer than this (µs) are outliers."""

    include_memory_events = Bool(True).tag(sync=True)
    """Include copies and fills."""

    worst_by = Enum([value for _, value in WORST], "launch_delay").tag(sync=True)
    """What makes a launch one of the worst, which the table lists."""

    def analyse(self) -> LaunchStats:
        """Pair the operations of the selected ranks with their launches."""
        return launch_stats(
            self.job,
            self.ranks,
            runtime_cutoff=self.runtime_cutoff,
            launch_delay_cutoff=self.launch_delay_cutoff,
            include_memory_events=self.include_memory_events,
            worst_by=self.worst_by,
        )

    def draw(self, result: LaunchStats) -> dict[str, Drawing]:
        """Draw the three histograms, and what each API launches."""
        return {
            "Operations shorter than their call": launch_histogram(result, SHORT_KERNELS),
            "Long calls": launch_histogram(result, RUNTIME_OUTLIERS),
            "Long launch delays": launch_histogram(result, LAUNCH_DELAY_OUTLIERS),
            "Operations by launching call": launches_by_api(result),
        }

    def tabulate(self, result: LaunchStats) -> pd.DataFrame:
        """List the worst launches."""
        return result.worst

    def nothing_to_show(self, result: LaunchStats) -> str | None:
        """Say so where no launch is in the trace."""
        return None if result.ranks["operations"].any() else "No launches of GPU work to look at."
