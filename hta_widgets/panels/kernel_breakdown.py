"""Panel of the kernel breakdown."""

from __future__ import annotations

from typing import ClassVar

import pandas as pd
from traitlets import Bool, Enum, Float, Int

from hta_widgets.analyses.kernel_breakdown import KernelBreakdown, kernel_breakdown
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.kernel_breakdown import (
    PIES_AT_MOST,
    kernel_durations,
    kernel_types,
    top_kernels,
    top_kernels_of_rank,
)
from hta_widgets.names.shorten import short_name
from hta_widgets.panels.base.controls import Choice, Control, RankPicker, Slider, Toggle
from hta_widgets.panels.base.panel import Panel
from hta_widgets.trace.model.formats import Recorded

ALL = "all"
TYPES = (
    ("All", ALL),
    ("Computation", "COMPUTATION"),
    ("Communication", "COMMUNICATION"),
    ("Memory", "MEMORY"),
)
VIEWS = (("Bars", "bars"), ("Pies", "pies"))


class KernelBreakdownPanel(Panel):
    """Which types of kernels, and which kernels, the GPU time goes to.

    A click on a kernel shows how long it takes on each rank.
    """

    title = "Kernel breakdown"
    wide = True
    follows = ("kernel",)
    needs = (Recorded.KERNELS,)
    any_number_of_ranks = True
    controls: ClassVar[tuple[Control, ...]] = (
        RankPicker(),
        Slider("num_kernels", "Kernels", min=1, max=100, open_ended=True),
        Slider("duration_ratio", "Share of time", min=0, max=1, step=0.01),
        Choice("kernel_type", "Type", TYPES),
        Toggle("include_memory_kernels", "Memory kernels"),
        Choice("view", "View", VIEWS),
    )

    num_kernels = Int(10, min=1).tag(sync=True)
    """At most so many kernels of each type are named."""

    duration_ratio = Float(0.8, min=0, max=1).tag(sync=True)
    """Share of the time of each type that the named kernels have to reach."""

    kernel_type = Enum([value for _, value in TYPES], ALL).tag(sync=True)
    """Type of the kernels shown."""

    include_memory_kernels = Bool(True).tag(sync=True)
    """Include copies and fills."""

    view = Enum([value for _, value in VIEWS], "bars").tag(sync=True)
    """Bars over all ranks, or a pie for each of up to four ranks."""

    def analyse(self) -> KernelBreakdown:
        """Break down the GPU time of the selected ranks."""
        return self._analyse(self.ranks)

    def draw(self, result: KernelBreakdown) -> dict[str, Drawing]:
        """Draw the types, the top kernels, and the durations of the selected kernel."""
        as_pie = self.view == "pies"
        types = {"Kernel types": kernel_types(result, as_pie=as_pie)}
        top = self._pies(result) if as_pie else self._bars(result)
        return types | top | self._durations(result)

    def tabulate(self, result: KernelBreakdown) -> pd.DataFrame:
        """Statistics of the top kernels on each rank."""
        table = result.kernels
        return table[table["kernel_type"] == self._type] if self._type else table

    def nothing_to_show(self, result: KernelBreakdown) -> str | None:
        """Say so where there is no kernel of the type asked for."""
        types = result.every_kernel["kernel_type"]
        if (types == self._type).any() if self._type else len(types):
            return None
        if self._type == "MEMORY" and not self.include_memory_kernels:
            return "Memory kernels are left out; include them to see them."
        return f"No {self._type} kernels on these ranks." if self._type else "No kernels."

    @property
    def _type(self) -> str:
        return "" if self.kernel_type == ALL else str(self.kernel_type)

    def _analyse(self, ranks: list[int]) -> KernelBreakdown:
        return kernel_breakdown(
            self.job,
            ranks,
            duration_ratio=self.duration_ratio,
            num_kernels=self.num_kernels,
            include_memory_kernels=self.include_memory_kernels,
        )

    def _bars(self, result: KernelBreakdown) -> dict[str, Drawing]:
        kernel = self.selection.kernel
        return {"Top kernels": top_kernels(result, kernel_type=self._type, selected=kernel)}

    def _pies(self, result: KernelBreakdown) -> dict[str, Drawing]:
        ranks = self.job.select_ranks(self.ranks)[:PIES_AT_MOST]
        return {
            f"Top kernels of rank {rank}": top_kernels_of_rank(result, rank, kernel_type=self._type)
            for rank in ranks
        }

    def _durations(self, result: KernelBreakdown) -> dict[str, Drawing]:
        kernel = self.selection.kernel
        if not kernel or kernel not in result.every_kernel["name"].tolist():
            return {}
        shown = self._analyse([]) if self.linked and self.ranks else result
        name = f"Launches of {short_name(kernel)} on each rank"
        return {name: kernel_durations(shown, kernel, selected=self.ranks)}
