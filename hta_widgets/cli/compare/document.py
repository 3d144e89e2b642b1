"""A change as JSON, for programs."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from hta_widgets.diagnosis.change.explain_change import Change
from hta_widgets.diagnosis.change.gate import Judgement
from hta_widgets.diagnosis.change.several import SeveralJobs
from hta_widgets.diagnosis.change.summary import Summary
from hta_widgets.diagnosis.change.waterfall import LEVELS, level
from hta_widgets.terminal import cut
from hta_widgets.version import __version__

SCHEMA_VERSION: Final = 2
"""Version of the document: raised when a program that reads it would have to change."""

MOST_ROWS: Final = 20
"""Rows of each level of the waterfall: the largest changes; one more row sums up the rest."""

MOST_CHARACTERS: Final = 200


def json_text(change: Change, judgement: Judgement | None = None) -> str:
    """Write the document, in ASCII only."""
    return json.dumps(document(change, judgement), indent=1, allow_nan=False) + "\n"


def several_json(found: SeveralJobs) -> str:
    """The document of each change from the first job, as `hta-widgets compare --json` writes it."""
    changes = [document(each) for each in found.changes]
    return json.dumps({"sentence": found.finding, "changes": changes}, indent=1) + "\n"


def document(change: Change, judgement: Judgement | None = None) -> dict[str, Any]:
    """Build what `json_text` writes; times are whole ns of the mean step."""
    step = change.step
    return {
        "schema_version": SCHEMA_VERSION,
        "hta_widgets_version": __version__,
        "verdict": change.verdict,
        "sentence": change.finding,
        "first": _side(change.first),
        "second": _side(change.second),
        "delta_ns": change.delta_ns,
        "steps": {
            "ratio_of_medians": _number(step.ratio),
            "interval": [_number(step.low), _number(step.high)],
            "p": _number(step.chance),
            "counts": [*step.counts],
        },
        "differences": [each._asdict() for each in change.differences],
        "lines": [
            {"path": [cut(each, MOST_CHARACTERS) for each in line.path]}
            | {"first_ns": line.first_ns, "second_ns": line.second_ns, "outcome": line.outcome}
            for line in change.lines
        ],
        "waterfall": {name: _level(change, name) for name in LEVELS},
        "causes": [each._asdict() for each in change.causes],
        "work": [each._asdict() for each in change.work],
        "limits": None
        if judgement is None
        else {
            "outcome": judgement.outcome,
            "broken": [*judgement.broken],
            "untold": [*judgement.untold],
        },
        "notices": [*change.notices],
    }


def _side(summary: Summary) -> dict[str, Any]:
    return {
        "job": cut(summary.name, MOST_CHARACTERS),
        "mean_ns": summary.mean_ns,
        "unit": summary.unit,
        "memory_bytes": summary.memory_bytes,
        "status": summary.status,
        "environment": summary.environment,
    }


def _level(change: Change, name: str) -> dict[str, Any]:
    """The rows of a level that changed most, and the sum of the others."""
    rows = level(change.waterfall, name)
    keys = [*LEVELS[: LEVELS.index(name) + 1]]
    most, rest = rows.head(MOST_ROWS), rows.iloc[MOST_ROWS:]
    return {
        "rows": [
            {key: cut(str(row[key]), MOST_CHARACTERS) for key in keys}
            | {each: int(row[each]) for each in ("first_ns", "second_ns", "delta_ns")}
            for row in most.to_dict("records")
        ],
        "others": {"rows": len(rest), "delta_ns": int(rest["delta_ns"].sum())},
    }


def _number(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None
