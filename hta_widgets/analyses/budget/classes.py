"""The classes of a step's time, each instant counted once."""

from __future__ import annotations

from typing import Final, NamedTuple


class BudgetClass(NamedTuple):
    """A class of the time of a step."""

    name: str
    label: str
    """Name on screen."""
    columns: tuple[str, ...]
    """Columns of `Diagnosis.steps` that it sums up."""

    @property
    def short(self) -> str:
        """Name on screen where it is not shown what the host does."""
        return self.label.partition(":")[0]


BUDGET: Final = (
    BudgetClass("compute", "compute", ("compute_ns",)),
    BudgetClass("transfer", "transfer", ("transfer_ns", "transfer_p2p_ns")),
    BudgetClass("communication", "communication", ("undivided_ns",)),
    BudgetClass("waiting", "waiting", ("wait_ns", "wait_p2p_ns")),
    BudgetClass("copies", "copies and memsets", ("memory_ns",)),
    BudgetClass(
        "late_launching",
        "CPU-bound: launch",
        ("gap_op_ns", "gap_step_ns", "gap_pause_ns", "gap_alloc_ns", "gap_init_ns"),
    ),
    BudgetClass("late_synchronising", "sync stall", ("gap_sync_ns",)),
    BudgetClass("data_loading", "data loading", ("gap_loader_ns",)),
    BudgetClass("other_idle", "other idle", ("gap_profiler_ns", "gap_depend_ns")),
)
"""Disjoint classes that add up to the time of a step."""

BUDGET_CLASSES: Final = tuple(each.name for each in BUDGET)

CLASS_LABELS: Final = {each.name: each.label for each in BUDGET}

CLASS_OF: Final = {
    column.removesuffix("_ns"): each.name for each in BUDGET for column in each.columns
}
"""Class of each part into which a diagnosis divides a step."""

IDLE_CLASSES: Final = frozenset(name for part, name in CLASS_OF.items() if part.startswith("gap_"))
"""Classes in which the GPU does nothing."""

COLUMN_LABELS: Final = {
    f"{each.name}_{unit}": each.short for each in BUDGET for unit in ("ns", "ms")
}
"""Headings of the columns of classes in a table."""
