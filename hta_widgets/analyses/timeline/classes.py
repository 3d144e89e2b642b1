"""Classes of the time in lanes: the classes of the budget, and kinds of CPU calls."""

from __future__ import annotations

from typing import Final

from hta_widgets.analyses.budget.classes import BUDGET, BUDGET_CLASSES

HIDDEN: Final = "hidden"
"""Communication while the device computes or copies."""

LEAD_IN: Final = "lead_in"
"""Time in which the device does work launched before the recording, which the trace lacks."""

PHASE_CLASSES: Final = ("forward", "backward", "optimizer")
CALL_CLASSES: Final = ("operator", "range", "module", "launch_call", "blocking_call")

CLASSES: Final = (*BUDGET_CLASSES, LEAD_IN, HIDDEN, *PHASE_CLASSES, *CALL_CLASSES)

LABELS: Final = {
    **{each.name: each.short for each in BUDGET},
    HIDDEN: "hidden communication",
    LEAD_IN: "busy with work launched before the recording",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "operator": "operator",
    "range": "annotated range",
    "module": "module",
    "launch_call": "launch or other API call",
    "blocking_call": "blocking call",
}
"""Names of classes on screen."""

CODE: Final = {name: code for code, name in enumerate(CLASSES)}
