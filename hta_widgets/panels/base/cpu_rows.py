"""What the CPUs did, in place of the findings, where no GPU work was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd

from hta_widgets.diagnosis import CpuOwner, CpuWork, Diagnosis
from hta_widgets.panels.base.protocol import FindingRow, Numbers
from hta_widgets.panels.base.selection import Selection
from hta_widgets.panels.base.table_view import table_view

_OPERATORS: Final = "The panel of the operators lists all of them, also by shape and by line."
_LINES: Final = "The flame graph shows what they call."
_LOADING: Final = (
    "Load batches in worker processes (DataLoader(num_workers=…)), or make the transforms cheaper."
)


def cpu_rows(found: Diagnosis, selection: Selection | None) -> list[FindingRow]:
    """Turn what the CPUs did into rows; none where GPU work was recorded.

    Parameters
    ----------
    found : Diagnosis
    selection : Selection or None
        What *Show* sets; None if there is nothing to set.
    """
    work = found.cpu_work
    if work is None:
        return []
    lacks = [
        _row(f"{each.what} not recorded: {each.untold}.", f"{each.how}.")
        for each in found.not_recorded[1:]
    ]
    return [*_of_work(work, selection), *lacks]


def _of_work(work: CpuWork, selection: Selection | None) -> list[FindingRow]:
    show = None
    if selection is not None and work.operators:
        show = {**selection.nothing(), "operators": [work.operators[0].name]}
    rows = [
        _row(work.of_operators, _OPERATORS, [_table("operators", work.operators)], show),
        _row(work.of_lines, _LINES, [_table("Python functions", work.lines)]),
        _row(work.of_loading, _LOADING),
        _row(work.memory),
    ]
    return [row for row in rows if row["sentence"]]


def _row(
    sentence: str,
    action: str = "",
    numbers: Sequence[Numbers] = (),
    show: dict[str, Any] | None = None,
) -> FindingRow:
    """A row without a price: what a step would save is not known."""
    return FindingRow(
        price="",
        share=0,
        color="",
        fill="solid",
        sentence=sentence,
        doubt="",
        action=action,
        numbers=[*numbers],
        show=show,
        panel="operators",
        folded=False,
    )


def _table(label: str, owners: Sequence[CpuOwner]) -> Numbers:
    table = pd.DataFrame([*owners], columns=CpuOwner._fields)
    return Numbers(label=label, text="", table=table_view(table))
