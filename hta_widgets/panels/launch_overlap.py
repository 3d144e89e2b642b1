"""Panel of the launch overlap."""

from __future__ import annotations

from typing import ClassVar

import pandas as pd
from traitlets import Bool, Enum

from hta_widgets.analyses.launch_overlap import LaunchOverlap, launch_overlap
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.launch_overlap import (
    hidden_launch_time,
    kernel_time_by_api,
    overlapping_launches,
)
from hta_widgets.panels.base.controls import SHARE_OR_TIME, Choice, Control, RankPicker
from hta_widgets.panels.base.panel import Panel
from hta_widgets.trace.model.formats import Recorded

LISTS = (
    ("Threads", "threads"),
    ("Launch APIs", "launch_apis"),
    ("Kernels by API", "apis_by_kernel"),
)


class LaunchOverlapPanel(Panel):
    """Launches made before an earlier kernel has ended, and how much launch time that hides."""

    title = "Launch overlap"
    wide = True
    needs = (Recorded.KERNELS,)
    controls: ClassVar[tuple[Control, ...]] = (
        RankPicker(),
        SHARE_OR_TIME,
        Choice("listed", "Table", LISTS),
    )

    as_percent = Bool(True).tag(sync=True)
    """Show shares of the launch time and of the kernel time instead of times."""

    listed = Enum([value for _, value in LISTS], "threads").tag(sync=True)
    """What the table lists."""

    def analyse(self) -> LaunchOverlap:
        """Find the overlapping launches of the selected ranks."""
        ranks = tuple(self.ranks)
        return self._latest.get("result", lambda: launch_overlap(self.job, ranks), ranks)

    def draw(self, result: LaunchOverlap) -> dict[str, Drawing]:
        """Draw hidden time and overlapping launches of each rank, and time by launching call."""
        shown = launch_overlap(self.job) if self.linked and self.ranks else result
        hidden = hidden_launch_time(shown, selected=self.ranks, as_percent=self.as_percent)
        return {
            "Launch time of each rank": hidden,
            "Launches made before an earlier kernel has ended": overlapping_launches(
                shown, selected=self.ranks
            ),
            "Kernel time by launching call": kernel_time_by_api(result, as_percent=self.as_percent),
        }

    def tabulate(self, result: LaunchOverlap) -> pd.DataFrame:
        """List threads, launching calls, or the calls that launch each kernel."""
        table: pd.DataFrame = getattr(result, self.listed)
        return table

    def nothing_to_show(self, result: LaunchOverlap) -> str | None:
        """Say so where no launch is in the trace."""
        return None if result.ranks["launches"].any() else "No launches of kernels to look at."
