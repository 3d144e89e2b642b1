"""The findings of a diagnosis as rows of a panel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd

from hta_widgets.diagnosis.analysis import MOST_SHOWN
from hta_widgets.diagnosis.finding import Evidence, Finding, Link
from hta_widgets.figures.diagnosis import cause_look
from hta_widgets.panels.base.protocol import FindingRow, Numbers
from hta_widgets.panels.base.selection import Selection
from hta_widgets.panels.base.table import table_view
from hta_widgets.panels.base.view import format_cell
from hta_widgets.quantities import duration

CANNOT_TELL: Final = "Cannot tell from this trace."
_ROWS: Final = 20
_NS_PER_MS: Final = 1e6
_UNITS: Final = {
    "ns": "ns",
    "us": "µs",
    "ms": "ms",
    "s": "s",
    "percent": "%",
    "bytes": "B",
    "gbps": "GB/s",
}


def finding_rows(found: Sequence[Finding], selection: Selection | None) -> list[FindingRow]:
    """Turn findings into rows, in their order.

    Parameters
    ----------
    found : sequence of Finding
    selection : Selection or None
        What *Show* sets; None if there is nothing to set.
    """
    most = max((each.recoverable_ms for each in found), default=0)
    return [
        FindingRow(
            price=_price(each),
            share=max(each.recoverable_ms, 0) / most if most > 0 else 0,
            color=cause_look(each.cause)[0],
            fill=cause_look(each.cause)[1],
            sentence=each.sentence,
            doubt=CANNOT_TELL if each.confidence == "inconclusive" else "",
            action=each.action,
            numbers=[_numbers(name, value) for name, value in each.evidence.items()],
            show=None if selection is None else _fields(each, place, selection),
            panel=each.links[0].panel if each.links else "",
            folded=place >= MOST_SHOWN,
        )
        for place, each in enumerate(found)
    ]


def _price(found: Finding) -> str:
    """What it costs; empty where that cannot be told."""
    return duration(found.recoverable_ms * _NS_PER_MS) if found.recoverable_ms > 0 else ""


def _fields(found: Finding, place: int, selection: Selection) -> dict[str, Any]:
    """Values of all fields of a selection that shows where a finding is seen."""
    link = found.links[0] if found.links else Link(panel="", ranks=found.ranks, steps=found.steps)
    window = None if link.window_ns is None else [*link.window_ns]
    values = {
        "ranks": sorted({*link.ranks}),
        "streams": sorted({*link.streams}),
        "kernel": link.kernel,
        "operators": [],
        "shapes": [],
        "modules": [],
        "phase": "",
        "steps": sorted({*link.steps}),
        "window_ns": window,
        "finding": place,
    }
    return {name: value for name, value in values.items() if name in selection.fields()}


def _numbers(name: str, value: Evidence) -> Numbers:
    if isinstance(value, pd.DataFrame):
        return Numbers(
            label=name.replace("_", " "), text="", table=table_view(value, max_rows=_ROWS)
        )
    what, _, unit = name.rpartition("_")
    if not what or unit not in _UNITS:
        return Numbers(label=name.replace("_", " "), text=format_cell(value), table=None)
    text = f"{format_cell(value)} {_UNITS[unit]}"
    return Numbers(label=what.replace("_", " "), text=text, table=None)
