"""A view synced to the browser: computed when something has changed, once per request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic

import anywidget
from traitlets import Bool, Int, TraitError

from hta_widgets.panels.base.actions import reason
from hta_widgets.panels.base.lock import PANEL_LOCK, locked
from hta_widgets.panels.base.memoize import MemoizeLast
from hta_widgets.panels.base.protocol import View
from hta_widgets.panels.base.rendered_view import RenderedView, ResultT
from hta_widgets.panels.base.traits import typed_dict
from hta_widgets.panels.base.view import as_text

NOTHING_YET: View = {
    "rev": 0,
    "finding": "",
    "notices": [],
    "empty": None,
    "error": None,
    "figures": [],
    "table": None,
}


class SyncedView(anywidget.AnyWidget, Generic[ResultT]):
    """Keeps `_view` up to date; subclasses render it.

    The browser sends values with the number of the request, `_req`, and waits for the view of that
    number. A widget that is not visible is rendered when it becomes visible, or when the browser or
    Python asks for its view.
    """

    _view = typed_dict(NOTHING_YET).tag(sync=True, to_json=as_text)
    _req = Int(0).tag(sync=True, echo_update=False)
    _visible = Bool(True).tag(sync=True, echo_update=False)

    _ipython_display_ = None
    """That of ipywidgets 7 would be used instead of `_repr_mimebundle_`, and has no HTML."""

    def __init__(self, **traits: Any) -> None:  # noqa: ANN401
        self._memo = MemoizeLast()
        self._holds = 0
        self._outdated = True
        self._rendered: RenderedView[ResultT] | None = None
        self._failure: Exception | None = None
        self._refused: str | None = None
        super().__init__(**traits)
        self.observe(lambda _: self._update(), ["_req", "_visible"])

    def _render(self) -> RenderedView[ResultT]:
        raise NotImplementedError

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Set several parameters with one recomputation, when the block ends.

        Examples
        --------
        >>> with panel.hold():  # doctest: +SKIP
        ...     panel.num_kernels = 5
        ...     panel.duration_ratio = 0.5
        """
        with PANEL_LOCK:
            self._holds += 1
            try:
                yield
            finally:
                self._holds -= 1
                self._update()

    def open(self) -> None:
        """Compute before the first message, so that it includes the charts."""
        self._update()
        super().open()

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Apply a message from the browser, which gets exactly one new view."""
        with self.hold():
            try:
                super().set_state(sync_data)
            except TraitError as error:
                # traitlets has rolled back the whole message; the browser waits for its number.
                self._refused = str(error)
                self._req = sync_data.get("_req", self._req)
                self.send_state([name for name in sync_data if not name.startswith("_")])

    def _outdate(self, _: object) -> None:
        self._outdated = True
        self._update()

    @locked
    def _update(self) -> None:
        requested = self._req > self._view["rev"]
        if self._holds:
            return
        if self._outdated and (self._visible or requested):
            self._compute()
        elif requested or self._refused:
            self._publish({**self._view, "rev": self._req, "error": self._error()})

    @locked
    def _current(self) -> RenderedView[ResultT]:
        if self._outdated:
            self._compute()
        if self._rendered is None or self._failure:
            raise self._failure or RuntimeError("nothing has been computed yet")
        return self._rendered

    def _compute(self) -> None:
        self._outdated = False
        try:
            rendered = self._rendered = self._render()
        except Exception as failure:  # noqa: BLE001  # it is shown in the panel
            self._failure = failure
            self._publish({**self._view, "rev": self._req, "error": self._error()})
        else:
            self._failure = None
            self._publish(rendered.view(self._memo, rev=self._req, error=self._error()))

    def _publish(self, view: View) -> None:
        self._refused = None
        self._view = view

    def _error(self) -> str | None:
        failure = self._failure
        return self._refused or (reason(failure) if failure else None)
