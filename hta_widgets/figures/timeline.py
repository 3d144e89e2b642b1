"""How the lanes of the timeline look."""

from __future__ import annotations

from typing import Final, Literal, TypedDict

from hta_widgets.analyses.budget.classes import BUDGET_CLASSES
from hta_widgets.analyses.timeline.classes import (
    CALL_CLASSES,
    CLASSES,
    HIDDEN,
    LABELS,
    LEAD_IN,
    PHASE_CLASSES,
)
from hta_widgets.diagnosis.replay.host_work import HOST_WORK
from hta_widgets.diagnosis.replay.pieces import CLASSES as PATH_CLASSES
from hta_widgets.figures.base.style import CLASS_COLORS, OVERLAPPED, Fill, class_fill
from hta_widgets.figures.critical_path import LOOK

Group = Literal["busy", "idle", "rail", "phase", "call"]

_PHASES: Final = ("#7F93A0", "#5F7687", "#938564")
_CALLS: Final = ("#848C94", "#7F93A0", "#938564", "#5F6B76", CLASS_COLORS["late_synchronising"])


_LIKE: Final = LOOK | {
    "communication": "communication",
    **dict.fromkeys(
        ("kernel start", "dependency", "room on the GPU", "before the recording"), "other_idle"
    ),
}
"""Class of the budget in the colour of which each class of the critical path is drawn.

Where the chart of the path counts waiting to what sets the pace, a lane shows that nothing runs."""


class ClassLook(TypedDict):
    """A class of time: how it is called and drawn.

    `group` tells what stands out: what the GPU does (``busy``) before what it waits for (``idle``);
    the ``rail`` lies below, phases and CPU calls have lanes of their own. Of the critical path, a
    ``call`` is what the host does until it calls something.
    """

    name: str
    label: str
    color: str
    fill: Fill
    group: Group


def class_looks() -> list[ClassLook]:
    """The look of each of `CLASSES`, in their order, then of the classes of the critical path."""
    return [*map(_look, CLASSES), *map(_path_look, PATH_CLASSES)]


def _look(name: str) -> ClassLook:
    return {
        "name": name,
        "label": LABELS[name],
        "color": _color(name),
        "fill": _fill(name),
        "group": _group(name),
    }


def _path_look(name: str) -> ClassLook:
    """Filled, as a piece of the path is there for all of its time, whether the GPU works or not."""
    fill = class_fill(_LIKE[name])
    return {
        "name": f"path {name}",
        "label": name,
        "color": CLASS_COLORS[_LIKE[name]],
        "fill": "solid" if fill == "outline" else fill,
        "group": "call" if name in ("host", *HOST_WORK) else "busy",
    }


def _color(name: str) -> str:
    if name in PHASE_CLASSES:
        return _PHASES[PHASE_CLASSES.index(name)]
    if name in CALL_CLASSES:
        return _CALLS[CALL_CLASSES.index(name)]
    if name == LEAD_IN:
        return CLASS_COLORS["other_idle"]
    return OVERLAPPED if name == HIDDEN else CLASS_COLORS[name]


def _fill(name: str) -> Fill:
    if name in ("blocking_call", LEAD_IN):
        return "hatched"
    return class_fill(name)


def _group(name: str) -> Group:
    if name in PHASE_CLASSES:
        return "phase"
    if name in CALL_CLASSES:
        return "call"
    if name == HIDDEN:
        return "rail"
    if name == LEAD_IN:
        return "idle"
    return "busy" if BUDGET_CLASSES.index(name) < BUDGET_CLASSES.index("late_launching") else "idle"
