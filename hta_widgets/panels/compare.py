"""Panel of the comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import pandas as pd
from traitlets import Bool, Int, default

from hta_widgets.analyses.compare import Compare, compare, job_names, steps_differ
from hta_widgets.analyses.compare.kernels import by_change
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.compare import (
    SORT_COLUMNS,
    kernel_changes,
    tails,
    times,
)
from hta_widgets.panels.base.controls import Choice, Slider, Toggle
from hta_widgets.panels.base.panel_of_two import PanelOfTwo
from hta_widgets.panels.base.parameters import Source, WidgetParameters
from hta_widgets.panels.base.protocol import PanelSpec
from hta_widgets.panels.base.traits import LabelledEnum

if TYPE_CHECKING:
    from typing_extensions import Unpack

SortBy: TypeAlias = Literal["total", "mean", "count"]
Listed: TypeAlias = Literal["kernels", "only_in_one", "tails", "times"]


class CompareParameters(WidgetParameters, total=False):
    """Parameters of `ComparePanel`."""

    num_kernels: int
    sort_by: SortBy
    per_step: bool
    listed: Listed


class ComparePanel(PanelOfTwo[Compare]):
    """Comparison of two jobs, in any formats, over all ranks of each.

    Times are means per rank, independent of the selected ranks. A click on a kernel selects it in
    the first job.

    Parameters
    ----------
    first, second : Job, TraceAnalysis, path, list of paths or mapping of rank to path
        What to compare; changes are those from the first to the second.
    num_kernels : int
        Maximum number of kernels to draw.
    sort_by : {"total", "mean", "count"}
        The change that is drawn, largest first.
    per_step : bool
        Divide by the number of ProfilerSteps; by default if the jobs have different numbers.
    listed : {"kernels", "only_in_one", "tails", "times"}
        Contents of the table.
    **parameters
        `selection`, by default that of the first job, `job_notices` and `layout`, as for every
        `Panel`.
    """

    name = "compare"
    tab = "compare"
    place = 2
    wide = True
    follows = ("kernel",)
    table_selects: ClassVar = {"name_first": "kernel"}

    num_kernels = Int(10, min=1).tag(sync=True, control=Slider("Top kernels", max=100))
    sort_by = LabelledEnum[SortBy](
        {"total": "Total time", "mean": "Mean duration", "count": "Launches"}
    ).tag(sync=True, control=Choice("Change in"))
    per_step = Bool(False).tag(sync=True, control=Toggle("Per ProfilerStep"))
    listed = LabelledEnum[Listed](
        {"kernels": "Kernels", "only_in_one": "Only in one", "tails": "Tails", "times": "Times"}
    ).tag(sync=True, control=Choice("Table"))

    def __init__(
        self, first: Source, second: Source, **parameters: Unpack[CompareParameters]
    ) -> None:
        self._compared: dict[bool, Compare] = {}
        self._drawn: dict[bool, dict[str, Drawing]] = {}
        super().__init__(first, second, **parameters)

    @default("per_step")
    def _steps_differ(self) -> bool:
        return steps_differ(self.job, self.second)

    def analyse(self, ranks: list[int]) -> Compare:  # noqa: ARG002
        """Compare all ranks of the jobs."""
        if self.per_step not in self._compared:
            self._compared[self.per_step] = compare(self.job, self.second, per_step=self.per_step)
        return self._compared[self.per_step]

    def draw(self, result: Compare) -> dict[str, Drawing]:
        """Draw the changes of kernels, the times and the longest events."""
        if self.per_step not in self._drawn:
            self._drawn[self.per_step] = _whole_jobs(result)
        return self._changes(result) | self._drawn[self.per_step]

    def tabulate(self, result: Compare) -> pd.DataFrame:
        """List the kernels by their change, or another table of the result."""
        if self.listed != "kernels":
            table: pd.DataFrame = getattr(result, self.listed)
            return table
        return by_change(result.kernels, SORT_COLUMNS[self.sort_by])

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
        return {**super()._describe(), "title": " → ".join(job_names(self.job, self.second))}


def _whole_jobs(result: Compare) -> dict[str, Drawing]:
    """Figures that do not depend on the chosen kernels."""
    drawn = {"Times": times(result)}
    if result.tails["ratio_mean"].notna().any():
        drawn["Longest events"] = tails(result)
    return drawn
