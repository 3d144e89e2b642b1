"""A widget and everything it refers to, computed and turned into plain data.

`js/src/report/decode.ts` reads this data.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, Final, TypeAlias, TypedDict

import ipywidgets

from hta_widgets.panels.base.widget import Widget
from hta_widgets.progress import counted_bar

SAVED: Final = "_saved"
"""State key that marks a model without a kernel; `js/src/saved.ts` reads it."""

_OF_THE_HOST: Final = frozenset(
    {"layout", "tabbable", "tooltip", "_dom_classes", "_anywidget_id", "_visible"}
)
_OF_ASSISTANTS: Final = "verdict"
_MODULE: Final = "_esm"
_WIDTHS: Final = (8, 4, 1)

_Found: TypeAlias = tuple[list[str | int], bytes]
_OF_IPYWIDGETS: Final = ("_model_", "_view_")


class SavedBuffer(TypedDict):
    """A place in a state, and how many of the bytes after all states belong there."""

    path: list[str | int]
    size: int


class SavedModel(TypedDict):
    """State of a widget, and the bytes left out of it."""

    state: dict[str, Any]
    buffers: list[SavedBuffer]


def completed(root: Widget, *, progress: bool = False) -> list[ipywidgets.Widget]:
    """Compute a widget and everything it refers to, even if no page shows it, and return them."""
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
    """A widget and all widgets reachable through synced traits, each once."""
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


def saved_models(widgets: list[ipywidgets.Widget]) -> bytes:
    """States of widgets as JSON, followed by a zero byte and the bytes of the states.

    Widgets refer to each other by their position in the list, and share the module of the first.
    Equal states give equal bytes, whatever ids the kernel gave the widgets.
    """
    states = ipywidgets.Widget.get_manager_state(drop_defaults=False, widgets=widgets)["state"]
    parts: list[bytes] = []
    models = [_saved(states[widget.model_id], _only_here(widget), parts) for widget in widgets]
    for each in models[1:]:
        each["state"].pop(_MODULE, None)
    text = json.dumps(models, allow_nan=False, separators=(",", ":"), sort_keys=True)
    for place, widget in enumerate(widgets):
        text = text.replace(f"anywidget:{widget.model_id}", f"anywidget:{place}")
    return b"".join([text.encode("utf-8", "replace"), b"\0", *map(_in_planes, parts)])


def _in_planes(content: bytes) -> bytes:
    """The first byte of each number, then the second, and so on: similar numbers pack better so.

    Numbers have 8 bytes if the length is a multiple of 8, else 4 if of 4, else 1.
    """
    width = next(each for each in _WIDTHS if len(content) % each == 0)
    return b"".join(content[first::width] for first in range(width))


def _only_here(widget: ipywidgets.Widget) -> dict[str, Any]:
    return widget.report_state() if isinstance(widget, Widget) else {}


def _saved(embedded: dict[str, Any], more: dict[str, Any], parts: list[bytes]) -> SavedModel:
    state = {name: value for name, value in embedded["state"].items() if not _is_of_host(name)}
    given = embedded.get("buffers", [])
    found = [(each["path"], base64.b64decode(each["data"])) for each in given]
    added = {name: _without_bytes(value, [name], found) for name, value in more.items()}
    parts += [content for _, content in found]
    buffers: list[SavedBuffer] = [{"path": path, "size": len(each)} for path, each in found]
    return {"state": {**state, **added, SAVED: True}, "buffers": buffers}


def _without_bytes(value: Any, path: list[str | int], found: list[_Found]) -> Any:  # noqa: ANN401
    """The value with null in place of bytes, which are appended to `found`."""
    if isinstance(value, bytes):
        found.append((path, value))
        return None
    if isinstance(value, dict):
        return {key: _without_bytes(each, [*path, key], found) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_bytes(each, [*path, place], found) for place, each in enumerate(value)]
    return value


def _is_of_host(name: str) -> bool:
    return name in {*_OF_THE_HOST, _OF_ASSISTANTS} or name.startswith(_OF_IPYWIDGETS)
