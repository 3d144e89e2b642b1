"""The budget band: where a step goes, for the selection and for everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd

from hta_widgets.analyses.budget.classes import BudgetClass
from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.analyses.timeline.window_budget import window_budget
from hta_widgets.diagnosis import Diagnosis
from hta_widgets.diagnosis.budget_table import budget, class_of, named_classes
from hta_widgets.figures.base.style import CLASS_COLORS, CLASS_INK, class_fill
from hta_widgets.figures.diagnosis import budget_title
from hta_widgets.panels.bands.messages import BudgetBand, BudgetPart
from hta_widgets.panels.base.protocol import FindingRow
from hta_widgets.panels.base.selection import Selection
from hta_widgets.quantities import counted, duration, number, number_ranges, percent, time_unit
from hta_widgets.trace.job import Job

_TABS: Final = {
    "compute": "kernels",
    "transfer": "communication",
    "communication": "communication",
    "waiting": "ranks",
    "copies": "memory",
    "late_launching": "idle",
    "late_synchronising": "idle",
    "data_loading": "idle",
    "other_idle": "idle",
}
"""The tab that shows more about each class."""

_LEAST: Final = 0.005
"""Smallest number that two decimals show."""

APART: Final = 1.01
"""Ratio from which the text says that a step of the job is longer than those of its ranks: the
eight ranks of DLRM take 15.7 ms on average but start up to 1.3 ms apart, so a step takes 19.4."""


def budget_band(
    found: Diagnosis, selection: Selection, findings: Sequence[FindingRow]
) -> BudgetBand | None:
    """Divide the mean step of the selected ranks and steps, or a window, into classes.

    If the selection contains nothing analysed, everything counts. With a window, the mean rank is
    divided, and everything is drawn behind at the same length. In whole steps, a click on a class
    selects the first of the findings of that class. None without GPU work.
    """
    steps = found.steps
    if steps.empty:
        return None
    chosen = selected_steps(steps, selection)
    in_window = budgets_in_window(found.job, chosen, selection.window_ns)
    table, everything = budget(chosen), budget(steps)
    if in_window is not None and in_window.empty:
        return _outside(found, everything, selection)
    if in_window is not None:
        table = in_window.groupby("rank", as_index=False).sum()
    whole_ns, all_ns = (float(each["period_ns"].mean()) for each in (table, everything))
    longest_ns = max(whole_ns, all_ns) if in_window is None else whole_ns
    if not longest_ns:
        return None
    behind = 1.0 if in_window is None else whole_ns / all_ns
    parts = [
        _part(each, _mean(table, each), behind * _mean(everything, each), whole_ns, longest_ns)
        for each in _classes(found)
        if _mean(table, each) or _mean(everything, each)
    ]
    for part in parts:
        part["show"] = _show(part["name"], found, findings)
    where = "" if in_window is None else f" in {selection.time_in_words()}"
    return BudgetBand(
        title="Where the window goes" if where else budget_title(everything),
        whose=_whose(table, found, selection, where),
        compared=bool(where) or len(chosen) < len(steps),
        behind=f"All ranks and steps{', scaled to the window' if where else ''}",
        parts=parts,
    )


def _classes(found: Diagnosis) -> list[BudgetClass]:
    return named_classes(found.steps, lost_most=found.health.lost_most)


def _outside(found: Diagnosis, everything: pd.DataFrame, selection: Selection) -> BudgetBand:
    """An empty bar in front of everything; such a window was once shown as the whole job."""
    all_ns = float(everything["period_ns"].mean())
    return BudgetBand(
        title="Where the window goes",
        whose=f"no analysed time in {selection.time_in_words()}",
        compared=True,
        behind="All ranks and steps",
        parts=[
            _part(each, 0.0, _mean(everything, each), all_ns, all_ns)
            for each in _classes(found)
            if _mean(everything, each)
        ],
    )


def budgets_in_window(
    job: Job, steps: pd.DataFrame, window_ns: Sequence[int] | None
) -> pd.DataFrame | None:
    """The budget of each ``rank`` and ``step`` with time in a window; None without a window."""
    if window_ns is None:
        return None
    numbers = {*steps["step"].tolist()} - {NO_STEP}
    return window_budget(job, steps["rank"].unique().tolist(), window_ns, steps=numbers)


def selected_steps(steps: pd.DataFrame, selection: Selection) -> pd.DataFrame:
    """Rows of `Diagnosis.steps` of the selected ranks and steps, or all if there are none."""
    inside = pd.Series(data=True, index=steps.index)
    if selection.ranks:
        inside &= steps["rank"].isin(selection.ranks)
    if selection.steps:
        inside &= steps["step"].isin(selection.steps)
    return steps[inside] if inside.any() else steps


def _mean(table: pd.DataFrame, each: BudgetClass) -> float:
    return float(table[f"{each.name}_ns"].mean())


def _part(
    each: BudgetClass, ns: float, all_ns: float, whole_ns: float, longest_ns: float
) -> BudgetPart:
    return BudgetPart(
        name=each.name,
        label=each.label,
        text=_in_unit(ns / time_unit(whole_ns).ns),
        said=f"{each.label}: {duration(ns)}, {percent(100 * ns / whole_ns)}",
        color=CLASS_COLORS[each.name],
        ink=CLASS_INK.get(each.name, "#FFFFFF"),
        fill=class_fill(each.name),
        share=ns / longest_ns,
        all_share=all_ns / longest_ns,
        show=None,
        tab=_TABS[each.name],
    )


def _in_unit(value: float) -> str:
    """Three digits but at most two decimals, to compare the parts of a bar; empty below 0.005."""
    return number(value) if value >= 1 else f"{value:.2f}" if value >= _LEAST else ""


def _show(name: str, found: Diagnosis, findings: Sequence[FindingRow]) -> dict[str, object] | None:
    rows = zip(found, findings, strict=True)
    return next((row["show"] for each, row in rows if class_of(each.cause).name == name), None)


def _whose(table: pd.DataFrame, found: Diagnosis, selection: Selection, where: str) -> str:
    """What the bar is the mean of, and its length."""
    own = table["rank"].unique().tolist()
    steps = table["step"].unique().tolist()
    has_steps = steps != [NO_STEP] and not where
    window_ns = selection.window_ns if where else None
    whose = f"rank {own[0]}"
    if len(own) > 1:
        whose = (
            f"{len(own)} ranks" if len(own) == len(found.ranks) else f"ranks {number_ranges(own)}"
        )
    of = f"mean of {whose}" if len(own) > 1 else whose
    if has_steps:
        of += f", {counted(len(steps), f'{found.phase} step'.strip())}"
    of += where
    whole_ns = float(table["period_ns"].mean())
    said = f"{of}, in {time_unit(whole_ns).symbol}; total {duration(whole_ns)}"
    said += " with the profiler" if found.profiler_ns else ""
    if window_ns and window_ns[1] - window_ns[0] > APART * whole_ns:
        other = f"in no {found.phase} step" if found.phase else "not analysed"
        said += f", the other {duration(window_ns[1] - window_ns[0] - whole_ns)} is {other}"
    is_all = not where and len(table) == len(found.steps)
    if is_all and found.step_ns > APART * whole_ns:
        said += (
            f" of the {duration(found.step_ns)} from the first rank's start to the last one's end"
        )
    return said
