"""Panel of what became of the findings of a job in a second one."""

from __future__ import annotations

from typing import ClassVar

import pandas as pd

from hta_widgets.diagnosis import Finding, diagnosis
from hta_widgets.diagnosis.compared_findings import (
    ComparedFinding,
    ComparedFindings,
    compare_findings,
)
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.budget_bars import job_budgets
from hta_widgets.panels.base.finding_rows import finding_rows
from hta_widgets.panels.base.panel_of_two import PanelOfTwo
from hta_widgets.panels.base.protocol import FindingRow
from hta_widgets.trace.model.formats import Recorded

_PRICES = {"gone": "gone", "untold": "?"}


class ComparedFindingsPanel(PanelOfTwo[ComparedFindings]):
    """Which findings are gone in a second job, still there or new, and the budgets of both.

    All ranks of both jobs count, whatever is selected. *Show* selects where a finding is seen in
    the first job.
    """

    name = "compared_findings"
    tab = "compare"
    place = 1
    title = "What became of the findings"
    wide = True
    table_open = True
    needs = (Recorded.KERNELS,)
    table_labels: ClassVar = {"first_ns": "First", "second_ns": "Second", "delta_ns": "Change"}

    def analyse(self, ranks: list[int]) -> ComparedFindings:  # noqa: ARG002
        """Compare the diagnoses of all ranks."""
        return self._memo.get("result", lambda: compare_findings(self.job, self.second))

    def draw(self, result: ComparedFindings) -> dict[str, Drawing]:
        """Draw the budgets of both jobs."""
        names = (result.first, result.second)
        figure = job_budgets(result.classes, names=names, units=result.units)
        return {"Where the time of both goes": figure}

    def tabulate(self, result: ComparedFindings) -> pd.DataFrame:
        """List the classes of both budgets."""
        return result.classes

    def nothing_to_show(self, result: ComparedFindings) -> str | None:
        """Explain an empty panel: one of the jobs has no GPU work."""
        return None if result.has_work else result.finding

    def list_findings(self, result: ComparedFindings) -> list[FindingRow]:
        """What became of each finding, with what *Show* selects in the first job."""
        found = self.job.remember(diagnosis)
        rows = finding_rows([each.finding for each in result.findings], None)
        shown = dict(zip(found, finding_rows(found, self.selection), strict=True))
        return [_row(each, row, shown) for each, row in zip(result.findings, rows, strict=True)]


def _row(
    compared: ComparedFinding, row: FindingRow, shown: dict[Finding, FindingRow]
) -> FindingRow:
    words = f"{compared.words[0].upper()}{compared.words[1:]}"
    first = shown[compared.first] if compared.first else None
    return {
        **row,
        "price": _PRICES.get(compared.outcome, row["price"]),
        "share": row["share"] if compared.second else 0,
        "sentence": f"{words}. {compared.finding.sentence}",
        "show": first["show"] if first else None,
        "folded": False,
    }
