"""The budget of a step: what its time is spent on, each instant counted once."""

from __future__ import annotations

from typing import Final

import pandas as pd

from hta_widgets.analyses.budget.classes import BUDGET, BudgetClass
from hta_widgets.diagnosis.vocabulary import Cause
from hta_widgets.errors import ParameterError

_CAUSES: Final[dict[str, tuple[Cause, ...]]] = {
    "compute": ("unfused_elementwise", "no_tensor_cores", "warm_up"),
    "transfer": ("exposed_communication", "slow_link"),
    "waiting": (
        *("slow_gpu", "gpu_throttling", "workload_imbalance", "missing_rank"),
        *("pipeline_bubble", "stage_imbalance", "expert_imbalance"),
    ),
    "copies": ("slow_host_copies",),
    "late_launching": ("launch_bound", "host_pause", "allocator_retries", "autotuning"),
    "late_synchronising": ("blocking_sync",),
    "data_loading": ("input_starvation",),
    "other_idle": ("profiler_overhead",),
}
"""Causes of lost time that are seen in each class of `BUDGET`."""


def class_of(cause: Cause) -> BudgetClass:
    """The class of time that a cause is seen in.

    Raises
    ------
    ParameterError
        If no class of `BUDGET` has it, as of a new cause.
    """
    classes = {each.name: each for each in BUDGET}
    found = {each: classes[name] for name, causes in _CAUSES.items() for each in causes}
    if cause not in found:
        known = ", ".join(found)
        msg = f"no class of BUDGET has the cause {cause!r}: add it to one; those in one are {known}"
        raise ParameterError(msg)
    return found[cause]


def budget(steps: pd.DataFrame) -> pd.DataFrame:
    """Sum up what the time of each step is spent on.

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
