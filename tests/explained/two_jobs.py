"""What the two panels of a comparison say of both jobs."""

from __future__ import annotations

from typing import Any, Final

import pytest

from hta_widgets import diagnose
from hta_widgets.analyses.compare import job_names
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import counted, duration, percent
from tests.explained.forms import Form, Texts

OUTCOMES: Final = {"gone": "gone", "still": "remain", "untold": "not to be told"}


def lengths(first_ns: float, second_ns: float) -> tuple[str, str | None, str | None]:
    """By how much the second takes longer, and both lengths."""
    change = 100 * (second_ns / first_ns - 1)
    if abs(change) < 0.05:
        return "as long as", duration(second_ns), None
    words = f"{percent(abs(change))} {'longer' if change > 0 else 'less time'} than"
    return words, duration(second_ns), duration(first_ns)


def spans(result: Any, panel: Any) -> Texts | None:
    """The GPU span of both jobs, and the kernels that change most."""
    row = result.times.set_index("time").loc["span"]
    if not row["first_ns"] or not row["second_ns"]:
        return None
    words, second, first = lengths(row["first_ns"], row["second_ns"])
    texts: Texts = {"than": words, "second": second, "first": first}
    names = job_names(panel.job, panel.second)
    texts |= dict(zip(("name", "other"), names[::-1], strict=True))
    changes = result.kernels.set_index("kernel")["delta_total_ns"]
    if changes.max() > 0:
        texts["more"] = short_name(str(changes.idxmax()))
        texts["by"] = duration(changes.max())
    if changes.min() < 0:
        texts["less"] = short_name(str(changes.idxmin()))
        texts["by_less"] = duration(-changes.min())
    return texts


def findings(result: Any, panel: Any) -> Texts | None:
    """The lengths of the steps of both, and what became of each finding."""
    first, second = (diagnose(job) for job in (panel.job, panel.second))
    whole = result.classes.set_index("class").loc["all"]
    assert (whole["first_ns"], whole["second_ns"]) == (first.period_ns, second.period_ns)
    parts = result.classes[result.classes["class"] != "all"]
    assert parts["first_ns"].sum() == pytest.approx(first.period_ns)
    words, now, before = lengths(first.period_ns, second.period_ns)
    causes = [{each.cause for each in found} for found in (first, second)]
    outcomes = [each.outcome for each in result.findings]
    assert outcomes.count("new") == len(causes[1] - causes[0])
    assert outcomes.count("still") == len(causes[0] & causes[1])
    old = len(outcomes) - outcomes.count("new")
    said = [f"{outcomes.count(key)} {text}" for key, text in OUTCOMES.items() if key in outcomes]
    names = job_names(panel.job, panel.second)
    new = outcomes.count("new")
    return {
        "name": names[1],
        "than": words,
        "other": names[0],
        "now": f"{now} {result.units[1]}",
        "before": before,
        "old": counted(old, "finding") if old else None,
        "said": ", ".join(said) if old else None,
        "new": str(new) if new else None,
    }


FORMS: Final[dict[str, list[Form]]] = {
    "compare": [
        Form(
            "<name> takes <than> <other>: <second>[[ instead of <first>]][[ <_per>]], from the "
            "first to the last GPU operation.[[ Largest increase: <more> (+<by>)]]"
            "[[[[;]][[.]] [[L]][[l]]argest decrease: <less> (−<by_less>)]][[.]]",
            spans,
        )
    ],
    "compared_findings": [
        Form(
            "<name> takes <than> <other>: <now>[[ instead of <before>]]."
            "[[ Of <old>: <said>]][[[[;]][[.]] <new> new finding[[s]]]][[ Neither has a finding]].",
            findings,
        )
    ],
}
