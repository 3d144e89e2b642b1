"""The budget of a step: what its time is spent on, each instant counted once."""

from __future__ import annotations

from typing import Final, NamedTuple

import pandas as pd

from hta_widgets.analyses.diagnosis.vocabulary import Cause
from hta_widgets.errors import ParameterError


class BudgetClass(NamedTuple):
    """A class of the time of a step.

    Attributes
    ----------
    name : str
    label : str
        As on screen.
    columns : tuple of str
        Columns of `Diagnosis.steps` that it sums up.
    causes : tuple of str
        Causes of lost time that are seen in it.
    """

    name: str
    label: str
    columns: tuple[str, ...]
    causes: tuple[Cause, ...] = ()


BUDGET: Final = (
    BudgetClass(
        "compute", "compute", ("compute_ns",), ("unfused_elementwise", "no_tensor_cores", "warm_up")
    ),
    BudgetClass(
        "transfer",
        "transfer",
        ("transfer_ns", "transfer_p2p_ns"),
        ("exposed_communication", "slow_link"),
    ),
    BudgetClass("communication", "communication", ("undivided_ns",)),
    BudgetClass(
        "waiting",
        "waiting",
        ("wait_ns", "wait_p2p_ns"),
        (
            *("slow_gpu", "gpu_throttling", "workload_imbalance", "missing_rank"),
            *("pipeline_bubble", "stage_imbalance", "expert_imbalance"),
        ),
    ),
    BudgetClass("copies", "copies and memsets", ("memory_ns",), ("slow_host_copies",)),
    BudgetClass(
        "late_launching",
        "CPU late: launching",
        ("gap_op_ns", "gap_pause_ns", "gap_alloc_ns", "gap_init_ns"),
        ("launch_bound", "host_pause", "allocator_retries", "autotuning"),
    ),
    BudgetClass(
        "late_synchronising",
        "CPU late: after a blocking call",
        ("gap_sync_ns",),
        ("blocking_sync",),
    ),
    BudgetClass("data_loading", "data loading", ("gap_loader_ns",), ("input_starvation",)),
    BudgetClass(
        "other_idle", "other idle", ("gap_profiler_ns", "gap_depend_ns"), ("profiler_overhead",)
    ),
)
"""Disjoint; together they are the time of a step."""


def class_of(cause: Cause) -> BudgetClass:
    """The class of time that a cause is seen in.

    Raises
    ------
    ParameterError
        If no class of `BUDGET` has it, as of a new cause.
    """
    found = {each: of_class for of_class in BUDGET for each in of_class.causes}
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


budget.__dict__ = globals()
"""As for `hta_widgets.analyses`: the package shows this function under the name of its module."""
