"""Panel of the roofline: how close operators are to the peak of their GPU."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import pandas as pd
from traitlets import Int

from hta_widgets.analyses.roofline import Roofline, over_ranks, roofline
from hta_widgets.analyses.roofline.peaks import Peak
from hta_widgets.figures import roofline as figures
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.selected_operators import SelectedOperators
from hta_widgets.panels.base.controls import Choice, Slider
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.selection import TIME_FIELDS
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.trace.model.formats import Recorded

Listed: TypeAlias = Literal["operators", "uncounted", "devices"]


class RooflinePanel(Panel[Roofline]):
    """How close operators come to the peak of their GPU."""

    name = "roofline"
    tab = "operators"
    place = 5
    title = "Roofline"
    follows = ("operators", "shapes", "finding", *TIME_FIELDS)
    table_selects: ClassVar = {"rank": "ranks", "operator": "operators", "input_dims": "shapes"}
    table_labels: ClassVar = {
        "tflops": "TFLOP/s",
        "gb_per_s": "GB/s",
        "percent_of_peak": "% of peak",
    }
    needs = (Recorded.KERNELS, Recorded.OPERATORS)
    needs_calls = "shapes"
    needs_gpu_work = True
    any_number_of_ranks = True

    num_operators: int = parameter(Int(15, min=1), Slider("Top operators", max=60))
    """Number of operators, by shape, to draw."""

    listed: Listed = parameter(
        LabelledEnum({"operators": "Operators", "uncounted": "Not counted", "devices": "GPUs"}),
        Choice("Table"),
    )
    """Contents of the table: operators by shape, kernels that are not counted, or the GPUs with
    their MFU."""

    def analyse(self, ranks: list[int]) -> Roofline:
        """Compare the operators of the ranks with their GPUs."""
        time = self.selection.time_of(self.job)
        return self._memo.call(roofline, self.job, tuple(ranks), **time)

    def draw(self, result: Roofline) -> dict[str, Drawing]:
        """Draw the operators under the roof, or their rates if it is unknown, and their times."""
        table = self._memo.call(over_ranks, result.operators)
        operators = self.selection.operators or self.marked
        selected = SelectedOperators(operators, self.selection.shapes)
        peak, drawn = result.peak, {}
        if (table["flop"] > 0).any():
            name, drawing = self._rates(table, peak, selected)
            drawn[name] = drawing
        times = figures.operator_times(table, num_operators=self.num_operators, selected=selected)
        return {**drawn, "GPU time of operators by shape": times}

    def nothing_to_show(self, result: Roofline) -> str | None:
        """Explain an empty panel: no operator with a known formula and shape."""
        return result.finding if result.operators.empty else None

    def _rates(
        self, table: pd.DataFrame, peak: Peak | None, selected: SelectedOperators
    ) -> tuple[str, Drawing]:
        if peak is None:
            rates = figures.operator_rates(
                table, num_operators=self.num_operators, selected=selected
            )
            return "Operator rates by shape (the peak of the GPU is unknown)", rates
        drawn = self._memo.call(figures.roofline, table, peak, selected=selected)
        return "Roofline by operator shape", drawn
