"""What a comparison of two jobs says: its sentence and its notices."""

from __future__ import annotations

import pandas as pd

from hta_widgets.analyses.compare.sides import Sides
from hta_widgets.names.shorten import distinct_names
from hta_widgets.quantities import duration, percent

_ALIKE_PERCENT = 0.05


def comparison_notices(sides: Sides, *, per_step: bool) -> tuple[str, ...]:
    """How much each job recorded, what it lacks, and whether to compare per step."""
    steps = {side.recording.steps / side.recording.ranks for side in sides}
    have_steps = all(side.recording.all_have_steps for side in sides)
    advice = (
        "the jobs have different numbers of ProfilerSteps; per_step=True compares them per step"
    )
    said = [notice for side in sides for notice in side.notices()]
    return (*([advice] if len(steps) > 1 and have_steps and not per_step else []), *said)


def comparison_finding(sides: Sides, times: pd.DataFrame, kernels: pd.DataFrame, unit: str) -> str:
    """Sentence on how long both take, and on the kernels that change most."""
    span = times[times["time"] == "span"]
    first_ns, second_ns = float(span["first_ns"].iloc[0]), float(span["second_ns"].iloc[0])
    idle = [side.name for side, ns in zip(sides, (first_ns, second_ns), strict=True) if not ns]
    if idle:
        return f"There is no GPU work in {' and '.join(idle)}, so there is nothing to compare."
    change = 100 * (second_ns / first_ns - 1)
    names, per = [side.name for side in sides], f" {unit}" if unit else ""
    clock = f"{per}, from the first to the last GPU operation."
    changes = _largest_changes(kernels)
    if abs(change) < _ALIKE_PERCENT:
        took = f"{names[1]} takes as long as {names[0]}: {duration(second_ns)}"
        return f"{took}{clock}{changes}"
    takes = f"takes {percent(abs(change))} {'longer' if change > 0 else 'less time'} than"
    return (
        f"{names[1]} {takes} {names[0]}: {duration(second_ns)} instead of {duration(first_ns)}"
        f"{clock}{changes}"
    )


def _largest_changes(kernels: pd.DataFrame) -> str:
    """Sentence on the kernels with the largest increase and decrease; empty without changes."""
    changes = kernels["delta_total_ns"]
    more, less = kernels[changes > 0].head(1), kernels[changes < 0].head(1)
    largest = pd.concat([more, less])
    labels = distinct_names(largest["kernel"].tolist())
    said = [
        f"increase: {label} (+{duration(ns)})"
        if ns > 0
        else f"decrease: {label} (−{duration(-ns)})"
        for label, ns in zip(labels, largest["delta_total_ns"].tolist(), strict=True)
    ]
    return f" Largest {'; largest '.join(said)}." if said else ""
