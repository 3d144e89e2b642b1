"""Base class of every widget: it closes without leftovers, and checks messages from the browser."""

from __future__ import annotations

import json
import logging
from difflib import get_close_matches
from inspect import getattr_static, isroutine
from typing import Any, ClassVar

import anywidget
import ipywidgets
from traitlets import Instance, TraitError

from hta_widgets.panels.base.any_widget import AnyWidget

_SHOWN, _LONGEST = 80, 300
"""Maximum characters of a refused value, and of the message about it."""

_METHODS = ("update", "request_state", "custom")
"""Methods that ipywidgets' protocol lets a page send."""

_ALIKE = 0.75
"""Similarity (1 is equal) from which an unknown name counts as a typo of a known one."""

_log = logging.getLogger(__name__)


class Widget(AnyWidget):
    """A widget that ipywidgets forgets completely once it is closed.

    A malformed message from a browser is refused as a whole, with an explanation.
    """

    from_browser: ClassVar[frozenset[str]] = frozenset()
    """Private traits that a browser may set; only Python may set the others."""

    _own_layout = Instance(ipywidgets.Layout, allow_none=True)

    def __init__(self, **traits: Any) -> None:  # noqa: ANN401
        is_given = isinstance(traits.get("layout"), ipywidgets.Layout)
        super().__init__(**traits)
        self._own_layout = None if is_given else self.layout

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse a typo such as ``panel.num_kernel = 7``, which would silently have no effect.

        A name that resembles no known one is set, as on any Python object.
        """
        kind = type(self)
        is_new = not (name.startswith("_") or hasattr(kind, name) or name in self.__dict__)
        if is_new and self.comm is not None:
            public = [each for each in dir(kind) if not each.startswith("_")]
            values = [each for each in public if not isroutine(getattr_static(kind, each))]
            if near := get_close_matches(name, values, cutoff=_ALIKE):
                msg = f"{kind.__name__} has no {name}; did you mean {' or '.join(near)}?"
                raise AttributeError(msg)
        super().__setattr__(name, value)

    def close(self) -> None:
        """Close the widget, and its layout unless it was given one."""
        super().close()
        if self._own_layout is not None:
            self._own_layout.close()

    def __del__(self) -> None:
        """Close a widget that is no longer referenced.

        A widget whose construction failed was never open, and may lack what `close` needs.
        """
        if self.comm is not None:
            super().__del__()

    def compute_all(self) -> None:
        """Bring everything the widget can show up to date, even if no page shows it now.

        Reports need this. It is called on the widgets that this one refers to as well.
        """

    def report_state(self) -> dict[str, Any]:
        """Values, possibly bytes, that a report needs in addition to the synced traits.

        They are, for example, answers to what a page would ask.
        """
        return {}

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Apply a message from the browser, or refuse it."""
        problem = self._problem(sync_data)
        if problem is None:
            try:
                known = {name: each for name, each in sync_data.items() if name in self.keys}
                super().set_state(known)
            except TraitError as error:  # traitlets has rolled back the whole message
                problem = _cut(str(error), _LONGEST)
        if problem is not None:
            self._refuse(sync_data if isinstance(sync_data, dict) else {}, problem)

    def _refuse(self, message: dict[str, Any], problem: str) -> None:  # noqa: ARG002
        _log.warning("%s refuses a message: %s", type(self).__name__, problem)

    def _problem(self, message: object) -> str | None:
        """Say what is wrong with a message before any of it is applied."""
        if not isinstance(message, dict):
            return f"a message must hold values by name, got {_shown(message)}"
        if (problem := _not_json(message)) is not None:
            return problem
        for name, value in message.items():
            if name in self._set_by_python():
                return f"only Python can set {name}"
            if name == "layout" and not isinstance(value, str):
                return f"layout must be a reference to a widget, got {_shown(value)}"
            try:
                self.trait_metadata(name, "from_json", _unchanged)(value, self)
            except Exception:  # noqa: BLE001  # a value of the wrong type can raise anything
                return f"{name} cannot be {_shown(value)}"
        return None

    def _set_by_python(self) -> set[str]:
        ours = set(self.keys) - set(anywidget.AnyWidget.class_trait_names())
        private = {name for name in ours if name.startswith("_")} - self.from_browser
        return private | {name for name in ours if self.traits()[name].read_only}

    def _handle_msg(self, msg: dict[str, Any]) -> None:
        """Handle a message from a browser; ipywidgets would trust its content."""
        data = msg["content"]["data"]
        problem = _not_json(data)
        if problem is None and not (isinstance(data, dict) and data.get("method") in _METHODS):
            problem = f"the method must be one of {', '.join(_METHODS)}, got {_shown(data)}"
        if problem is None and data["method"] == "update":
            problem = "a value cannot be bytes" if data.get("buffer_paths") else None
            data = {**data, "buffer_paths": []}
        if problem is None:
            super()._handle_msg({**msg, "content": {**msg["content"], "data": data}})
        else:
            self._refuse({}, problem)


def _not_json(message: object) -> str | None:
    """Say why a message could not be sent back: NaN or half a surrogate pair, for example.

    Numbers too large for a float are refused too: a page has none, and float traits fail on them.
    """
    try:
        text = json.dumps(message, allow_nan=False, ensure_ascii=False)
        text.encode()
        json.loads(text, parse_int=lambda digits: float(int(digits)))
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        return _cut(f"a message must be UTF-8 JSON with 64-bit numbers: {error}", _LONGEST)
    return None


def _unchanged(value: object, _: object) -> object:
    return value


def _shown(value: object) -> str:
    return _cut(repr(value), _SHOWN)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
