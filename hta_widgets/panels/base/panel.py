"""The base of every panel: parameters as traits, one analysis, its figures and its table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import anywidget
import pandas as pd
from traitlets import Bool, Dict, Int, List, TraitError, link, validate

from hta_widgets.analyses.result import Result
from hta_widgets.errors import ParameterError
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.panels.base.actions import answer, reason
from hta_widgets.panels.base.assets import reload_assets, shared_assets
from hta_widgets.panels.base.controls import Control
from hta_widgets.panels.base.front_end import static_file
from hta_widgets.panels.base.latest import Latest
from hta_widgets.panels.base.outcome import Outcome
from hta_widgets.panels.base.selection import Selection, ascending
from hta_widgets.panels.base.summary import html_summary
from hta_widgets.panels.base.turns import TURN, in_turn
from hta_widgets.panels.base.view import as_text
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.opening.open import HasJob, as_job
from hta_widgets.trace.remote.urls import TraceSource

if TYPE_CHECKING:
    import plotly.graph_objects as go

MIRRORED = ("ranks", "streams")
"""Fields of the selection that a panel which has a parameter of that name shares with it."""

NOTHING_YET: dict[str, Any] = {
    "rev": 0,
    "finding": "",
    "notices": [],
    "empty": None,
    "error": None,
    "figures": [],
    "table": None,
}


class Panel(anywidget.AnyWidget):
    """One analysis in a notebook cell; subclasses name the analysis, figures and parameters.

    Parameters
    ----------
    source : Job, TraceAnalysis, path, list of paths or mapping of rank to path
        What to analyse.
    selection : Selection, optional
        The selection to follow; by default the one that all panels of the job share.
    job_notices : bool
        Show the notices that are not about the analysis, but about the job.
    **parameters
        Initial values of the panel's parameters, and `layout`. With `ranks` or `streams`, but
        without a `selection`, the panel gets a selection of its own and is not linked to others.

    Raises
    ------
    TypeError
        If there is no such parameter.
    """

    _esm = static_file("loader.js")

    title: ClassVar[str] = ""
    """Heading of the panel."""

    wide: ClassVar[bool] = False
    """Take a whole row of the dashboard."""

    controls: ClassVar[tuple[Control, ...]] = ()
    """Controls above the figures, from left to right."""

    follows: ClassVar[tuple[str, ...]] = ()
    """Fields of the selection that the panel depends on, apart from those in `MIRRORED`."""

    needs: ClassVar[tuple[Recorded, ...]] = ()
    """What a format must hold for the panel to show anything."""

    any_number_of_ranks: ClassVar[bool] = False
    """Whether the analysis needs ranks one by one only, so that a big job can be shown whole."""

    ranks: List[int] = List(Int()).tag(sync=True)
    """Ranks to analyse, always those of the selection; an empty list means all."""

    _spec = Dict().tag(sync=True)
    _view = Dict(NOTHING_YET).tag(sync=True, to_json=as_text)
    _action = Dict().tag(sync=True, echo_update=False)
    _answer = Dict().tag(sync=True)
    _req = Int(0).tag(sync=True, echo_update=False)
    _visible = Bool(True).tag(sync=True, echo_update=False)
    _assets = anywidget.WidgetTrait().tag(sync=True)
    _selection = anywidget.WidgetTrait().tag(sync=True)

    @in_turn
    def __init__(
        self,
        source: Job | HasJob | TraceSource,
        *,
        selection: Selection | None = None,
        job_notices: bool = True,
        **parameters: Any,  # noqa: ANN401
    ) -> None:
        self._following = ExitStack()
        self._reject_unknown(parameters)
        self.job = as_job(source)
        self.linked = selection is not None or not parameters.keys() & {*MIRRORED}
        if selection is None:
            selection = Selection.of(self.job) if self.linked else Selection()
        self.selection = selection
        self._job_notices = job_notices
        for name in self._mirrored():
            setattr(selection, name, parameters.pop(name, getattr(selection, name)))
        self._holding = 0
        self._latest = Latest()
        self._stale = True
        self._refusal: str | None = None
        self._outcome: Outcome | None = None
        self._failure: Exception | None = None
        super().__init__(
            **{name: getattr(selection, name) for name in self._mirrored()},
            _spec=self._describe(),
            _assets=shared_assets(),
            _selection=self.selection,
            **parameters,
        )
        self._follow()

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Names of the parameters, as the constructor takes them."""
        names = cls.class_trait_names(sync=True)
        inherited = anywidget.AnyWidget.class_trait_names()
        return tuple(name for name in names if name[0] != "_" and name not in inherited)

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """Tell whether a job has anything for this panel; if not, its dashboard leaves it out."""
        return job.holds(*cls.needs)

    def analyse(self) -> Result:
        """Run the analysis with the panel's parameters."""
        raise NotImplementedError

    def draw(self, result: Any) -> dict[str, Drawing]:  # noqa: ANN401
        """Return the figures of a result by name, in the order in which they are shown."""
        raise NotImplementedError

    def tabulate(self, result: Any) -> pd.DataFrame:  # noqa: ANN401
        """Return the data table of a result."""
        raise NotImplementedError

    def nothing_to_show(self, result: Any) -> str | None:  # noqa: ANN401, ARG002
        """Say why a result has nothing to draw, None where it has."""
        return None

    @property
    def result(self) -> Any:  # noqa: ANN401
        """Result for the current parameters and selection.

        Raises
        ------
        Exception
            The one that the analysis raised, if it did.
        """
        return self._current().result

    @property
    def figures(self) -> dict[str, go.Figure]:
        """Figures of the current result by name."""
        return self._current().figures

    @property
    def table(self) -> pd.DataFrame:
        """Data table of the current result."""
        return self._current().table

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Set several parameters with one recomputation, when the block ends.

        Examples
        --------
        >>> with panel.hold():  # doctest: +SKIP
        ...     panel.num_kernels = 5
        ...     panel.duration_ratio = 0.5
        """
        with TURN:
            self._holding += 1
            try:
                yield
            finally:
                self._holding -= 1
                self._flush()

    def close(self) -> None:
        """Close the panel and let go of the selection."""
        self._following.close()
        super().close()

    def open(self) -> None:
        """Compute before the browser hears of the panel: its first message holds the picture."""
        self._flush()
        super().open()

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Take over a message of the browser, which gets exactly one new view."""
        with self.hold():
            try:
                super().set_state(sync_data)
            except TraitError as error:
                # traitlets has rolled back the whole message; the browser waits for its number.
                self._refusal = str(error)
                self._req = sync_data.get("_req", self._req)
                self.send_state([name for name in sync_data if name in self.parameters()])
            asked = sync_data.get("_action")
            if asked and asked["number"] != self._answer.get("number"):
                self._answer = answer(self, asked)

    @validate(*MIRRORED)
    def _ascending(self, proposal: dict[str, Any]) -> list[int]:
        return ascending(proposal["value"])

    def __repr__(self) -> str:
        """Job and parameters."""
        values = [f"{name}={getattr(self, name)!r}" for name in self.parameters()]
        return f"{type(self).__name__}({', '.join([repr(self.job.name), *values])})"

    @classmethod
    def _reject_unknown(cls, parameters: dict[str, Any]) -> None:
        unknown = sorted(set(parameters) - {*cls.parameters(), "layout"})
        if unknown:
            known = ", ".join(cls.parameters())
            msg = f"{cls.__name__} has no parameter {', '.join(unknown)}; it has {known}"
            raise TypeError(msg)

    @classmethod
    def _mirrored(cls) -> list[str]:
        return [name for name in MIRRORED if name in cls.parameters()]

    def _describe(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "controls": [each.spec(self.job) for each in self.controls if each.offered(self.job)],
        }

    def _follow(self) -> None:
        for name in self._mirrored():
            linked = link((self.selection, name), (self, name))
            self._following.callback(linked.unlink)
        if self.follows:  # traitlets takes no names for all names
            fields = list(self.follows)
            self.selection.observe(self._outdate, fields)
            self._following.callback(self.selection.unobserve, self._outdate, fields)
        self.observe(self._outdate, list(self.parameters()))
        self.observe(lambda _: self._flush(), ["_req", "_visible"])

    def _outdate(self, _: object) -> None:
        self._stale = True
        self._flush()

    @in_turn
    def _flush(self) -> None:
        asked = self._req > self._view["rev"]
        if self._holding:
            return
        if self._stale and (self._visible or asked):
            self._compute()
        elif asked or self._refusal:
            self._publish({**self._view, "error": self._error()})

    @in_turn
    def _current(self) -> Outcome:
        if self._stale:
            self._compute()
        if self._outcome is None or self._failure:
            raise self._failure or RuntimeError("nothing was computed")
        return self._outcome

    def _compute(self) -> None:
        self._stale = False
        try:
            self._outcome = self._analyse_and_draw()
        except Exception as failure:  # noqa: BLE001  # it is shown in the panel
            self._failure = failure
            self._publish({**self._view, "error": self._error()})
        else:
            self._failure = None
            self._publish({**self._outcome.view(self._latest), "error": self._error()})

    def _analyse_and_draw(self) -> Outcome:
        self._refuse_too_many_ranks()
        result = self.analyse()
        empty = self.nothing_to_show(result)
        drawings = {} if empty else self.draw(result)
        return Outcome(result, self._notices(result), empty, drawings, self.tabulate(result))

    def _refuse_too_many_ranks(self) -> None:
        if self.any_number_of_ranks or not self.job.too_many_to_hold(self.ranks):
            return
        count, limit = len(self.job.select_ranks(self.ranks)), self.job.hold_at_most
        msg = (
            f"{count} ranks of a job this big are too many to look into at a time; pick at most "
            f"{limit} (selection.ranks = {list(self.job.ranks[:2])})"
        )
        raise ParameterError(msg)

    def _notices(self, result: Result) -> list[str]:
        if self._job_notices:
            return list(result.notices)
        ranks = self.job.select_ranks(self.ranks)
        said = {notice for some in (ranks, *zip(ranks)) for notice in self.job.notices_for(some)}
        return [notice for notice in result.notices if notice not in said]

    def _publish(self, view: dict[str, Any]) -> None:
        self._refusal = None
        self._view = {**view, "rev": self._req}

    def _error(self) -> str | None:
        failure = self._failure
        return self._refusal or (reason(failure) if failure else None)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:  # noqa: ANN401
        data, metadata = super()._repr_mimebundle_(**kwargs) or ({}, {})
        texts = {
            "text/plain": f"{self!r}\n{self._view['error'] or self._view['finding']}",
            "text/html": html_summary(self._spec["title"], self._view),
        }
        return {**data, **texts}, metadata


# With ANYWIDGET_HMR=1, anywidget watches the loader and sends each new one to all panels. Connected
# before any panel is, the assets arrive first.
Panel._esm.changed.connect(reload_assets)  # type: ignore[attr-defined]  # noqa: SLF001
