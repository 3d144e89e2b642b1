"""The budget of a step: what its time is spent on, with each instant counted once."""

from __future__ import annotations

from typing import Final

import pandas as pd

from hta_widgets.analyses.budget.classes import BUDGET, BudgetClass
from hta_widgets.diagnosis.causes import ALL_CAUSES
from hta_widgets.diagnosis.gpu_bound import BY_RATE
from hta_widgets.errors import ParameterError

_HOST_DOES: Final = {
    "gap_op_ns": "launch",
    "gap_init_ns": "initialising",
    "gap_pause_ns": "stalls",
    "gap_alloc_ns": "allocation",
    "gap_step_ns": "between steps",
}
"""What keeps the host from launching, by the part of the class that it takes."""

WORTH_NAMING: Final = 0.2
"""Share of the class from which a part is named: of 951 ms, 630 were initialising, and 298 a pause
that no finding explains."""


def named_classes(steps: pd.DataFrame, *, lost_most: bool = False) -> list[BudgetClass]:
    """The classes as shown on screen for a job with some `Diagnosis.steps`.

    If most events are not in the traces (`JobHealth.lost_most`), other idle time may be none.

    The two largest parts of late launches say what the host does meanwhile: a host that initialises
    for 12 s is not slow to launch, and one that launches for 2.5 of 9 ms does not just initialise.
    """
    parts = steps[[*_HOST_DOES]].sum().rename(_HOST_DOES)
    worth_naming = parts[parts > WORTH_NAMING * parts.sum()]
    does = " and ".join(worth_naming.nlargest(2).index) or "launch"
    idle = {"other_idle": "looks idle"} if lost_most else {}
    return [
        each._replace(label=f"{each.short}: {does}")
        if each.name == "late_launching"
        else each._replace(label=idle.get(each.name, each.label))
        for each in BUDGET
    ]


def class_of(cause: str) -> BudgetClass:
    """The class of time that counts a cause, by name of the cause.

    Raises
    ------
    ParameterError
        If no cause has the name.
    """
    seen_in = {each.name: each.seen_in for each in (*ALL_CAUSES, *BY_RATE)}
    if cause not in seen_in:
        msg = f"no cause is called {cause!r}; those that a diagnosis knows are {', '.join(seen_in)}"
        raise ParameterError(msg)
    return next(each for each in BUDGET if each.name == seen_in[cause])


def budget(steps: pd.DataFrame) -> pd.DataFrame:
    """Sum up by class what the time of each step is spent on.

    Parameters
    ----------
    steps : DataFrame
        `Diagnosis.steps`, or some of its rows.

    Returns
    -------
    DataFrame
        Its rows with ``rank``, ``step``, ``period_ns``, ``own_ns``, and for each of `BUDGET` its
        name and ``_ns``, of int64, which add up to ``period_ns`` exactly: ``compute`` (computation,
        CUDA graphs and work of unknown type), ``transfer`` (communication that moves data,
        without computation or copies), ``communication`` (the same where its waiting is not known),
        ``waiting`` (communication that waits for others), ``copies`` (copies and memsets without
        computation), and of the idle time ``late_launching`` (the host launches too slowly, is
        interrupted, allocates or initialises), ``late_synchronising`` (it catches up after a
        blocking call), ``data_loading``, and ``other_idle`` (work that is launched is held back,
        or the profiler takes the time).
    """
    columns = {name: steps[name] for name in ("rank", "step", "period_ns", "own_ns")}
    sums = {f"{each.name}_ns": sum(steps[name] for name in each.columns) for each in BUDGET}
    return pd.DataFrame(columns | sums, index=steps.index)
