"""How the lanes of the timeline look."""

from __future__ import annotations

from typing import Final, Literal, TypedDict

from hta_widgets.analyses.timeline.classes import (
    BUDGET_CLASSES,
    CALL_CLASSES,
    CLASSES,
    HIDDEN,
    LABELS,
    PHASE_CLASSES,
)
from hta_widgets.figures.base.style import CLASS_COLORS, OVERLAPPED, Fill, class_fill

Group = Literal["busy", "idle", "rail", "phase", "call"]

_PHASES: Final = ("#7F93A0", "#5F7687", "#938564")
_CALLS: Final = ("#848C94", "#7F93A0", "#938564", "#5F6B76", CLASS_COLORS["late_synchronising"])


class ClassLook(TypedDict):
    """A class of time: how it is called and drawn.

    `group` tells what stands out: what the GPU does (``busy``) before what it waits for (``idle``);
    the ``rail`` lies below, phases and CPU calls have lanes of their own.
    """

    name: str
    label: str
    color: str
    fill: Fill
    group: Group


def class_looks() -> list[ClassLook]:
    """The look of each of `CLASSES`, in their order."""
    return [
        {
            "name": name,
            "label": LABELS[name],
            "color": _color(name),
            "fill": _fill(name),
            "group": _group(name),
        }
        for name in CLASSES
    ]


def _color(name: str) -> str:
    if name in PHASE_CLASSES:
        return _PHASES[PHASE_CLASSES.index(name)]
    if name in CALL_CLASSES:
        return _CALLS[CALL_CLASSES.index(name)]
    return OVERLAPPED if name == HIDDEN else CLASS_COLORS[name]


def _fill(name: str) -> Fill:
    if name == "blocking_call":
        return "hatched"
    return class_fill(name)


def _group(name: str) -> Group:
    if name in PHASE_CLASSES:
        return "phase"
    if name in CALL_CLASSES:
        return "call"
    if name == HIDDEN:
        return "rail"
    return "busy" if BUDGET_CLASSES.index(name) < BUDGET_CLASSES.index("late_launching") else "idle"
