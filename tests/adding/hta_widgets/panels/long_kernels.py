"""Panel of the long kernels."""

from __future__ import annotations

import pandas as pd
from hta_widgets.analyses.long_kernels import LongKernels, long_kernels
from traitlets import Float

from hta_widgets.figures.base.drawing import Drawing, trace
from hta_widgets.panels.base.controls import Slider
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.panel import Panel


class LongKernelsPanel(Panel[LongKernels]):
    """Kernels that last longer than a cutoff."""

    name = "long_kernels"
    tab = "kernels"
    title = "Long kernels"
    any_number_of_ranks = True

    cutoff: float = parameter(Float(10, min=0), Slider("Longer than", unit="µs", max=500))
    """Kernels that last longer than this (µs) count."""

    def analyse(self, ranks: list[int]) -> LongKernels:
        """Count the long kernels of the ranks."""
        return long_kernels(self.job, ranks, cutoff=self.cutoff)

    def draw(self, result: LongKernels) -> dict[str, Drawing]:
        """Draw how many each rank has."""
        ranks = result.ranks
        bars = trace("bar", x=ranks["rank"].to_numpy(), y=ranks["long"].to_numpy())
        return {self.title: Drawing([bars], {})}

    def tabulate(self, result: LongKernels) -> pd.DataFrame:
        """List how many each rank has."""
        return result.ranks
