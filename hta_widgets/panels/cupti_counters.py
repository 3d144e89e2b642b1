"""Panel of the performance counters."""

from __future__ import annotations

from typing import Any, ClassVar

import pandas as pd
from traitlets import Enum, Unicode

from hta_widgets.analyses.cupti_counters import BOTTOM, LEVELS, TOP, CuptiCounters, cupti_counters
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.cupti_counters import counter_by_operator
from hta_widgets.panels.base.controls import Choice, Control, RankPicker
from hta_widgets.panels.base.panel import Panel
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import HasJob, as_job
from hta_widgets.trace.remote.urls import TraceSource

STATISTICS = (("Sum", "sum"), ("Mean", "mean"))
LEVEL_CHOICES = (("Outermost", TOP), ("Innermost", BOTTOM))


def counter_options(job: Job) -> list[tuple[str, str]]:
    """Counters of the job."""
    return [(name, name) for name in cupti_counters(job).counters]


def first_counter(job: Job) -> str:
    """Return the first counter that is not 0 throughout, else the first."""
    sums = cupti_counters(job).operators.groupby("counter")["sum"].sum()
    return str(next(iter([*sums.index[sums > 0], *sums.index]), ""))


class CuptiCountersPanel(Panel):
    """What CUPTI's counters measured, by the operator that launched the kernel."""

    title = "Performance counters"
    wide = True
    any_number_of_ranks = True
    controls: ClassVar[tuple[Control, ...]] = (
        RankPicker(),
        Choice("counter", "Counter", counter_options),
        Choice("level", "Operator", LEVEL_CHOICES),
        Choice("statistic", "Show", STATISTICS),
    )

    counter = Unicode().tag(sync=True)
    """Name of the counter shown."""

    level = Enum(LEVELS, TOP).tag(sync=True)
    """The outermost or the innermost operator around each launch."""

    statistic = Enum([value for _, value in STATISTICS], "sum").tag(sync=True)
    """Sum or mean over the kernels of an operator."""

    def __init__(self, source: Job | HasJob | TraceSource, **parameters: Any) -> None:  # noqa: ANN401
        job = as_job(source)
        parameters.setdefault("counter", first_counter(job))
        super().__init__(job, **parameters)

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """Tell whether the job was recorded with counters, which few are."""
        return bool(cupti_counters(job).counters)

    def analyse(self) -> CuptiCounters:
        """Attribute the counters of the selected ranks."""
        return cupti_counters(self.job, self.ranks)

    def draw(self, result: CuptiCounters) -> dict[str, Drawing]:
        """Draw the counter by operator."""
        figure = counter_by_operator(
            result, self.counter, level=self.level, statistic=self.statistic
        )
        return {"By operator": figure}

    def tabulate(self, result: CuptiCounters) -> pd.DataFrame:
        """The counter by operator, at the level shown."""
        every = result.operators
        table = every[(every["counter"] == self.counter) & (every["level"] == self.level)]
        return table.drop(columns="level")

    def nothing_to_show(self, result: CuptiCounters) -> str | None:
        """Say why there is no counter."""
        if result.ranges.empty:
            return result.finding
        if self.counter in result.counters:
            return None
        return f"No kernel on these ranks has the counter {self.counter!r}."
