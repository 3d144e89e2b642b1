"""Panel of the CUPTI performance counters, by operator."""

from __future__ import annotations

from typing import Literal, TypeAlias

import pandas as pd
from traitlets import Unicode, default

from hta_widgets.analyses.cupti_counters import CuptiCounters, cupti_counters
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.cupti_counters import counter_by_operator
from hta_widgets.panels.base.controls import Choice
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.selection import TIME_FIELDS
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.trace.job import Job

Level: TypeAlias = Literal["top_level_op", "bottom_level_op"]
Statistic: TypeAlias = Literal["sum", "mean"]


def counters_of(job: Job) -> dict[str, str]:
    """Names of the job's counters, with their labels."""
    return {name: name for name in cupti_counters(job).counters}


class CuptiCountersPanel(Panel[CuptiCounters]):
    """CUPTI performance counters by the operator that launched the kernel."""

    name = "cupti_counters"
    tab = "counters"
    place = 1
    title = "Performance counters"
    any_number_of_ranks = True
    follows = TIME_FIELDS

    counter: str = parameter(Unicode(), Choice("Counter", counters_of))
    """Counter to show; by default the first one with any value other than 0."""

    level: Level = parameter(
        LabelledEnum({"top_level_op": "Outermost", "bottom_level_op": "Innermost"}),
        Choice("Operator"),
    )
    """The outermost or the innermost operator around each launch."""

    statistic: Statistic = parameter(LabelledEnum({"sum": "Sum", "mean": "Mean"}), Choice("Show"))
    """Sum or mean over the kernels of an operator."""

    @default("counter")
    def _first_counter(self) -> str:
        sums = cupti_counters(self.job).operators.groupby("counter")["sum"].sum()
        return str(next(iter([*sums.index[sums > 0], *sums.index]), ""))

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """Whether the job was recorded with performance counters."""
        return bool(cupti_counters(job).counters)

    def analyse(self, ranks: list[int]) -> CuptiCounters:
        """Attribute the counters of the ranks to operators."""
        return cupti_counters(self.job, ranks, **self.selection.time_of(self.job))

    def draw(self, result: CuptiCounters) -> dict[str, Drawing]:
        """Draw the counter by operator."""
        figure = counter_by_operator(
            result, self.counter, level=self.level, statistic=self.statistic
        )
        return {"By operator": figure}

    def tabulate(self, result: CuptiCounters) -> pd.DataFrame:
        """List the operators of the level that is shown."""
        every = result.operators
        table = every[(every["counter"] == self.counter) & (every["level"] == self.level)]
        return table.drop(columns="level")

    def nothing_to_show(self, result: CuptiCounters) -> str | None:
        """Explain an empty panel: no counters, or not the selected one."""
        if result.ranges.empty:
            selected = self.selection.time_in_words()
            return f"No measured kernel was launched in {selected}." if selected else result.finding
        if self.counter in result.counters:
            return None
        return f"No kernel on the selected ranks has the counter {self.counter!r}."
