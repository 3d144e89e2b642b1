"""What the sentences on a replay say: the critical path, and a step with changes."""

from __future__ import annotations

from typing import Any

from hta_widgets.diagnosis.replay.critical_path import BOUND_BY
from hta_widgets.panels.base.panel import Panel
from hta_widgets.quantities import duration, percent
from tests.explained.forms import NS_PER_MS, Texts, share


def path(result: Any, _: Panel[Any]) -> Texts | None:
    whole = int(result.pieces["ns"].sum())
    of = {
        what: int(result.classes["ns"][result.classes["class"].isin(classes)].sum())
        for what, classes in BOUND_BY.items()
    }
    what = max(of, key=lambda name: of[name])
    texts: Texts = {
        "whole": duration(whole),
        "what": what,
        "percent": share(of[what], whole),
    }
    drag = float(result.kernels["drag_ns"].max()) if len(result.kernels) else 0.0
    if drag > whole / 100:
        texts |= {"drag": duration(drag), "share": share(drag, whole)}
    return texts


def as_recorded(result: Any, _: Panel[Any]) -> Texts | None:
    if result.answer.gain_ms:
        return None
    return {"step": duration(result.recorded_ms * NS_PER_MS), **_bound_by(result, "recorded_ms")}


def changed(result: Any, _: Panel[Any]) -> Texts | None:
    before, after = result.recorded_ms, result.answer.step_ms
    texts: Texts = {
        "before": duration(before * NS_PER_MS),
        "after": duration(after * NS_PER_MS),
        **_bound_by(result, "ms"),
    }
    less = 100 * (before - after) / before
    if percent(abs(less)) != percent(0):
        texts["change"] = f"{'-' if less > 0 else '+'}{percent(abs(less))}"
    return texts


def _bound_by(result: Any, column: str) -> Texts:
    table = result.classes.set_index("what")[column]
    return {"what": str(table.idxmax()), "percent": share(table.max(), table.sum())}
