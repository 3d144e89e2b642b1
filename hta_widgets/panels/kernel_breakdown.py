"""Panel of the kernel breakdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import pandas as pd
from traitlets import Bool, Float, Int

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
from hta_widgets.panels.base.controls import Choice, Slider, Toggle
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.parameters import PanelParameters, Source
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.trace.model.formats import Recorded

if TYPE_CHECKING:
    from typing_extensions import Unpack

KernelType: TypeAlias = Literal["all", "COMPUTATION", "COMMUNICATION", "MEMORY"]
ChartType: TypeAlias = Literal["bars", "pies"]


class KernelBreakdownParameters(PanelParameters, total=False):
    """Parameters of `KernelBreakdownPanel`."""

    num_kernels: int
    duration_ratio: float
    kernel_type: KernelType
    include_memory_kernels: bool
    view: ChartType


class KernelBreakdownPanel(Panel[KernelBreakdown]):
    """Which types of kernels, and which kernels, the GPU time goes to.

    A click on a kernel shows how long it takes on each rank.

    Parameters
    ----------
    source : Job, TraceAnalysis, path, list of paths or mapping of rank to path
        What to analyse.
    num_kernels : int
        At most this many kernels of each type are named.
    duration_ratio : float
        Share (0 to 1) of the time of each type that the named kernels have to reach.
    kernel_type : {"all", "COMPUTATION", "COMMUNICATION", "MEMORY"}
        Type of the kernels shown.
    include_memory_kernels : bool
        Include copies and fills.
    view : {"bars", "pies"}
        Bars over all ranks, or a pie for each of up to four ranks.
    **parameters
        `ranks`, `selection`, `job_notices` and `layout`, as for every `Panel`.
    """

    title = "Kernel breakdown"
    wide = True
    follows = ("kernel",)
    needs = (Recorded.KERNELS,)
    any_number_of_ranks = True

    num_kernels = Int(10, min=1).tag(sync=True, control=Slider("Kernels", max=100))
    duration_ratio = Float(0.8, min=0, max=1).tag(
        sync=True, control=Slider("Share of time", step=0.01)
    )
    kernel_type = LabelledEnum[KernelType](
        {
            "all": "All",
            "COMPUTATION": "Computation",
            "COMMUNICATION": "Communication",
            "MEMORY": "Memory",
        }
    ).tag(sync=True, control=Choice("Type"))
    include_memory_kernels = Bool(True).tag(sync=True, control=Toggle("Memory kernels"))
    view = LabelledEnum[ChartType]({"bars": "Bars", "pies": "Pies"}).tag(
        sync=True, control=Choice("View")
    )

    def __init__(self, source: Source, **parameters: Unpack[KernelBreakdownParameters]) -> None:
        super().__init__(source, **parameters)

    def analyse(self, ranks: list[int]) -> KernelBreakdown:
        """Break down the GPU time of the ranks."""
        return kernel_breakdown(
            self.job,
            ranks,
            duration_ratio=self.duration_ratio,
            num_kernels=self.num_kernels,
            include_memory_kernels=self.include_memory_kernels,
        )

    def draw(self, result: KernelBreakdown) -> dict[str, Drawing]:
        """Draw the types, the top kernels, and the durations of the selected kernel."""
        as_pie = self.view == "pies"
        types = {"Kernel types": kernel_types(result, as_pie=as_pie)}
        top = self._pies(result) if as_pie else self._bars(result)
        return types | top | self._durations(result)

    def tabulate(self, result: KernelBreakdown) -> pd.DataFrame:
        """List the top kernels of each rank."""
        table = result.kernels
        return table[table["kernel_type"] == self._type] if self._type else table

    def nothing_to_show(self, result: KernelBreakdown) -> str | None:
        """Explain the absence of kernels of this type."""
        types = result.every_kernel["kernel_type"]
        if (types == self._type).any() if self._type else len(types):
            return None
        if self._type == "MEMORY" and not self.include_memory_kernels:
            return "Memory kernels are left out; include them to see them."
        return f"No {self._type} kernels on these ranks." if self._type else "No kernels."

    @property
    def _type(self) -> str:
        return "" if self.kernel_type == "all" else self.kernel_type

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
        shown = self.of_all_ranks(result)
        name = f"Launches of {short_name(kernel)} on each rank"
        return {name: kernel_durations(shown, kernel, selected=self.ranks)}
