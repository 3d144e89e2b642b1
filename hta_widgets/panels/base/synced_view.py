"""A view synced to the browser: computed when something has changed, once per request."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic

from traitlets import Bool, Int

from hta_widgets.panels.base.actions import reason
from hta_widgets.panels.base.drawn_widget import DrawnWidget
from hta_widgets.panels.base.lock import locked
from hta_widgets.panels.base.memoize import MemoizeLast
from hta_widgets.panels.base.protocol import Activity, View
from hta_widgets.panels.base.rendered_view import RenderedView, ResultT
from hta_widgets.panels.base.table_messages import answer_about_table, is_about_table
from hta_widgets.panels.base.traits import literal, typed_dict
from hta_widgets.panels.base.updates import UPDATES
from hta_widgets.panels.base.view import as_text

NOTHING_YET: View = {
    "rev": 0,
    "time": "",
    "finding": "",
    "findings": [],
    "notices": [],
    "empty": None,
    "error": None,
    "figures": [],
    "table": None,
}


@dataclass(frozen=True)
class Computed(Generic[ResultT]):
    """What was computed, and of what: one never goes without the other."""

    inputs: tuple[object, ...]
    outcome: RenderedView[ResultT] | Exception


class SyncedView(DrawnWidget, Generic[ResultT]):
    """Keeps `_view` up to date; subclasses render it.

    The browser sends values with the number of the request, `_req`, and waits for the view of that
    number. A widget that is not visible is rendered when it becomes visible, or when the browser or
    Python asks for its view. Where a view is not that of the current values, because it is being
    computed or because that was interrupted, `_activity` says so.
    """

    _view = typed_dict(NOTHING_YET).tag(sync=True, to_json=as_text)
    _activity = literal(Activity).tag(sync=True)
    _req = Int(0, min=0).tag(sync=True, echo_update=False)
    _visible = Bool(None, allow_none=True).tag(sync=True, echo_update=False)

    from_browser: ClassVar[frozenset[str]] = frozenset({"_req", "_visible"})

    def __init__(self, **traits: Any) -> None:  # noqa: ANN401
        self._memo = MemoizeLast()
        self._computed: Computed[ResultT] | None = None
        self._refused: str | None = None
        super().__init__(**traits)
        self.observe(self._ask_update, ["_req", "_visible"])

    def _inputs(self) -> tuple[object, ...]:
        """Everything that the view depends on, apart from what never changes."""
        raise NotImplementedError

    def _render(self) -> RenderedView[ResultT]:
        raise NotImplementedError

    def hold(self) -> AbstractContextManager[None]:
        """Set several parameters with one recomputation, when the block ends.

        Examples
        --------
        >>> with panel.hold():  # doctest: +SKIP
        ...     panel.num_kernels = 5
        ...     panel.duration_ratio = 0.5
        """
        return UPDATES.together()

    def open(self) -> None:
        """Compute before the first message, so that it includes the charts."""
        self._update()
        super().open()

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Apply a message from the browser, which gets exactly one new view."""
        with self.hold():
            self._refused = None
            super().set_state(sync_data)
            UPDATES.ask(self)

    def _refuse(self, message: dict[str, Any], problem: str) -> None:
        self._refused = problem
        UPDATES.ask(self)
        number = message.get("_req")
        if isinstance(number, int) and number >= 0:  # the browser waits for it
            self._req = number
        self.send_state([name for name in message if name in self.keys and name[0] != "_"])

    def _handle_custom_msg(self, content: Any, buffers: Any) -> None:  # noqa: ANN401
        """Answer a question about the table that is shown; others are for those who listen."""
        if is_about_table(content):
            self._answer_about_table(content)
        else:
            super()._handle_custom_msg(content, buffers)

    @locked
    def _answer_about_table(self, content: dict[str, Any]) -> None:
        outcome = self._computed.outcome if self._computed else None
        if isinstance(outcome, RenderedView):
            listed, names = outcome.listed, outcome.names
            self.send(*answer_about_table(content, lambda: listed, names, self._memo))

    def notify_change(self, change: Any) -> None:  # noqa: ANN401
        """Tell everything that follows a trait before anything computes."""
        with UPDATES.together():
            super().notify_change(change)

    def _ask_update(self, _: object) -> None:
        UPDATES.ask(self)

    @property
    def _outdated(self) -> bool:
        return self._computed is None or self._computed.inputs != self._inputs()

    @property
    def _in_sight(self) -> bool:
        """Whether the widget is visible; one of which no browser has told anything counts so."""
        return self._visible is not False

    @property
    def _requested(self) -> bool:
        return self._req != self._view["rev"]

    @locked
    def _update(self) -> None:
        computed = self._computed
        if computed is None or self._outdated:
            if self._in_sight or self._requested:
                self._compute()
        elif self._requested or self._refused or self._activity != "idle":
            self._publish(self._shown(computed.outcome))

    def _show(self) -> None:
        """Compute an outdated view that is about to be displayed; a failure is a part of it."""
        if self._outdated:
            self._compute()

    def compute_all(self) -> None:
        """Compute the view if it is outdated; a failure is a part of it."""
        self._show()

    @locked
    def _current(self) -> RenderedView[ResultT]:
        computed = self._computed
        known = computed is not None and not self._outdated
        outcome = computed.outcome if computed and known else self._compute()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _compute(self) -> RenderedView[ResultT] | Exception:
        try:
            self._announce()
            inputs, outcome = self._inputs(), self._outcome()
            self._publish(self._shown(outcome))
        except BaseException:
            self._tell_interrupted()
            raise
        self._computed = Computed(inputs, outcome)
        return outcome

    def _outcome(self) -> RenderedView[ResultT] | Exception:
        try:
            return self._render()
        except Exception as failure:  # noqa: BLE001  # it is shown in the panel
            return failure

    def _shown(self, outcome: RenderedView[ResultT] | Exception) -> View:
        if isinstance(outcome, Exception):
            return {**self._view, "rev": self._req, "error": self._refused or reason(outcome)}
        return outcome.view(self._memo, rev=self._req, error=self._refused)

    def _publish(self, view: View) -> None:
        self._refused = None
        with self.hold_sync():
            self._view = view
            self._activity = "idle"

    def _announce(self) -> None:
        """Tell the browser that a newer view is on its way, unless it asked for one."""
        if self._outdated and self._in_sight and not self._requested:
            self._activity = "computing"

    def _tell_interrupted(self) -> None:
        """Tell the browser that the view is not that of the current values."""
        if self._outdated:
            with self.hold_sync():
                self._view = {**self._view, "rev": self._req}
                self._activity = "interrupted"
