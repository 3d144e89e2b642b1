"""Panel of the comparison of two jobs: changed kernels, times side by side, longest events."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal, TypeAlias

import pandas as pd
from traitlets import Bool, Int, default

from hta_widgets.analyses.compare import Compare, by_change, compare, job_names, steps_differ
from hta_widgets.diagnosis.change.explain_change import explain_change
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.compare import SORT_COLUMNS, kernel_changes, tails, times
from hta_widgets.panels.base.controls import Choice, Slider, Toggle
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.panel_of_two import PanelOfTwo
from hta_widgets.panels.base.protocol import PanelSpec
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.trace.model.kernels import TYPE_WORDS

SortBy: TypeAlias = Literal["total", "mean", "count"]
Listed: TypeAlias = Literal["kernels", "waterfall", "only_in_one", "tails", "times"]


class ComparePanel(PanelOfTwo[Compare]):
    """Comparison of two jobs, over all ranks of each; their formats may differ.

    Times are means per rank, independent of the selected ranks. A click on a kernel selects it in
    the first job.
    """

    name = "compare"
    tab = "compare"
    place = 2
    title = "Kernels compared"
    follows = ("kernel",)
    table_selects: ClassVar = {"name_first": "kernel"}
    table_names = TYPE_WORDS

    num_kernels: int = parameter(Int(10, min=1), Slider("Top kernels", max=100))
    """Maximum number of kernels to draw."""

    sort_by: SortBy = parameter(
        LabelledEnum({"total": "Total time", "mean": "Mean duration", "count": "Launches"}),
        Choice("Change in"),
    )
    """The change that is drawn, largest first."""

    per_step: bool = parameter(Bool(False), Toggle("Per ProfilerStep"))
    """Divide by the number of ProfilerSteps; by default if the jobs have different numbers."""

    listed: Listed = parameter(
        LabelledEnum(
            {
                "kernels": "Kernels",
                "waterfall": "Where the time went",
                "only_in_one": "Only in one",
                "tails": "Tails",
                "times": "Times",
            }
        ),
        Choice("Table"),
    )
    """Contents of the table; `waterfall` leads from one mean step to the other: the changes of all
    its rows add up to the difference."""

    @default("per_step")
    def _steps_differ(self) -> bool:
        return steps_differ(self.job, self.second)

    def analyse(self, ranks: list[int]) -> Compare:  # noqa: ARG002
        """Compare all ranks of the jobs."""
        per_step = self.per_step
        analyse = partial(compare, self.job, self.second, per_step=per_step)
        return self._memo.get(("result", per_step), analyse)

    def draw(self, result: Compare) -> dict[str, Drawing]:
        """Draw the kernel changes, the times and the longest events."""
        whole = self._memo.get(("whole jobs", self.per_step), partial(_whole_jobs, result))
        return self._changes(result) | whole

    def tabulate(self, result: Compare) -> pd.DataFrame:
        """List the kernels by change, or another table of the result."""
        if self.listed == "waterfall":
            return self._memo.call(explain_change, self.job, self.second).waterfall
        if self.listed == "kernels":
            return by_change(result.kernels, SORT_COLUMNS[self.sort_by])
        return super().tabulate(result)

    def nothing_to_show(self, result: Compare) -> str | None:
        """Explain an empty panel: neither job has GPU work."""
        return None if result.recorded["span_ns"].any() else "Neither job has any GPU work."

    def __repr__(self) -> str:
        """Both jobs, and the parameters."""
        values = [f"{name}={getattr(self, name)!r}" for name in self.parameters()]
        jobs = [repr(self.job.name), repr(self.second.name)]
        return f"{type(self).__name__}({', '.join([*jobs, *values])})"

    def _changes(self, result: Compare) -> dict[str, Drawing]:
        change = result.kernels[SORT_COLUMNS[self.sort_by]]
        if not (change.notna() & (change != 0)).any():
            return {}
        figure = kernel_changes(
            result,
            num_kernels=self.num_kernels,
            sort_by=self.sort_by,
            selected=self.selection.kernel,
        )
        return {"Kernels with the largest change": figure}

    def _describe(self) -> PanelSpec:
        names = job_names(self.job.name, self.second.name)
        return {**super()._describe(), "title": " → ".join(names)}


def _whole_jobs(result: Compare) -> dict[str, Drawing]:
    """Figures that do not depend on the chosen kernels."""
    drawn = {"Times": times(result)}
    if result.tails["ratio_mean"].notna().any():
        drawn["Longest events"] = tails(result)
    return drawn
