"""The base of every panel: parameters as traits, one analysis, its figures and its table."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import anywidget
import pandas as pd
from traitlets import Instance, Int, List, link, validate

from hta_widgets.errors import ParameterError
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.panels.base.actions import answer
from hta_widgets.panels.base.assets import reload_assets, shared_assets
from hta_widgets.panels.base.controls import RANK_PICKER, Control
from hta_widgets.panels.base.declarations import (
    Button,
    buttons_of,
    check_declarations,
    controls_of,
)
from hta_widgets.panels.base.front_end import static_file
from hta_widgets.panels.base.lock import locked
from hta_widgets.panels.base.parameters import Source
from hta_widgets.panels.base.protocol import Action, Answer, PanelSpec
from hta_widgets.panels.base.rendered_view import RenderedView, ResultT
from hta_widgets.panels.base.selection import LINKED_FIELDS, Selection, ascending
from hta_widgets.panels.base.signature import PanelSignature
from hta_widgets.panels.base.summary import ROWS, html_summary
from hta_widgets.panels.base.synced_view import SyncedView
from hta_widgets.panels.base.traits import typed_dict
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.opening.open import as_job

if TYPE_CHECKING:
    import plotly.graph_objects as go


class Panel(SyncedView[ResultT]):
    """One analysis in a notebook cell; subclasses define the analysis, figures and parameters.

    Parameters
    ----------
    source : Job, TraceAnalysis, path, list of paths or mapping of rank to path
        What to analyse.
    selection : Selection, optional
        The selection to follow; by default the one that all panels of the job share.
    job_notices : bool
        Show the notices about the job, besides those about the analysis.
    ranks : list of int, optional
        Ranks to analyse; an empty list means all. They are always those of the selection. With
        `ranks` or `streams`, but without a `selection`, the panel has a separate selection and is
        not linked to others.
    layout : ipywidgets.Layout or dict, optional
        Size and position of the widget.
    **parameters
        Initial values of the panel's own parameters.

    Raises
    ------
    TypeError
        If a parameter is unknown.
    """

    __signature__ = PanelSignature()

    _esm = static_file("loader.js")

    title: ClassVar[str] = ""
    """Heading of the panel."""

    wide: ClassVar[bool] = False
    """Whether the panel takes a whole row of the dashboard."""

    follows: ClassVar[tuple[str, ...]] = ()
    """Fields of the selection that the panel depends on, apart from those in `LINKED_FIELDS`."""

    needs: ClassVar[tuple[Recorded, ...]] = ()
    """What a format must record for the panel to show anything."""

    any_number_of_ranks: ClassVar[bool] = False
    """Whether the analysis needs only one rank at a time, so that it can show all of a big job."""

    controls: ClassVar[Mapping[str, Control]]
    """Controls on the parameters, from left to right; read from the tags of the traits."""

    buttons: ClassVar[Mapping[str, Button]]
    """Buttons after the controls; read from the methods decorated with `button`."""

    ranks = List(Int()).tag(sync=True, control=RANK_PICKER)

    _spec = typed_dict(PanelSpec(title="", wide=False, controls=[])).tag(sync=True)
    _action = typed_dict(Action()).tag(sync=True, echo_update=False)
    _answer = typed_dict(Answer()).tag(sync=True)
    _assets = anywidget.WidgetTrait().tag(sync=True)
    _selection = anywidget.WidgetTrait().tag(sync=True)
    _subscriptions = Instance(ExitStack, ())

    def __init_subclass__(cls, **options: Any) -> None:  # noqa: ANN401
        super().__init_subclass__(**options)
        check_declarations(cls)
        unknown = set(cls.follows) - set(Selection.fields())
        if unknown:
            msg = f"{cls.__name__} follows {sorted(unknown)}; a selection has {Selection.fields()}"
            raise TypeError(msg)
        cls.controls = MappingProxyType(controls_of(cls))
        cls.buttons = MappingProxyType(buttons_of(cls))

    @locked
    def __init__(
        self,
        source: Source,
        *,
        selection: Selection | None = None,
        job_notices: bool = True,
        **parameters: Any,  # noqa: ANN401
    ) -> None:
        self._reject_unknown(parameters)
        self.job = as_job(source)
        self.linked = selection is not None or not parameters.keys() & {*LINKED_FIELDS}
        if selection is None:
            selection = Selection.of(self.job) if self.linked else Selection()
        self.selection = selection
        self._job_notices = job_notices
        for name in self._linked_fields():
            setattr(selection, name, parameters.pop(name, getattr(selection, name)))
        super().__init__(
            **{name: getattr(selection, name) for name in self._linked_fields()},
            _spec=self._describe(),
            _assets=shared_assets(),
            _selection=self.selection,
            **parameters,
        )
        self._follow()

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Names of the parameters that the constructor takes."""
        names = cls.class_trait_names(sync=True)
        inherited = anywidget.AnyWidget.class_trait_names()
        return tuple(name for name in names if name[0] != "_" and name not in inherited)

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """Whether the panel applies to a job; dashboards leave out panels that do not."""
        return job.holds(*cls.needs)

    def analyse(self, ranks: list[int]) -> ResultT:
        """Run the analysis on some ranks, or on all for an empty list."""
        raise NotImplementedError

    def draw(self, result: ResultT) -> dict[str, Drawing]:
        """Return the figures of a result by name, in display order."""
        raise NotImplementedError

    def tabulate(self, result: ResultT) -> pd.DataFrame:
        """Return the data table of a result."""
        raise NotImplementedError

    def nothing_to_show(self, result: ResultT) -> str | None:  # noqa: ARG002
        """Explain why a result has nothing to draw; None if it has something."""
        return None

    @property
    def result(self) -> ResultT:
        """Result for the current parameters and selection.

        Raises
        ------
        Exception
            If the analysis raised one.
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

    def of_all_ranks(self, result: ResultT) -> ResultT:
        """Return the result of all ranks, for figures that highlight the selected ones.

        For a panel that is not linked to others, or that shows all ranks, this is the given result.
        """
        return self.analyse([]) if self.linked and self.ranks else result

    def summary(self, rows: int = ROWS) -> str:
        """Return title, finding and the first rows of the table as HTML, as last computed."""
        return html_summary(self._spec["title"], self._view, rows)

    def close(self) -> None:
        """Close the panel and stop following the selection."""
        self._subscriptions.close()
        super().close()

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Apply a message from the browser, then run the action of a button."""
        with self.hold():
            super().set_state(sync_data)
            action: Action | None = sync_data.get("_action")
            if action and action["number"] != self._answer.get("number"):
                self._answer = answer(self, action)

    @validate(*LINKED_FIELDS)
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
    def _linked_fields(cls) -> list[str]:
        return [name for name in LINKED_FIELDS if name in cls.parameters()]

    def _describe(self) -> PanelSpec:
        parameters, traits = self.parameters(), self.traits()
        controls = [
            control.spec(name, traits[name], self.job)
            for name, control in self.controls.items()
            if name in parameters
        ]
        buttons = [
            button.spec(name) for name, button in self.buttons.items() if button.works_for(self.job)
        ]
        return {"title": self.title, "wide": self.wide, "controls": [*controls, *buttons]}

    def _follow(self) -> None:
        for name in self._linked_fields():
            linked = link((self.selection, name), (self, name))
            self._subscriptions.callback(linked.unlink)
        if self.follows:  # traitlets takes no names for all names
            fields = list(self.follows)
            self.selection.observe(self._outdate, fields)
            self._subscriptions.callback(self.selection.unobserve, self._outdate, fields)
        self.observe(self._outdate, list(self.parameters()))

    def _render(self) -> RenderedView[ResultT]:
        self._refuse_too_many_ranks()
        result = self.analyse(self.ranks)
        empty = self.nothing_to_show(result)
        drawings = {} if empty else self.draw(result)
        return RenderedView(result, self._notices(result), empty, drawings, self.tabulate(result))

    def _refuse_too_many_ranks(self) -> None:
        if self.any_number_of_ranks or not self.job.too_many_to_hold(self.ranks):
            return
        count, limit = len(self.job.select_ranks(self.ranks)), self.job.hold_at_most
        msg = (
            f"{count} ranks are selected, but this panel shows at most {limit} ranks of a job this "
            f"big; pick fewer (selection.ranks = {list(self.job.ranks[:2])})"
        )
        raise ParameterError(msg)

    def _notices(self, result: ResultT) -> list[str]:
        if self._job_notices:
            return list(result.notices)
        ranks = self.job.select_ranks(self.ranks)
        said = {notice for some in (ranks, *zip(ranks)) for notice in self.job.notices_for(some)}
        return [notice for notice in result.notices if notice not in said]

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:  # noqa: ANN401
        data, metadata = super()._repr_mimebundle_(**kwargs) or ({}, {})
        texts = {
            "text/plain": f"{self!r}\n{self._view['error'] or self._view['finding']}",
            "text/html": self.summary(),
        }
        return {**data, **texts}, metadata


# With ANYWIDGET_HMR=1, anywidget watches the loader and sends each new one to all panels. This
# connects before any panel does, so the assets arrive first.
Panel._esm.changed.connect(reload_assets)  # type: ignore[attr-defined]  # noqa: SLF001
