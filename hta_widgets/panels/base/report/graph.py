"""A widget with all that it refers to, complete and as plain data."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, Final, TypedDict

import ipywidgets

from hta_widgets.panels.base.widget import Widget
from hta_widgets.progress import counted_bar

SAVED: Final = "_saved"
"""Key of a state that no kernel follows; `js/src/saved.ts` reads it."""

_OF_THE_HOST: Final = frozenset(
    {"layout", "tabbable", "tooltip", "_dom_classes", "_anywidget_id", "_visible"}
)
_OF_IPYWIDGETS: Final = ("_model_", "_view_")


class SavedBuffer(TypedDict):
    """Bytes of a state, and where they belong."""

    path: list[str | int]
    encoding: str
    data: str


class SavedModel(TypedDict):
    """State of a widget, and the bytes in it."""

    state: dict[str, Any]
    buffers: list[SavedBuffer]


def completed(root: Widget, *, progress: bool = False) -> list[ipywidgets.Widget]:
    """Compute a widget and all that it refers to, also what no page shows, and return them.

    Parameters
    ----------
    root : Widget
        The first of the returned widgets.
    progress : bool
        Show a progress bar where it takes long.
    """
    done: set[str] = set()
    while left := [each for each in reachable(root) if each.model_id not in done]:
        with counted_bar("computing", len(left), show=progress) as advance:
            for widget in left:
                if isinstance(widget, Widget):
                    widget.compute_all()
                advance(1)
        done.update(each.model_id for each in left)
    return reachable(root)


def reachable(root: ipywidgets.Widget) -> list[ipywidgets.Widget]:
    """A widget and those that its synced traits hold, theirs, and so on, each once."""
    found = {root.model_id: root}
    waiting = [root]
    while waiting:
        for widget in _held_by(waiting.pop(0)):
            if widget.model_id not in found:
                found[widget.model_id] = widget
                waiting.append(widget)
    return list(found.values())


def _held_by(widget: ipywidgets.Widget) -> Iterator[ipywidgets.Widget]:
    for name in sorted(widget.keys):
        if name not in _OF_THE_HOST:
            yield from _widgets_in(getattr(widget, name))


def _widgets_in(value: object) -> Iterator[ipywidgets.Widget]:
    if isinstance(value, ipywidgets.Widget):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _widgets_in(each)
    elif isinstance(value, dict):
        yield from _widgets_in(list(value.values()))


def saved_models(widgets: list[ipywidgets.Widget]) -> str:
    """States of widgets as JSON; they refer to each other by their place in the list.

    The same states give the same text, whatever the kernel has named the widgets.
    """
    states = ipywidgets.Widget.get_manager_state(drop_defaults=False, widgets=widgets)["state"]
    models = [_saved(states[widget.model_id], _only_here(widget)) for widget in widgets]
    text = json.dumps(models, allow_nan=False, separators=(",", ":"), sort_keys=True)
    for place, widget in enumerate(widgets):
        text = text.replace(f"anywidget:{widget.model_id}", f"anywidget:{place}")
    return text


def _only_here(widget: ipywidgets.Widget) -> dict[str, Any]:
    return widget.report_state() if isinstance(widget, Widget) else {}


def _saved(embedded: dict[str, Any], more: dict[str, Any]) -> SavedModel:
    state = {name: value for name, value in embedded["state"].items() if not _is_of_host(name)}
    buffers: list[SavedBuffer] = [*embedded.get("buffers", [])]
    added = {name: _without_bytes(value, [name], buffers) for name, value in more.items()}
    return {"state": {**state, **added, SAVED: True}, "buffers": buffers}


def _without_bytes(value: Any, path: list[str | int], buffers: list[SavedBuffer]) -> Any:  # noqa: ANN401
    """The value with null for bytes, which are appended to the buffers."""
    if isinstance(value, bytes):
        data = base64.b64encode(value).decode()
        buffers.append({"path": path, "encoding": "base64", "data": data})
        return None
    if isinstance(value, dict):
        return {key: _without_bytes(each, [*path, key], buffers) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_bytes(each, [*path, place], buffers) for place, each in enumerate(value)]
    return value


def _is_of_host(name: str) -> bool:
    return name in _OF_THE_HOST or name.startswith(_OF_IPYWIDGETS)
