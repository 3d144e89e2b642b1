"""Look of the timeline's lanes: the colour and fill of each class of time."""

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
"""Budget class whose colour each class of the critical path takes.

The chart of the path counts waiting as part of what bounds a step; a lane shows that nothing runs.
"""


class ClassLook(TypedDict):
    """Name and look of a class of time.

    `group` sets the emphasis: what the GPU does (``busy``) stands out from what it waits for
    (``idle``); the ``rail`` lies below; phases and CPU calls have lanes of their own. On the
    critical path, ``call`` is what the host does until it calls something.
    """

    name: str
    label: str
    color: str
    fill: Fill
    group: Group


def class_looks() -> list[ClassLook]:
    """Looks of `CLASSES`, in their order, followed by those of the critical path's classes."""
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
    """Never an outline: a piece of the path fills its time whether or not the GPU works."""
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
