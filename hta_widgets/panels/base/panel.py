"""Base class of every panel: parameters as traits, one analysis, its figures and its table.

A subclass declares parameters and implements `analyse`, `draw` and `tabulate`. The base computes
them when the panel is visible or asked for, and sends the browser one view per change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, cast

import anywidget
import ipywidgets
import pandas as pd
from traitlets import Bool, Bunch, Int, List, TraitError, TraitType, observe, validate

from hta_widgets.analyses.plain_text import bounded, csv_of, with_notices
from hta_widgets.analyses.roofline.vendor import words_of
from hta_widgets.analyses.time.modules import recorded_calls
from hta_widgets.diagnosis import diagnosis_of_phase
from hta_widgets.errors import HtaWidgetsError, ParameterError, reason
from hta_widgets.export.csv_file import write_csv
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.panels.base.code import changed, panel_code
from hta_widgets.panels.base.controls import RANK_PICKER, Control
from hta_widgets.panels.base.declarations import (
    COMMON,
    FOLDER,
    Button,
    PanelDoc,
    PanelSignature,
    buttons_of,
    check_declarations,
    controls_of,
    parameter,
)
from hta_widgets.panels.base.drawn_widget import DrawnWidget, Source
from hta_widgets.panels.base.memoize import MemoizeLast
from hta_widgets.panels.base.protocol import Action, Activity, Answer, FindingRow, PanelSpec, View
from hta_widgets.panels.base.rendered_view import RenderedView, ResultT
from hta_widgets.panels.base.selection import LINKED_FIELDS, Selection, plain_selection
from hta_widgets.panels.base.shown_paths import without_folders
from hta_widgets.panels.base.summary import SUMMARY_BYTES, html_summary
from hta_widgets.panels.base.table import SELECTS, TableLook, answer_about_table, is_about_table
from hta_widgets.panels.base.traits import literal, typed_dict
from hta_widgets.panels.base.updates import UPDATES, locked
from hta_widgets.panels.base.view import as_text
from hta_widgets.panels.base.written_files import (
    answer_about_file,
    describe,
    files_of,
    is_about_file,
)
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.freed_memory import return_freed_memory
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.opening.open import as_job
from hta_widgets.trace.remote.urls import PathLike

if TYPE_CHECKING:
    import plotly.graph_objects as go

_FIRST_ROWS = 15

NOTHING_YET: View = {
    "rev": 0,
    "time": "",
    "finding": "",
    "findings": [],
    "findings_title": "",
    "notices": [],
    "empty": None,
    "error": None,
    "figures": [],
    "table": None,
}

RECIPES: Final = "docs/recording.md"
"""Page that says how to record what an empty panel lacks."""

_PROFILER_OPTION: Final = re.compile(
    r"\b(?:record_shapes|with_stack|profile_memory)=True|\bProfilerActivity\b|\bnsys profile\b"
)


def with_recipe(reason: str) -> str:
    """Add the page of recipes to the reason for an empty panel, if it names a profiler option.

    Examples
    --------
    >>> with_recipe("No memory events were recorded (profile_memory=True records them).")
    'No memory events were recorded (profile_memory=True records them). Recipes: docs/recording.md.'
    >>> with_recipe("The GPUs are never idle.")
    'The GPUs are never idle.'
    """
    return f"{reason} Recipes: {RECIPES}." if _PROFILER_OPTION.search(reason) else reason


@dataclass(frozen=True)
class Computed(Generic[ResultT]):
    """An outcome together with the inputs it was computed from."""

    inputs: tuple[object, ...]
    outcome: RenderedView[ResultT] | Exception


class Panel(DrawnWidget, Generic[ResultT]):
    """One analysis in a notebook cell; subclasses define the analysis, figures and parameters.

    Parameters
    ----------
    source : Job, TraceAnalysis, path, list of paths or mapping of rank to path
        What to analyse.
    selection : Selection, optional
        The selection to follow; by default the one that all panels of the job share.
    job_notices : bool
        Show the notices about the job in addition to those about the analysis.
    on_demand : bool
        Compute only what a browser shows or Python asks for; otherwise also compute while no
        browser has reported anything.
    ranks : list of int, optional
        Ranks to analyse; an empty list means all. They always equal those of the selection. With
        `ranks` or `streams`, but without a `selection`, the panel has a separate selection and is
        not linked to others.
    layout : ipywidgets.Layout or dict, optional
        Size and position of the widget.
    output_dir : path, optional
        Where the buttons write; by default next to the traces, for some in the working folder.
    **parameters
        Initial values of the panel's own parameters.

    Raises
    ------
    TypeError
        If a parameter is unknown.
    TraitError, UnknownRankError
        If a parameter has an invalid value, or the job lacks a selected rank.
    """

    # Declarations of subclasses; a wrong one raises an error when the class is defined.

    name: ClassVar[str] = ""
    """Name of its analysis, of the panel's module and documentation page, and of the panel on a
    dashboard."""

    title: ClassVar[str] = ""
    """Heading of the panel."""

    tab: ClassVar[str | None] = "others"
    """Name of the dashboard tab that shows it, one of `TABS`; None for a band."""

    place: ClassVar[int] = 100
    """Sort key among the panels of its tab; equal ones are sorted by name."""

    follows: ClassVar[tuple[str, ...]] = ()
    """Selection fields that the panel depends on, apart from those in `LINKED_FIELDS`."""

    table_selects: ClassVar[Mapping[str, str]] = SELECTS
    """Columns of the table, and the selection fields that a click on a row sets to their values."""

    table_open: ClassVar[bool] = False
    """Whether the table is open from the start (next to the chart on a wide page)."""

    table_names: ClassVar[Mapping[str, str]] = {}
    """Labels that the table shows in place of some texts."""

    table_besides: ClassVar[tuple[str, ...]] = ()
    """Texts in these columns that cannot be selected, such as ``others``."""

    table_labels: ClassVar[Mapping[str, str]] = {}
    """Headings, without units, that differ from the column's name in words."""

    table_of_all: ClassVar[bool] = False
    """Whether a page also lists ranks that are not selected, like charts that mark the selected
    ones."""

    needs: ClassVar[tuple[Recorded, ...]] = ()
    """What the format must record for the panel to show anything."""

    needs_gpu_work: ClassVar[bool] = False
    """Whether the panel has nothing to show for a CPU-only recording."""

    needs_communication: ClassVar[bool] = False
    """Whether it says nothing of jobs that do not communicate, such as a single GPU."""

    needs_calls: ClassVar[str] = ""
    """The field of `RecordedCalls` without which it has nothing to show, such as ``shapes``."""

    any_number_of_ranks: ClassVar[bool] = False
    """Whether the analysis needs one rank at a time, so that it can show all ranks of a big job."""

    controls: ClassVar[Mapping[str, Control]]
    """Controls on the parameters, from left to right; read from the declarations."""

    buttons: ClassVar[Mapping[str, Button]]
    """Buttons after the controls; read from the methods decorated with `button`."""

    def __init_subclass__(cls, **options: Any) -> None:  # noqa: ANN401
        super().__init_subclass__(**options)
        check_declarations(cls)
        unknown = {*cls.follows, *cls.table_selects.values()} - set(Selection.fields())
        if unknown:
            fields = Selection.fields()
            msg = f"{cls.__name__} follows or selects {sorted(unknown)}; a selection has {fields}"
            raise TypeError(msg)
        cls.controls = MappingProxyType(controls_of(cls))
        cls.buttons = MappingProxyType(buttons_of(cls))
        cls.__doc__ = cast("str", PanelDoc(cls.__doc__))

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Names of the parameters that the constructor accepts."""
        inherited = anywidget.AnyWidget.class_trait_names()
        ours = {k: v for k, v in cls.class_traits(sync=True).items() if k not in inherited}
        return tuple(name for name, each in ours.items() if name[0] != "_" and not each.read_only)

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """Whether the panel applies to a job; dashboards leave out panels that do not."""
        has_gpu_work = not cls.needs_gpu_work or job.has_gpu_work()
        communicates = not cls.needs_communication or job.may_communicate()
        if not (has_gpu_work and communicates and job.holds(*cls.needs)):
            return False
        if not cls.needs_calls:
            return True
        recorded = job.reduce(recorded_calls, job.ranks).values()
        return any(getattr(each, cls.needs_calls) for each in recorded)

    def analyse(self, ranks: list[int]) -> ResultT:
        """Run the analysis on some ranks; an empty list means all."""
        raise NotImplementedError

    def draw(self, result: ResultT) -> dict[str, Drawing]:  # noqa: ARG002
        """Return the figures of a result by name, in display order; by default none."""
        return {}

    def tabulate(self, result: ResultT) -> pd.DataFrame:
        """Return the data table of a result: by default that which `listed` names."""
        table: pd.DataFrame = getattr(result, self.listed)
        return table

    def sentence(self, result: ResultT) -> str:
        """Return the sentence below the title: the finding of a result."""
        return result.finding

    def nothing_to_show(self, result: ResultT) -> str | None:  # noqa: ARG002
        """Explain why a result has nothing to draw; None if it has something."""
        return None

    def list_findings(self, result: ResultT) -> list[FindingRow]:  # noqa: ARG002
        """Return rows to show below the sentence; most panels have none."""
        return []

    def title_findings(self, result: ResultT) -> str:  # noqa: ARG002
        """Return the heading of these rows; empty if the sentence introduces them."""
        return ""

    # Construction

    __signature__ = PanelSignature()

    if TYPE_CHECKING:  # keywords of subclasses, as `__init__` takes them
        source: InitVar[Source] = field(kw_only=False)
        selection: TraitType[Selection, Selection | None] = TraitType()
        job_notices: InitVar[bool] = True
        layout: ipywidgets.Layout | dict[str, str] = {}
        on_demand: InitVar[bool] = False

    output_dir: PathLike | None = None
    ranks: list[int] = parameter(List(Int()), RANK_PICKER)

    _spec = typed_dict(PanelSpec(title="", open=False, controls=[])).tag(sync=True)
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
        self._linked: list[str] = [each for each in LINKED_FIELDS if each in self._parameters]
        self._memo = MemoizeLast()
        self._computed: Computed[ResultT] | None = None
        self._refused: str | None = None
        self._written: dict[str, Path] = {}
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

    @classmethod
    def _reject_unknown(cls, parameters: dict[str, Any]) -> None:
        unknown = sorted(set(parameters) - {*cls.parameters(), *COMMON})
        if unknown:
            known = ", ".join(cls.parameters())
            msg = f"{cls.__name__} has no parameter {', '.join(unknown)}; it has {known}"
            raise TypeError(msg)

    def _describe(self) -> PanelSpec:
        parameters, traits = self.parameters(), self.traits()
        controls = [
            control.spec(name, traits[name], self.job)
            for name, control in self.controls.items()
            if name in parameters and control.applies_to(self.job)
        ]
        buttons = [
            button.spec(name) for name, button in self.buttons.items() if button.works_for(self.job)
        ]
        return {"title": self.title, "open": self.table_open, "controls": [*controls, *buttons]}

    def open(self) -> None:
        """Compute before the first message, so that it includes the charts."""
        self._update()
        super().open()

    def close(self) -> None:
        """Close the panel and stop following the selection."""
        self.selection.leave(self)
        super().close()

    # What Python reads

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The job that the panel was made with; some panels have two."""
        return (self.job,)

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
        """Write all rows of the table to a CSV file; no name in it is a formula.

        See `hta_widgets.export.csv_file.write_csv`.
        """
        return write_csv(self.table, path)

    def code(self) -> str:
        """Lines of Python that reproduce the panel, with a placeholder for the path.

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
        parameters = changed(self, self._parameters)
        picked = {name: parameters.pop(name) for name in self._linked if name in parameters}
        followed = changed(self.selection, self.follows)
        return panel_code(type(self), self.jobs, parameters, picked, followed, linked=self.linked)

    def hold(self) -> AbstractContextManager[None]:
        """Set several parameters with one recomputation, when the block ends.

        Examples
        --------
        >>> with panel.hold():  # doctest: +SKIP
        ...     panel.num_kernels = 5
        ...     panel.duration_ratio = 0.5
        """
        return UPDATES.together()

    def of_all_ranks(self, result: ResultT) -> ResultT:
        """Return the result of all ranks, for figures that highlight the selected ones.

        If the panel is not linked to others, or shows all ranks, this is the given result.
        """
        return self.analyse([]) if self.linked and self.ranks else result

    def compute_all(self) -> None:
        """Compute the view, with any failure, if it is outdated, even if no page shows it."""
        if self._outdated:
            self._compute()

    def summary(self, limit: int = SUMMARY_BYTES) -> str:
        """Return title, finding, charts and first rows as HTML.

        Parameters
        ----------
        limit : int
            Maximum number of bytes; charts and rows that are too large are left out.
        """
        self.compute_all()
        title, shown = self._spec["title"], self._rendered
        drawings, picture = (shown.drawings, self._picture(shown.result)) if shown else ({}, "")
        return html_summary(title, self._view, drawings, limit, picture)

    def _picture(self, result: ResultT) -> str:  # noqa: ARG002
        """Image for the summary, of what the panel draws without plotly."""
        return ""

    def __repr__(self) -> str:
        """Job and parameters."""
        values = [f"{name}={getattr(self, name)!r}" for name in self.parameters()]
        return f"{type(self).__name__}({', '.join([repr(self.job.name), *values])})"

    def _repr_llm_(self) -> str:
        """The finding, the selection, the first rows of the table, and what to read next."""
        self.compute_all()
        shown = [f"{self!r}: {self.title}", self.verdict]
        if self.selected:
            shown.append(f"Selected: {json.dumps(self.selected)}")
        if self._rendered:
            shown += ["", csv_of(self._rendered.table, _FIRST_ROWS)]
        return bounded("\n".join(shown), "Next: table has all rows, result all tables.")

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:  # noqa: ANN401
        data, metadata = super()._repr_mimebundle_(**kwargs) or ({}, {})
        html = self.summary()
        texts = {
            "text/plain": f"{self!r}\n{self._view['error'] or self._view['finding']}",
            "text/html": html,
        }
        return {**data, **texts}, metadata

    # Messages from a page
    #
    # A page sends values with a request number, `_req`, and waits for the view with that number.

    from_browser = frozenset({"_req", "_visible", "_action"})

    _req = Int(0, min=0).tag(sync=True, echo_update=False)
    _visible = Bool(None, allow_none=True).tag(sync=True, echo_update=False)
    _action = typed_dict(Action()).tag(sync=True, echo_update=False)
    _answer = typed_dict(Answer()).tag(sync=True)

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Apply a message from the browser, answer with one new view, and press its button."""
        with self.hold():
            self._refused = None
            before = self._action
            super().set_state(sync_data)
            UPDATES.ask(self)
            action = self._action
            is_new = bool(action) and action is not before
            if is_new and action["number"] != self._answer.get("number"):
                self._act(action)

    def _refuse(self, message: dict[str, Any], problem: str) -> None:
        self._refused = problem
        UPDATES.ask(self)
        number = message.get("_req")
        if isinstance(number, int) and number >= 0:  # the browser waits for it
            self._req = number
        self.send_state([name for name in message if name in self.keys and name[0] != "_"])

    @validate("_action")
    def _complete(self, proposal: dict[str, Any]) -> Action:
        action: Action = proposal["value"]
        kinds = {key: type(value) for key, value in action.items()}
        needed = {"name": str, "number": int}
        if kinds not in (needed, {**needed, "folder": str}, {}):
            msg = "an action has the name of a button, a number, and perhaps a folder"
            raise TraitError(msg)
        return action

    def _act(self, action: Action) -> None:
        """Run the method of a button, and answer with what it returns or why it failed.

        A folder given by the user is not kept, because notebooks are saved with the state.
        """
        name, number, folder = action["name"], action["number"], action.get("folder")
        given = {FOLDER: folder} if folder else {}
        try:
            returned = self._method(name, *given)(**given)
            text, failed = describe(returned, self._trace_folders), False
            files = files_of(returned)
        except Exception as failure:  # noqa: BLE001  # it is shown in the panel
            text, failed, files = reason(failure), True, []
        text = self._shortening(folder)(text)
        self._written = {file.name: file for file in files}
        self._answer = {"number": number, "text": text, "failed": failed, "files": [*self._written]}
        self._action = {"name": name, "number": number}

    def _method(self, name: str, *given: str) -> Callable[..., Any]:
        """The method behind a button; a browser can call no other methods."""
        button = self.buttons.get(name)
        if button is None:
            msg = f"{type(self).__name__} has no button {name!r}"
            raise HtaWidgetsError(msg)
        if given and not button.takes_folder:
            msg = f"{button.label!r} of {type(self).__name__} does not write into a folder"
            raise HtaWidgetsError(msg)
        method: Callable[..., Any] = getattr(self, name)
        return method

    def _folder(self, output_dir: PathLike | None) -> Path:
        """Folder that a button writes to: the given one, the panel's, or the working folder."""
        return Path(output_dir or self.output_dir or "").expanduser()

    def _shortening(self, folder: PathLike | None = None) -> Callable[[str], str]:
        """Make a function that shortens paths in texts that are saved with a notebook."""
        others = [Path(each).expanduser() for each in (self.output_dir, folder) if each]
        return without_folders(self._trace_folders.union(others))

    @cached_property
    def _trace_folders(self) -> frozenset[Path]:
        return frozenset(source.path.parent for job in self.jobs for source in job.sources.values())

    def _handle_custom_msg(self, content: Any, buffers: Any) -> None:  # noqa: ANN401
        """Answer messages about the shown table and written files; pass others to listeners."""
        if is_about_table(content):
            self._answer_about_table(content)
        elif is_about_file(content):
            self.send(*answer_about_file(content, self._written))
        else:
            super()._handle_custom_msg(content, buffers)

    @locked
    def _answer_about_table(self, content: dict[str, Any]) -> None:
        if rendered := self._rendered:
            listed, names = rendered.listed, rendered.names
            self.send(*answer_about_table(content, lambda: listed, names, self._memo))

    # The selection

    def _follow(self) -> None:
        self.observe(self._ask_update, ["_req", "_visible", *self._parameters])
        for name in self._linked:
            self.observe(self._set_in_selection, name)
        self.selection.join(self)

    @validate(*LINKED_FIELDS)
    def _as_in_selection(self, proposal: dict[str, Any]) -> list[int]:
        return self.selection.picked(proposal["trait"].name, proposal["value"])

    def _set_in_selection(self, change: Bunch) -> None:
        setattr(self.selection, change.name, change.new)

    def _selection_changed(self, name: str) -> None:
        """Take over a field of the selection."""
        if name in self._linked:
            setattr(self, name, getattr(self.selection, name))
        elif name in self.follows:
            UPDATES.ask(self)

    # When a panel is computed
    #
    # A hidden panel is computed when it becomes visible, or when the browser or Python asks for its
    # view. While the view does not match the current values, because it is being computed or the
    # computation was interrupted, `_activity` says so.

    _view = typed_dict(NOTHING_YET).tag(sync=True, to_json=as_text)
    _activity = literal(Activity).tag(sync=True)

    def notify_change(self, change: Any) -> None:  # noqa: ANN401
        """Notify everything that follows a trait before anything computes."""
        with UPDATES.together():
            super().notify_change(change)

    def _ask_update(self, _: object) -> None:
        UPDATES.ask(self)

    @property
    def depends_on(self) -> tuple[str, ...]:
        """Fields of the selection that change what is counted or shown."""
        return (*self._linked, *self.follows)

    def _inputs(self) -> tuple[object, ...]:
        """Everything that the view depends on and that can change."""
        values = [getattr(self, name) for name in self._parameters]
        values += [getattr(self.selection, name) for name in self.follows]
        return tuple(tuple(value) if isinstance(value, list) else value for value in values)

    @property
    def _outdated(self) -> bool:
        return self._computed is None or self._computed.inputs != self._inputs()

    @property
    def _in_sight(self) -> bool:
        """Whether the panel is visible.

        A panel that no browser has reported on counts as visible until a browser reports on another
        panel: there is a page then, and this panel is not on it. A panel that computes on demand
        counts as hidden.
        """
        if self._visible is None:
            return not (self._on_demand or self.selection.is_on_page)
        return self._visible

    @observe("_visible")
    def _is_on_page(self, _: object) -> None:
        self.selection.is_on_page = True

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
            self._publish(computed.outcome)

    @property
    def _rendered(self) -> RenderedView[ResultT] | None:
        """The last computed view; None before the first, or if it failed."""
        outcome = self._computed.outcome if self._computed else None
        return outcome if isinstance(outcome, RenderedView) else None

    @locked
    def _current(self) -> RenderedView[ResultT]:
        for name in self._linked:
            self._selection_changed(name)
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
            self._publish(outcome)
        except BaseException:
            self._tell_interrupted()
            raise
        if self._computed is None:
            return_freed_memory()  # up to 70 MB for 1.5 M events
        self._computed = Computed(inputs, outcome)
        return outcome

    def _announce(self) -> None:
        """Tell the browser that a newer view is on its way, unless it asked for one."""
        if self._outdated and self._in_sight and not self._requested:
            self._activity = "computing"

    def _publish(self, outcome: RenderedView[ResultT] | Exception) -> None:
        view = self._view_of(outcome)
        self._refused = None
        with self.hold_sync():
            self._view = view
            self._activity = "idle"
            self._set_verdict(
                self._verdict_of(outcome), plain_selection(self.selection, self.depends_on)
            )

    def _verdict_of(self, outcome: RenderedView[ResultT] | Exception) -> str:
        """The finding, regardless of refused messages, or the reason for a failure."""
        if isinstance(outcome, Exception):
            return self._shortening()(reason(outcome))
        return "\n".join(with_notices(self._view["finding"], self._view["notices"]))

    def _tell_interrupted(self) -> None:
        """Tell the browser that the view does not match the current values."""
        if self._outdated:
            with self.hold_sync():
                self._view = {**self._view, "rev": self._req}
                self._activity = "interrupted"

    # What is computed and shown

    def _outcome(self) -> RenderedView[ResultT] | Exception:
        try:
            return self._render()
        except Exception as failure:  # noqa: BLE001  # it is shown in the panel
            return failure

    def _render(self) -> RenderedView[ResultT]:
        self._refuse_too_many_ranks()
        result = self.analyse(self.ranks)
        words = words_of(self.job)
        said, empty = words(self.sentence(result)), self.nothing_to_show(result)
        if empty is not None:
            is_said, empty = said == words(empty), words(with_recipe(empty))
            said = empty if is_said else said
        drawings = {} if empty else self.draw(result)
        table, findings = self.tabulate(result), self.list_findings(result)
        look = TableLook(
            self.table_selects, self.table_labels, self.table_besides, self.table_names, words
        )
        listed = self.tabulate(self.of_all_ranks(result)) if self.table_of_all else table
        return RenderedView(
            result,
            said,
            [*map(words, self._notices(result))],
            empty,
            drawings,
            table,
            findings,
            self.title_findings(result),
            listed,
            look,
        )

    def _refuse_too_many_ranks(self) -> None:
        if self.any_number_of_ranks or not self.job.too_many_to_hold(self.ranks):
            return
        count, limit = len(self.job.select_ranks(self.ranks)), self.job.hold_at_most
        msg = (
            f"{count} ranks are selected, but this panel shows at most {limit} ranks of a job of "
            f"this size; select fewer (selection.ranks = {list(self.job.ranks[:2])})"
        )
        raise ParameterError(msg)

    def _notices(self, result: ResultT) -> list[str]:
        if self._job_notices:
            return list(result.notices)
        ranks = self.job.select_ranks(self.ranks)
        said = {notice for some in (ranks, *zip(ranks)) for notice in self.job.notices_for(some)}
        return [notice for notice in result.notices if notice not in said]

    def _shows_gpu_work(self) -> bool:
        """Whether the shown ranks have GPU work; if not, a panel shows CPU time.

        If there are too many ranks to hold in memory, the first one stands for all.
        """
        known = [rank for rank in self.ranks if rank in self.job.ranks] or [*self.job.ranks]
        first_only = self.job.too_many_to_hold(known)
        return self.job.has_gpu_work(known[:1] if first_only else known)

    def _view_of(self, outcome: RenderedView[ResultT] | Exception) -> View:
        view = self._view
        if isinstance(outcome, Exception):
            view = {**view, "rev": self._req, "error": self._refused or reason(outcome)}
        else:
            view = outcome.view(self._memo, rev=self._req, error=self._refused)
        shorten = self._shortening()
        error = None if view["error"] is None else shorten(view["error"])
        notices = [*map(shorten, view["notices"])]
        return {**view, "time": self._time(), "error": error, "notices": notices}

    @property
    def marked(self) -> tuple[str, ...]:
        """Names of the kernels or operators in this panel that the shown finding is about."""
        if (place := self.selection.finding) is None:
            return ()
        finding = diagnosis_of_phase(self.job, self.selection.served_phase).shown(place)
        links = finding.links if finding else ()
        return next((each.names for each in links if each.panel == self.name), ())

    def _time(self) -> str:
        """The time that the panel counts, in words; empty means all."""
        return self.selection.time_in_words(self.follows)
