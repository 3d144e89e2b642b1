"""Where the time of each step goes, in classes that add up to it."""

from hta_widgets.analyses.step_table.analysis import (
    CLASS_LABELS,
    STEP_CLASSES,
    StepTable,
    step_table,
)

__all__ = ["CLASS_LABELS", "STEP_CLASSES", "StepTable", "step_table"]
