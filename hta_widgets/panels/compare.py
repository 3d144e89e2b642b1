"""Panel of two jobs side by side."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, ClassVar

import pandas as pd
from traitlets import Bool, Enum, Int

from hta_widgets.analyses.compare import Compare, compare, job_names, steps_differ
from hta_widgets.analyses.compare.kernels import by_change
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.compare import (
    SORT_COLUMNS,
    kernel_changes,
    tails,
    times,
)
from hta_widgets.panels.base.controls import Choice, Control, Slider, Toggle
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.selection import Selection
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import HasJob, as_job
from hta_widgets.trace.remote.urls import TraceSource

SORTS = (("Total time", "total"), ("Mean duration", "mean"), ("Launches", "count"))
LISTS = (
    ("Kernels", "kernels"),
    ("Only in one", "only_in_one"),
    ("Tails", "tails"),
    ("Times", "times"),
)


class ComparePanel(Panel):
    """What differs between two jobs, in any formats: all ranks of the one and of the other.

    Times are means per rank. The selected ranks of either job do not matter here; a click on a
    kernel selects it in the first job.

    Parameters
    ----------
    first, second : Job, TraceAnalysis, path, list of paths or mapping of rank to path
        What to compare; changes are those from the first to the second.
    selection : Selection, optional
        The selection to follow; by default that of the first job.
    **parameters
        Initial values of the panel's parameters, and `layout`. Without `per_step`, jobs with
        unequal numbers of ProfilerSteps are compared step by step.
    """

    wide = True
    any_number_of_ranks = True
    follows = ("kernel",)
    controls: ClassVar[tuple[Control, ...]] = (
        Slider("num_kernels", "Kernels", min=1, max=100, open_ended=True),
        Choice("sort_by", "Change of", SORTS),
        Toggle("per_step", "Per ProfilerStep"),
        Choice("listed", "Table", LISTS),
    )

    num_kernels = Int(10, min=1).tag(sync=True)
    """At most so many kernels are drawn."""

    sort_by = Enum([value for _, value in SORTS], "total").tag(sync=True)
    """The change that is drawn, and by whose size the kernels are sorted."""

    per_step = Bool(False).tag(sync=True)
    """Divide by the number of ProfilerSteps."""

    listed = Enum([value for _, value in LISTS], "kernels").tag(sync=True)
    """What the table lists."""

    def __init__(
        self,
        first: Job | HasJob | TraceSource,
        second: Job | HasJob | TraceSource,
        *,
        selection: Selection | None = None,
        **parameters: Any,  # noqa: ANN401
    ) -> None:
        self._following = ExitStack()
        self._reject_unknown(parameters)
        job, self.second = as_job(first), as_job(second)
        self._compared: dict[bool, Compare] = {}
        self._drawn: dict[bool, dict[str, Drawing]] = {}
        if "per_step" not in parameters:
            parameters["per_step"] = steps_differ(job, self.second)
        super().__init__(job, selection=selection, **parameters)

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Names of the parameters: ranks of one job are not those of the other."""
        return tuple(name for name in super().parameters() if name != "ranks")

    def analyse(self) -> Compare:
        """Compare the jobs."""
        if self.per_step not in self._compared:
            self._compared[self.per_step] = compare(self.job, self.second, per_step=self.per_step)
        return self._compared[self.per_step]

    def draw(self, result: Compare) -> dict[str, Drawing]:
        """Draw the kernels that changed, the times and the longest events."""
        if self.per_step not in self._drawn:
            self._drawn[self.per_step] = _whole_jobs(result)
        return self._changes(result) | self._drawn[self.per_step]

    def tabulate(self, result: Compare) -> pd.DataFrame:
        """List the kernels by their change, or another table of the result."""
        if self.listed != "kernels":
            table: pd.DataFrame = getattr(result, str(self.listed))
            return table
        return by_change(result.kernels, SORT_COLUMNS[self.sort_by])

    def nothing_to_show(self, result: Compare) -> str | None:
        """Say so where neither job did any work."""
        return None if result.recorded["span_ns"].any() else "No GPU work in either job."

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
        return {"Kernels that changed most": figure}

    def _describe(self) -> dict[str, Any]:
        return {**super()._describe(), "title": " → ".join(job_names(self.job, self.second))}


def _whole_jobs(result: Compare) -> dict[str, Drawing]:
    """Figures that do not depend on the kernels chosen."""
    drawn = {"Times": times(result)}
    if result.tails["ratio_first_to_second"].notna().any():
        drawn["Longest events"] = tails(result)
    return drawn
