"""Panel of the launch overlap: how much launch time runs behind kernels."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from traitlets import Bool

from hta_widgets.analyses.launch_overlap import LaunchOverlap, launch_overlap
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.launch_overlap import (
    hidden_launch_time,
    kernel_time_by_api,
    overlapping_launches,
)
from hta_widgets.panels.base.controls import SHARE_OR_TIME, Choice
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.trace.model.formats import Recorded

Listed: TypeAlias = Literal["threads", "launch_apis", "apis_by_kernel"]


class LaunchOverlapPanel(Panel[LaunchOverlap]):
    """Launches that start before an earlier kernel has ended, and the launch time this hides."""

    name = "launch_overlap"
    tab = "idle"
    place = 4
    title = "Launch overlap"
    table_labels: ClassVar = {
        "hidden_ns": "hidden behind kernels",
        "unknown_ns": "cannot tell",
        "exposed_ns": "not hidden",
        "beside_copies_ns": "of which during copies",
    }
    needs = (Recorded.KERNELS,)
    needs_gpu_work = True

    as_percent: bool = parameter(Bool(True), SHARE_OR_TIME)
    """Show shares of the launch time and the kernel time instead of times."""

    listed: Listed = parameter(
        LabelledEnum(
            {"threads": "Threads", "launch_apis": "Launch APIs", "apis_by_kernel": "Kernels by API"}
        ),
        Choice("Table"),
    )
    """Contents of the table: threads, launch APIs, or the APIs that launch each kernel."""

    def analyse(self, ranks: list[int]) -> LaunchOverlap:
        """Find the overlapping launches of the ranks."""
        chosen = tuple(ranks)
        key = "result" if chosen else "result of all ranks"
        return self._memo.get(key, lambda: launch_overlap(self.job, chosen), chosen)

    def draw(self, result: LaunchOverlap) -> dict[str, Drawing]:
        """Draw hidden time and overlapping launches of each rank, and kernel time by launch API."""
        shown = self.of_all_ranks(result)
        hidden = hidden_launch_time(shown, selected=self.ranks, as_percent=self.as_percent)
        return {
            "Launch time of each rank": hidden,
            "Launches issued while the GPU is still busy": overlapping_launches(
                shown, selected=self.ranks
            ),
            "Kernel time by launch API": kernel_time_by_api(result, as_percent=self.as_percent),
        }

    def nothing_to_show(self, result: LaunchOverlap) -> str | None:
        """Explain an empty panel: no launches."""
        return None if result.ranks["launches"].any() else result.finding
