"""The base of every panel: parameters as traits, one analysis, its figures and its table."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import pandas as pd
from traitlets import Bunch, Int, List, observe, validate

from hta_widgets.errors import ParameterError
from hta_widgets.export.csv_file import write_csv
from hta_widgets.panels.base.acting_panel import ActingPanel
from hta_widgets.panels.base.code import panel_code
from hta_widgets.panels.base.controls import RANK_PICKER
from hta_widgets.panels.base.lock import locked
from hta_widgets.panels.base.parameters import Source
from hta_widgets.panels.base.protocol import PanelSpec, View
from hta_widgets.panels.base.rendered_view import RenderedView, ResultT
from hta_widgets.panels.base.selection import LINKED_FIELDS, Selection
from hta_widgets.panels.base.signature import PanelSignature
from hta_widgets.panels.base.summary import SUMMARY_BYTES, html_summary
from hta_widgets.panels.base.table_view import TableLook
from hta_widgets.panels.base.traits import typed_dict
from hta_widgets.panels.base.updates import UPDATES
from hta_widgets.trace.opening.open import as_job
from hta_widgets.trace.remote.urls import PathLike

if TYPE_CHECKING:
    import plotly.graph_objects as go


class Panel(ActingPanel[ResultT]):
    """One analysis in a notebook cell; subclasses define the analysis, figures and parameters.

    Parameters
    ----------
    source : Job, TraceAnalysis, path, list of paths or mapping of rank to path
        What to analyse.
    selection : Selection, optional
        The selection to follow; by default the one that all panels of the job share.
    job_notices : bool
        Show the notices about the job, besides those about the analysis.
    on_demand : bool
        Compute only what a browser shows or Python asks for; otherwise also what no browser has
        told anything about.
    ranks : list of int, optional
        Ranks to analyse; an empty list means all. They are always those of the selection. With
        `ranks` or `streams`, but without a `selection`, the panel has a separate selection and is
        not linked to others.
    layout : ipywidgets.Layout or dict, optional
        Size and position of the widget.
    output_dir : path, optional
        Where the buttons write; by default beside the traces, or for some in the working folder.
    **parameters
        Initial values of the panel's own parameters.

    Raises
    ------
    TypeError
        If a parameter is unknown.
    TraitError, UnknownRankError
        If a parameter, or a rank of the selection, is not one that the job has.
    """

    __signature__ = PanelSignature()

    ranks = List(Int()).tag(sync=True, control=RANK_PICKER)

    _spec = typed_dict(PanelSpec(title="", wide=False, open=False, controls=[])).tag(sync=True)
    _selection = anywidget.WidgetTrait().tag(sync=True)

    @locked
    def __init__(
        self,
        source: Source,
        *,
        selection: Selection | None = None,
        job_notices: bool = True,
        output_dir: PathLike | None = None,
        on_demand: bool = False,
        **parameters: Any,  # noqa: ANN401
    ) -> None:
        self._reject_unknown(parameters)
        self.job = as_job(source)
        self.output_dir = output_dir
        self.linked = selection is not None or not parameters.keys() & {*LINKED_FIELDS}
        self._job_notices = job_notices
        self._on_demand = on_demand
        self._parameters = list(self.parameters())
        self._linked = self._linked_fields()
        with ExitStack() as unfinished:
            if selection is None and self.linked:
                selection = Selection.of(self.job)
            elif selection is None:
                selection = unfinished.enter_context(closing(Selection()))
            self.selection = selection
            if "ranks" in self._linked:
                selection.concern(self.job)
            for name in self._linked:
                setattr(selection, name, parameters.pop(name, getattr(selection, name)))
            super().__init__(
                **{name: getattr(selection, name) for name in self._linked},
                _spec=self._describe(),
                _selection=self.selection,
                **parameters,
            )
            self._follow()
            unfinished.pop_all()

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

    def write_csv(self, path: PathLike) -> Path:
        """Write all rows of the table to a CSV file, in which no name is a formula.

        See `hta_widgets.export.csv_file.write_csv`.
        """
        return write_csv(self.table, path)

    def code(self) -> str:
        """Lines of Python that show what the panel shows, with a place-holder for the path.

        Examples
        --------
        >>> print(panel.code())  # doctest: +SKIP
        from hta_widgets import open_trace
        from hta_widgets.panels import KernelBreakdownPanel, Selection
        <BLANKLINE>
        job = open_trace('path/to/traces')
        panel = KernelBreakdownPanel(job, num_kernels=5, selection=Selection(ranks=[3]))
        panel
        """
        return panel_code(self)

    def of_all_ranks(self, result: ResultT) -> ResultT:
        """Return the result of all ranks, for figures that highlight the selected ones.

        For a panel that is not linked to others, or that shows all ranks, this is the given result.
        """
        return self.analyse([]) if self.linked and self.ranks else result

    def summary(self, limit: int = SUMMARY_BYTES) -> str:
        """Return title, finding, charts and first rows as HTML.

        Parameters
        ----------
        limit : int
            Maximum number of bytes; charts and rows that are too large are left out.
        """
        self._show()
        outcome = self._computed.outcome if self._computed else None
        drawings = outcome.drawings if isinstance(outcome, RenderedView) else {}
        return html_summary(self._spec["title"], self._view, drawings, limit)

    def close(self) -> None:
        """Close the panel and stop following the selection."""
        self.selection.leave(self)
        super().close()

    @validate(*LINKED_FIELDS)
    def _as_in_selection(self, proposal: dict[str, Any]) -> list[int]:
        return self.selection.picked(proposal["trait"].name, proposal["value"])

    def __repr__(self) -> str:
        """Job and parameters."""
        values = [f"{name}={getattr(self, name)!r}" for name in self.parameters()]
        return f"{type(self).__name__}({', '.join([repr(self.job.name), *values])})"

    def _shows_gpu_work(self, *, of_one: bool = False) -> bool:
        """Whether the shown ranks have any, or the first of them: else a panel shows CPU time.

        Of ranks that are too many to be held, the first one stands for all.
        """
        known = [rank for rank in self.ranks if rank in self.job.ranks] or [*self.job.ranks]
        first_only = of_one or self.job.too_many_to_hold(known)
        return self.job.has_gpu_work(known[:1] if first_only else known)

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
        return {
            "title": self.title,
            "wide": self.wide,
            "open": self.table_open,
            "controls": [*controls, *buttons],
        }

    def _inputs(self) -> tuple[object, ...]:
        values = [getattr(self, name) for name in self._parameters]
        values += [getattr(self.selection, name) for name in self.follows]
        return tuple(tuple(value) if isinstance(value, list) else value for value in values)

    def _follow(self) -> None:
        self.observe(self._ask_update, self._parameters)
        for name in self._linked:
            self.observe(self._select, name)
        self.selection.join(self)

    @property
    def _in_sight(self) -> bool:
        """Whether the panel is visible.

        One of which no browser has told anything counts so until one tells of another panel: then
        there is a page, and this panel is not on it. One that computes on demand does not.
        """
        if self._visible is None:
            return not (self._on_demand or self.selection.is_on_page)
        return self._visible

    @observe("_visible")
    def _is_on_page(self, _: object) -> None:
        self.selection.is_on_page = True

    def _select(self, change: Bunch) -> None:
        setattr(self.selection, change.name, change.new)

    def _selected(self, name: str) -> None:
        """Take over a field of the selection."""
        if name in self._linked:
            setattr(self, name, getattr(self.selection, name))
        elif name in self.follows:
            UPDATES.ask(self)

    @locked
    def _current(self) -> RenderedView[ResultT]:
        for name in self._linked:
            self._selected(name)
        return super()._current()

    def _render(self) -> RenderedView[ResultT]:
        self._refuse_too_many_ranks()
        result = self.analyse(self.ranks)
        empty = self.nothing_to_show(result)
        drawings = {} if empty else self.draw(result)
        table, findings = self.tabulate(result), self.list_findings(result)
        look = TableLook(self.table_selects, self.table_labels, self.table_besides)
        listed = self.tabulate(self.of_all_ranks(result)) if self.table_of_all else table
        return RenderedView(
            result, self._notices(result), empty, drawings, table, findings, listed, look
        )

    def _shown(self, outcome: RenderedView[ResultT] | Exception) -> View:
        view = super()._shown(outcome)
        shorten = self._shortening()
        error = None if view["error"] is None else shorten(view["error"])
        notices = [*map(shorten, view["notices"])]
        return {**view, "time": self._time(), "error": error, "notices": notices}

    def _time(self) -> str:
        """The time that the panel counts, in words; empty if it is all."""
        return self.selection.time_in_words(self.follows)

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
        html = self.summary()
        texts = {
            "text/plain": f"{self!r}\n{self._view['error'] or self._view['finding']}",
            "text/html": html,
        }
        return {**data, **texts}, metadata
