"""Base of every widget: what it leaves behind, and what it takes from a browser."""

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
"""Characters of a value that is refused, and of the words about it."""

_METHODS = ("update", "request_state", "custom")
"""What ipywidgets' protocol lets a page send."""

_ALIKE = 0.75
"""How alike (1 is equal) a name is to one that there is, to be a slip of it."""

_log = logging.getLogger(__name__)


class Widget(AnyWidget):
    """A widget of which ipywidgets keeps nothing once it is closed.

    A message from a browser that makes no sense is refused as a whole, and said in words.
    """

    from_browser: ClassVar[frozenset[str]] = frozenset()
    """Private traits that a browser sets; the others only Python does."""

    _own_layout = Instance(ipywidgets.Layout, allow_none=True)

    def __init__(self, **traits: Any) -> None:  # noqa: ANN401
        is_given = isinstance(traits.get("layout"), ipywidgets.Layout)
        super().__init__(**traits)
        self._own_layout = None if is_given else self.layout

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse a slip such as ``panel.num_kernel = 7``, after which nothing would change.

        What is unlike all names that there are is kept, as on any object of Python.
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
        """Close a widget that nobody holds any more.

        One of which the making failed was never open, and may lack what `close` needs.
        """
        if self.comm is not None:
            super().__del__()

    def compute_all(self) -> None:
        """Bring all that the widget may show up to date, also what no page shows now.

        A report is made of it. Widgets that this one refers to are asked themselves.
        """

    def report_state(self) -> dict[str, Any]:
        """Values that only a report has, beside the synced traits; bytes may be among them.

        Such as answers to what a page would ask.
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
            return f"a message holds values by name, got {_shown(message)}"
        if (problem := _not_json(message)) is not None:
            return problem
        for name, value in message.items():
            if name in self._set_by_python():
                return f"{name} is set by Python only"
            if name == "layout" and not isinstance(value, str):
                return f"layout is a reference to a widget, got {_shown(value)}"
            try:
                self.trait_metadata(name, "from_json", _unchanged)(value, self)
            except Exception:  # noqa: BLE001  # whatever a value of a wrong kind leads to
                return f"{name} cannot be {_shown(value)}"
        return None

    def _set_by_python(self) -> set[str]:
        ours = set(self.keys) - set(anywidget.AnyWidget.class_trait_names())
        private = {name for name in ours if name.startswith("_")} - self.from_browser
        return private | {name for name in ours if self.traits()[name].read_only}

    def _handle_msg(self, msg: dict[str, Any]) -> None:
        """Take a message from a browser; ipywidgets expects that it is what its own page sends."""
        data = msg["content"]["data"]
        problem = _not_json(data)
        if problem is None and not (isinstance(data, dict) and data.get("method") in _METHODS):
            problem = f"a message has one of the methods {', '.join(_METHODS)}, got {_shown(data)}"
        if problem is None and data["method"] == "update":
            problem = "no value is bytes" if data.get("buffer_paths") else None
            data = {**data, "buffer_paths": []}
        if problem is None:
            super()._handle_msg({**msg, "content": {**msg["content"], "data": data}})
        else:
            self._refuse({}, problem)


def _not_json(message: object) -> str | None:
    """Say why what came could not be sent back, as NaN and half a surrogate pair cannot.

    Nor are there numbers in a page that no float holds: a trait of type float fails on them.
    """
    try:
        text = json.dumps(message, allow_nan=False, ensure_ascii=False)
        text.encode()
        json.loads(text, parse_int=lambda digits: float(int(digits)))
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        return _cut(f"a message is JSON in UTF-8, with numbers of 64 bits: {error}", _LONGEST)
    return None


def _unchanged(value: object, _: object) -> object:
    return value


def _shown(value: object) -> str:
    return _cut(repr(value), _SHOWN)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
