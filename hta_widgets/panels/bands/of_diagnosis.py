"""Panels of the ranks and of the steps: the budget of each, beside one another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from hta_widgets.analyses.diagnosis import Diagnosis, diagnosis
from hta_widgets.analyses.diagnosis.budget import BUDGET, budget
from hta_widgets.analyses.diagnosis.own_time import own_time
from hta_widgets.analyses.shared.attribution.window import NO_STEP
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.budget_bars import rank_budgets, step_budgets
from hta_widgets.figures.diagnosis import own_time_cells
from hta_widgets.panels.bands.budget import rank_budgets_in_window
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.parameters import PanelParameters, Source
from hta_widgets.panels.base.selection import TIME_FIELDS
from hta_widgets.trace.model.formats import Recorded

if TYPE_CHECKING:
    from typing_extensions import Unpack

OWN_TIME = "Own time of each rank against the median (full colour: 50 % more)"
_NS_PER_MS = 1e6


class _OfDiagnosis(Panel[Diagnosis]):
    """What the diagnosis of all ranks knows of each rank and step."""

    wide = True
    any_number_of_ranks = True
    follows: ClassVar[tuple[str, ...]] = ("steps",)
    needs = (Recorded.KERNELS,)

    def __init__(self, source: Source, **parameters: Unpack[PanelParameters]) -> None:
        super().__init__(source, **parameters)

    def analyse(self, ranks: list[int]) -> Diagnosis:
        """Diagnose the job: what ranks wait for is seen on all of them."""
        self.job.select_ranks(ranks)
        found = self.job.remember(diagnosis)
        return self._memo.get("result", lambda: replace(found, finding=""), found)

    def nothing_to_show(self, result: Diagnosis) -> str | None:
        """Explain an empty panel: no GPU work."""
        return self.job.remember(diagnosis).finding if result.steps.empty else None

    def _in_steps(self, result: Diagnosis) -> pd.DataFrame:
        """The budget in the selected steps; in all if none of these is analysed."""
        chosen = result.steps["step"].isin(self.selection.steps)
        return budget(result.steps[chosen] if chosen.any() else result.steps)


class RanksPanel(_OfDiagnosis):
    """What the mean step of each rank is spent on.

    Parameters
    ----------
    source : Job, TraceAnalysis, path, list of paths or mapping of rank to path
        What to analyse.
    **parameters
        `ranks`, `selection`, `job_notices` and `layout`, as for every `Panel`.
    """

    title = "Where the time of each rank goes"
    table_open = True
    follows = TIME_FIELDS

    def draw(self, result: Diagnosis) -> dict[str, Drawing]:
        """Draw a stacked bar for each rank, the one that waits least first."""
        has_steps = bool((result.steps["step"] != NO_STEP).any())
        unit = "ms per step" if has_steps else "ms of the recording"
        if self._in_window(result) is not None:
            unit = "ms in the window"
        return {self.title: rank_budgets(self.tabulate(result), selected=self.ranks, unit=unit)}

    def tabulate(self, result: Diagnosis) -> pd.DataFrame:
        """List the classes of each rank (ms), the one that waits least first.

        They are those of its mean step, or of its time in the selected window.
        """
        by_rank = self._in_window(result)
        if by_rank is None:
            by_rank = self._in_steps(result).groupby("rank", as_index=False).mean()
        table = by_rank.drop(columns=["step"]).set_index("rank")
        in_ms = (table / _NS_PER_MS).rename(columns=lambda name: name.replace("_ns", "_ms"))
        order = in_ms["waiting_ms"].sort_values(kind="stable").index
        in_ms = in_ms.loc[order].reset_index()
        classes = [f"{each.name}_ms" for each in BUDGET if in_ms[f"{each.name}_ms"].any()]
        return in_ms[["rank", "period_ms", *classes]]

    def _in_window(self, result: Diagnosis) -> pd.DataFrame | None:
        return rank_budgets_in_window(
            result.job, self._in_steps(result), self.selection.time["window_ns"]
        )


class StepsPanel(_OfDiagnosis):
    """What each step is spent on, and which rank needs longer than the others in it.

    Parameters
    ----------
    source : Job, TraceAnalysis, path, list of paths or mapping of rank to path
        What to analyse.
    **parameters
        `ranks`, `selection`, `job_notices` and `layout`, as for every `Panel`.
    """

    title = "Where each step goes"

    def draw(self, result: Diagnosis) -> dict[str, Drawing]:
        """Draw a stacked bar for each step, and the own time of all ranks in all steps."""
        steps = self.selection.steps
        has_steps = bool((result.steps["step"] != NO_STEP).any())
        title = self.title if has_steps else "Where the recording goes"
        figures = {title: step_budgets(self._means(result), selected=steps)}
        own = own_time(result.steps)
        if own.percent.size > 1:
            figures[OWN_TIME] = own_time_cells(own, selected=self.ranks, steps=steps)
        return figures

    def tabulate(self, result: Diagnosis) -> pd.DataFrame:
        """List the classes of each step (ms), as means of the selected ranks."""
        return self._means(result)

    def _means(self, result: Diagnosis) -> pd.DataFrame:
        steps = result.steps
        chosen = steps["rank"].isin(self.ranks)
        table = budget(steps[chosen] if chosen.any() else steps)
        means = table.drop(columns=["rank"]).groupby("step").mean() / _NS_PER_MS
        means = means.rename(columns=lambda name: name.replace("_ns", "_ms")).reset_index()
        classes = [f"{each.name}_ms" for each in BUDGET if means[f"{each.name}_ms"].any()]
        return means[["step", "period_ms", *classes]]
