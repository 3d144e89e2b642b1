"""Panel of the kernel breakdown: GPU time by kernel type and by kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final, Literal, TypeAlias

import numpy as np
import pandas as pd
from traitlets import Bool, Float, Int

from hta_widgets.analyses.kernel_breakdown import OTHERS, KernelBreakdown, kernel_breakdown
from hta_widgets.analyses.launch_facts import LaunchFacts, launch_facts, with_launch_facts
from hta_widgets.defaults import DefaultNumber
from hta_widgets.figures.base.drawing import FEW_BARS, LONG_NAMES, Drawing, with_width
from hta_widgets.figures.kernel_breakdown import (
    PIES_AT_MOST,
    kernel_durations,
    kernel_types,
    top_kernels,
    top_kernels_of_rank,
)
from hta_widgets.names.shorten import short_name
from hta_widgets.panels.base.controls import Choice, Slider, Toggle
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.selection import TIME_FIELDS
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.kernels import TYPE_WORDS

KernelType: TypeAlias = Literal["all", "COMPUTATION", "COMMUNICATION", "MEMORY", "CUDA_GRAPH"]
ChartType: TypeAlias = Literal["bars", "pies"]

_NOUNS: Final = {
    "COMPUTATION": "compute kernels",
    "COMMUNICATION": "communication kernels",
    "MEMORY": "copies or memsets",
}

MEMORY_LABEL: Final = "Copies and memsets"


class KernelBreakdownPanel(Panel[KernelBreakdown]):
    """GPU time by kernel type and by kernel.

    A click on a kernel shows how long it takes on each rank.
    """

    name = "kernel_breakdown"
    tab = "kernels"
    place = 1
    title = "Kernel breakdown"
    follows = ("kernel", "finding", *TIME_FIELDS)
    needs = (Recorded.KERNELS,)
    needs_gpu_work = True
    any_number_of_ranks = True
    table_selects: ClassVar = {"name": "kernel"}
    table_besides = (OTHERS,)
    table_names = TYPE_WORDS

    num_kernels: int = parameter(Int(10, min=1), Slider("Top kernels per type", max=100))
    """Number of kernels to name, per type and rank."""

    duration_ratio: float = parameter(Float(1, min=0, max=1), Slider("Time covered", step=0.01))
    """If a type has more than `num_kernels` kernels, name only the fewest that cover this share
    (0 to 1) of its time; 1 names `num_kernels`."""

    kernel_type: KernelType = parameter(
        LabelledEnum(
            {
                "all": "All",
                "COMPUTATION": "Compute",
                "COMMUNICATION": "Communication",
                "MEMORY": "Copies and memsets",
                "CUDA_GRAPH": "CUDA graphs",
            }
        ),
        Choice("Type"),
    )
    """Type of kernels to show."""

    include_memory_kernels: bool = parameter(Bool(True), Toggle(MEMORY_LABEL))
    """Include copies and memsets."""

    view: ChartType = parameter(LabelledEnum({"bars": "Bars", "pies": "Pies"}), Choice("View"))
    """Bars over all ranks, or a pie for each of up to four ranks."""

    launch_facts: bool = parameter(Bool(False), Toggle("Launch facts"))
    """Add columns to the table on how kernels are launched."""

    def analyse(self, ranks: list[int]) -> KernelBreakdown:
        """Break down the GPU time of the ranks."""
        result = kernel_breakdown(
            self.job,
            ranks,
            duration_ratio=self.duration_ratio,
            num_kernels=DefaultNumber(self.num_kernels),
            include_memory_kernels=self.include_memory_kernels,
            **self.selection.time_of(self.job),
        )
        if not self.launch_facts:
            return result
        more = [each for each in self._launches().notices if each not in result.notices]
        return replace(result, notices=(*result.notices, *more))

    def draw(self, result: KernelBreakdown) -> dict[str, Drawing]:
        """Draw the types, the top kernels, and the durations of the selected kernel."""
        as_pie = self.view == "pies"
        types = {"Kernel types": with_width(kernel_types(result, as_pie=as_pie), FEW_BARS)}
        top = self._pies(result) if as_pie else self._bars(result)
        return types | top | self._durations(result)

    def tabulate(self, result: KernelBreakdown) -> pd.DataFrame:
        """List the top kernels of each rank, the longest first, optionally with their launches."""
        table = result.kernels
        if self.launch_facts:
            table = with_launch_facts(table, self._launches().kernels)
        table = table.iloc[np.lexsort((-table["sum_ns"].to_numpy(), table["folded"] > 0))]
        return table[table["kernel_type"] == self._type] if self._type else table

    def nothing_to_show(self, result: KernelBreakdown) -> str | None:
        """Explain an empty panel: no kernels of the selected type."""
        types = result.every_kernel["kernel_type"]
        if (types == self._type).any() if self._type else len(types):
            return None
        if self._type == "MEMORY" and not self.include_memory_kernels:
            return f"{MEMORY_LABEL} are hidden; tick “{MEMORY_LABEL}” to show them."
        if self._type == "CUDA_GRAPH":
            return "No CUDA graphs were recorded as a whole on the selected ranks."
        return f"No {_NOUNS.get(self._type, 'kernels')} on the selected ranks."

    def _launches(self) -> LaunchFacts:
        """How the kernels of the selected ranks are launched during the selected time."""
        time = self.selection.time_of(self.job)
        return self._memo.call(launch_facts, self.job, tuple(self.ranks), **time)

    @property
    def _type(self) -> str:
        return "" if self.kernel_type == "all" else self.kernel_type

    def _bars(self, result: KernelBreakdown) -> dict[str, Drawing]:
        kernel = self.selection.kernel
        bars = top_kernels(
            result, kernel_type=self._type, selected=[kernel] if kernel else self.marked
        )
        return {"Top kernels": with_width(bars, LONG_NAMES)}

    def _pies(self, result: KernelBreakdown) -> dict[str, Drawing]:
        ranks = self.job.select_ranks(self.ranks)
        some = f" (first {PIES_AT_MOST} of {len(ranks)} ranks)" * (len(ranks) > PIES_AT_MOST)
        return {
            f"Top kernels of rank {rank}{some}": top_kernels_of_rank(
                result, rank, kernel_type=self._type
            )
            for rank in ranks[:PIES_AT_MOST]
        }

    def _durations(self, result: KernelBreakdown) -> dict[str, Drawing]:
        kernel = self.selection.kernel
        if not kernel or kernel not in result.every_kernel["name"].tolist():
            return {}
        shown = self.of_all_ranks(result)
        name = f"Duration of {short_name(kernel)} on each rank"
        return {name: kernel_durations(shown, kernel, selected=self.ranks)}
