"""Panel of the diagnosis: what costs time, and how much it costs."""

from __future__ import annotations

import pandas as pd

from hta_widgets.analyses.budget.classes import COLUMN_LABELS
from hta_widgets.analyses.server_steps import recording_in_words
from hta_widgets.diagnosis import Diagnosis, diagnosis, diagnosis_of_phase
from hta_widgets.diagnosis.budget_table import budget, named_classes
from hta_widgets.diagnosis.own_time import own_time
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.diagnosis import budget_title, own_time_cells, step_budget
from hta_widgets.panels.base.finding_rows import finding_rows, shown_rows
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.protocol import FindingRow
from hta_widgets.quantities import capitalised, named_numbers
from hta_widgets.trace.model.formats import Recorded

OWN_TIME = "Time per rank without waiting, relative to the median (darkest: +50 %)"


class DiagnosisPanel(Panel[Diagnosis]):
    """Why a job is slow: the causes with their cost, and where the time of a step goes.

    A linked panel diagnoses all ranks, whatever is selected, so that the list of causes does not
    change when *Show* selects their ranks. The budget is that of the selected ranks.
    """

    name = "diagnosis"
    tab = None
    place = 1
    title = "Diagnosis"
    any_number_of_ranks = True
    table_labels = COLUMN_LABELS
    follows = ("steps", "phase")
    needs = (Recorded.KERNELS,)

    def analyse(self, ranks: list[int]) -> Diagnosis:
        """Diagnose the job, or some of its ranks."""
        self.job.select_ranks(ranks)
        asked, phase = tuple(ranks), self.selection.served_phase
        if self.linked or not asked:
            return diagnosis_of_phase(self.job, phase)
        return self._memo.call(diagnosis, self.job, asked, phase=phase or None)

    def draw(self, result: Diagnosis) -> dict[str, Drawing]:
        """Draw the budget of the mean step, and the own time of all ranks in all steps."""
        chosen = self._budget(result)
        drawn = step_budget(
            chosen,
            whose=self._in_words(chosen),
            classes=named_classes(result.steps, lost_most=result.health.lost_most),
        )
        figures = {budget_title(chosen): drawn}
        own = own_time(result.steps)
        if own.percent.size > 1:
            ranks = self.ranks if self.linked else []
            figures[OWN_TIME] = own_time_cells(own, selected=ranks, steps=self.selection.steps)
        return figures

    def tabulate(self, result: Diagnosis) -> pd.DataFrame:
        """List the budget of each rank and step, in the classes that occur."""
        table = self._budget(result)
        return table.loc[:, table.columns.isin(["rank", "step"]) | table.any()]

    def sentence(self, result: Diagnosis) -> str:
        """The kind of recording, and the finding."""
        kind = recording_in_words(result.job)
        said = f"{capitalised(kind)}{'.' if ':' in kind else ':'} " if kind else ""
        return f"{said}{result.finding}"

    def nothing_to_show(self, result: Diagnosis) -> str | None:
        """Explain an empty panel: no GPU work."""
        return self.sentence(result) if self._budget(result).empty else None

    def list_findings(self, result: Diagnosis) -> list[FindingRow]:
        """The findings, with what *Show* selects."""
        return shown_rows(result, self.selection) if self.linked else finding_rows(result, result)

    def _budget(self, result: Diagnosis) -> pd.DataFrame:
        """Budget of the selected ranks and steps; of all steps if no selected step is analysed."""
        steps = result.steps
        if self.ranks:
            steps = steps[steps["rank"].isin(self.ranks)]
        selected = steps["step"].isin(self.selection.steps)
        return budget(steps[selected] if selected.any() else steps)

    def _in_words(self, chosen: pd.DataFrame) -> str:
        """Which ranks and steps are shown, in words."""
        ranks = named_numbers("rank", self.ranks) if self.ranks else "all ranks"
        shown = chosen["step"].unique().tolist()
        if not {*self.selection.steps}.issuperset(shown):
            return ranks
        return f"{ranks}, {named_numbers('step', shown)}"
