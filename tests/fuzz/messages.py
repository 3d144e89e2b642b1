"""Messages of a page to the widgets of a job, and odd ones made of them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from random import Random
from typing import Any

from traitlets import Bool, Enum, Float, Int, List, Unicode

from hta_widgets.panels import Dashboard, Panel
from hta_widgets.panels.base.table import ROWS, TEXT
from hta_widgets.panels.base.traits import Integers, Texts
from hta_widgets.panels.base.widget import Widget
from hta_widgets.panels.timeline import TimelinePanel

ODD: list[Any] = [
    *(None, True, False, 0, -1, 1.5, -0.0, float("nan"), float("inf"), 1e300, 10**400, 2**53),
    *(2**63, -(2**63), "", "x", "9" * 5_000, "\ud800", "/a(/", "/[/", "<img src=x>", "../x"),
    *([], {}, [None], [[]], [99], [0, 99], [-1], [10**30], ["0"], {"a": {"b": [1]}}, {"self": 1}),
    *([1, 2, 3], [5, 5], [9, 3], [0, 10**9], "IPY_MODEL_unknown", "anywidget:other", b"bytes"),
    *("ranks", "update", [0, "rank", 0], [[0, "rank", 0]], [[99, "rank", 0]], ["queue", "x"]),
]
"""Values that a page has no reason to send; JSON as Python reads it, NaN and bytes included."""

NAMES = [
    *("ranks", "streams", "kernel", "operators", "shapes", "modules", "phase", "steps"),
    *("window_ns", "finding", "self", "layout", "tab", "_req", "_visible", "_view", "_action"),
    *("kind", "id", "method", "state", "content", "buffer_paths", "rank", "row", "lanes", "act"),
]
_ORDER: dict[str, Any] = {"id": "1", "sort": "", "descending": False, "filter": ""}
_ABOUT_TABLE: list[dict[str, Any]] = [
    {**_ORDER, "kind": ROWS, "first": 0, "count": 5},
    {**_ORDER, "kind": TEXT, "style": "csv", "offset": 0},
]
_TIMELINE: list[dict[str, Any]] = [
    {"kind": "window", "lanes": [[0, "rank", 0]], "start": 0, "end": 10**7, "pixels": 9, "id": 1},
    {"kind": "bands", "ranks": [0], "start": 0, "end": 10**7, "pixels": 9, "id": 1},
    {"kind": "lanes", "rank": 0, "id": 1},
    {"kind": "added", "rank": 0, "lanes": ["queue", "modules"], "id": 1},
    {"kind": "kinds", "id": 1},
    {"kind": "event", "rank": 0, "row": 5, "id": 1},
    {"kind": "next", "rank": 0, "row": 5, "key": "rank", "forward": True, "id": 1},
    {"kind": "first", "rank": 0, "time": 5, "key": "rank", "forward": False, "id": 1},
]
_ACTS = [{"act": act} for act in ("undo", "next", "previous", "search", "nothing")]


def message(random: Random, widget: Widget, texts: Sequence[str]) -> Any:
    """What ipykernel hands over: a message that a page may send, most of them with odd parts.

    Parameters
    ----------
    random : Random
    widget : Widget
        Whom it is for.
    texts : sequence of str
        Names that occur in the job.
    """
    data, buffers = _sound(random, widget, texts), [b"x"] * random.choice([0, 0, 0, 1])
    for _ in range(random.choice([0, 0, 1, 1, 1, 2, 4])):
        data = _odd(random, data)
    return {"content": {"data": data}, "buffers": buffers}


def _sound(random: Random, widget: Widget, texts: Sequence[str]) -> Any:
    kind = random.random()
    if kind < 0.03:
        return {"method": "request_state"}
    if kind < 0.4:
        return {"method": "custom", "content": _custom(random, widget)}
    public = [name for name in widget.keys if name[0] != "_" or name in widget.from_browser]
    names = random.sample(sorted(public), random.choice([1, 1, 2, 3]))
    state = {name: _suiting(random, widget, name, texts) for name in names if name != "_action"}
    if random.random() < 0.05:
        state[random.choice(sorted(widget.keys))] = "x"
    if isinstance(widget, Panel) and random.random() < 0.3:
        state["_req"] = widget._req + 1
    if isinstance(widget, Panel) and random.random() < 0.1:
        state["_action"] = {"name": random.choice([*widget.buttons, "close"]), "number": 1}
    return {"method": "update", "state": state, "buffer_paths": []}


def _custom(random: Random, widget: Widget) -> dict[str, Any]:
    sound = [*_ABOUT_TABLE]
    sound += _TIMELINE * isinstance(widget, TimelinePanel)
    sound += _ACTS * isinstance(widget, Dashboard)
    return copy.deepcopy(random.choice(sound))


def _suiting(random: Random, widget: Widget, name: str, texts: Sequence[str]) -> Any:
    """A value of a trait as a page sends it: the present one, or another of its type."""
    trait = widget.traits()[name]
    suiting: list[Any] = []
    if isinstance(trait, Enum):
        suiting = [*trait.values]
    elif isinstance(trait, Bool):
        suiting = [True, False]
    elif isinstance(trait, Int):
        suiting = [0, 1, 2, 5, 40]
    elif isinstance(trait, Float):
        suiting = [0.0, 0.25, 1.0, 30.0]
    elif isinstance(trait, (List, Integers)):
        suiting = [[], [0], [1], [0, 1], [7], [3, 9], [10**6, 2 * 10**7]]
    elif isinstance(trait, Texts):
        suiting = [[], [random.choice(texts)], random.sample(texts, 2)]
    elif isinstance(trait, Unicode):
        suiting = ["", random.choice(texts)]
    present = getattr(widget, name)
    present = [*present] if isinstance(present, (list, tuple)) else present
    is_plain = isinstance(present, (list, str, int, float, type(None)))
    return random.choice([*suiting, present if is_plain else "IPY_MODEL_x"])


def _odd(random: Random, value: Any) -> Any:
    """The value with something in it exchanged, taken away or put in, at any depth."""
    within = random.random()
    if isinstance(value, dict) and value and within < 0.95:
        name = random.choice([*value])
        if within < 0.05:
            return {each: value[each] for each in value if each != name}
        if within < 0.2:
            return {**value, random.choice(NAMES): random.choice(ODD)}
        inner = [each for each in value if isinstance(value[each], dict)]
        name = random.choice(inner) if inner and within < 0.7 else name
        return {**value, name: _odd(random, value[name])}
    if isinstance(value, list) and value and within < 0.7:
        place = random.randrange(len(value))
        return [*value[:place], _odd(random, value[place]), *value[place + 1 :]]
    return random.choice(ODD)
