"""The dashboard of a job: verdict, budget, timeline and tabs of panels that share one selection.

Its bands are computed only for a page or a report, and a panel in a tab only when it is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import anywidget
import pandas as pd
from traitlets import Bool, List, TraitError, Unicode, validate

from hta_widgets.analyses.plain_text import bounded
from hta_widgets.diagnosis import Diagnosis, diagnosis_of_phase
from hta_widgets.diagnosis.change.baseline import SUFFIX
from hta_widgets.diagnosis.change.summary import Summary
from hta_widgets.diagnosis.rank_answers import replay_of_ranks
from hta_widgets.errors import check_choice, reason
from hta_widgets.panels.bands.bands import NOT_YET, bands_of, first_screen, together
from hta_widgets.panels.bands.detail import go_to_event
from hta_widgets.panels.bands.events import selected_events
from hta_widgets.panels.bands.messages import BoardSpec, Tab
from hta_widgets.panels.bands.own_panels import OF_DIAGNOSIS, OF_TWO_JOBS, JobPanel, panels_of_two
from hta_widgets.panels.bands.search import kernel_times, options
from hta_widgets.panels.bands.second_job import SecondJobPanel, opened
from hta_widgets.panels.bands.summary import dashboard_summary
from hta_widgets.panels.bands.tabs import tabs_of
from hta_widgets.panels.base.drawn_widget import DrawnWidget, Source
from hta_widgets.panels.base.memoize import MemoizeLast
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.protocol import Option
from hta_widgets.panels.base.selection import TIME_FIELDS, Selection, plain_selection
from hta_widgets.panels.base.table import answer_about_table, is_about_table
from hta_widgets.panels.base.traits import Integers, references, typed_dict
from hta_widgets.panels.base.updates import UPDATES, locked
from hta_widgets.panels.base.view import as_text
from hta_widgets.panels.every import PANELS
from hta_widgets.panels.timeline import TimelinePanel
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.freed_memory import return_freed_memory
from hta_widgets.trace.opening.open import as_job
from hta_widgets.trace.ranks.cycle import descriptions
from hta_widgets.trace.remote.urls import PathLike


class Dashboard(DrawnWidget):
    """Why a job is slow, where a step goes, and panels with details, which share one selection.

    Parameters
    ----------
    source : Job, TraceAnalysis, path, list of paths or mapping of rank to path
        What to analyse.
    compare : Job, TraceAnalysis, path, list of paths, mapping of rank to path, Summary, optional
        A second job, such as a later run, that the tab *Compare* compares with the first; or a
        baseline: a `Summary`, or the path of an ``.arrow`` file. Without it, the tab offers traces
        next to those of the job.
    cycle : int, optional
        Which cycle to show if the traces have several: 0 is the oldest, -1 the newest. Defaults to
        the newest, or to that of a given job. The header has a menu of cycles.
    output_dir : path, optional
        Where the buttons of the panels write; by default next to the traces, for some in the
        working folder.
    tab : str, optional
        The tab to open first, such as ``"kernels"``; defaults to that of the first finding.
    layout : ipywidgets.Layout or dict, optional
        Size and place of the widget.

    Attributes
    ----------
    job : Job
    selection : Selection
        What is selected in all panels.
    header : Panel
        The panel with the name of the job, its ranks and what was left out.
    panels : dict of str to Panel
        The panels by the name of their analysis; hidden panels compute on demand.
    panel : str
        Name of the panel that the tabs show; setting another name opens its tab.
    unticked : tuple of int
        Positions of the findings that the combined saving does not include.
    """

    from_browser = frozenset({"_visible"})

    panel = Unicode().tag(sync=True)
    unticked = Integers().tag(sync=True)

    _panels = List(anywidget.WidgetTrait()).tag(sync=True, to_json=references)
    _selection = anywidget.WidgetTrait().tag(sync=True)
    _spec = typed_dict(
        BoardSpec(
            names=[],
            titles=[],
            follows=[],
            tabs=[],
            timeline=None,
            what_if=None,
            cycles=[],
            cycle=0,
        )
    ).tag(sync=True)
    _bands = typed_dict(NOT_YET).tag(sync=True, to_json=as_text)
    _together = Unicode().tag(sync=True)
    _options = cast("List[Option]", List()).tag(sync=True)
    _visible = Bool(default_value=False).tag(sync=True, echo_update=False)

    def __init__(
        self,
        source: Source,
        *,
        compare: Source | Summary | None = None,
        cycle: int | None = None,
        output_dir: PathLike | None = None,
        tab: str | None = None,
        **traits: Any,  # noqa: ANN401
    ) -> None:
        if unknown := sorted({*traits} - {*self.class_trait_names()}):
            msg = f"Dashboard has no parameter {', '.join(unknown)}; help(Dashboard) lists them"
            raise TypeError(msg)
        job = as_job(source, cycle)
        with ExitStack() as unfinished:
            self._take(job, _as_second(compare), unfinished)
            spec = self._describe()
            opened = _first(spec) if tab is None else _main(spec, tab)
            super().__init__(
                _panels=self._children(),
                _selection=self.selection,
                _spec=spec,
                **{"panel": opened} | traits,
            )
            unfinished.pop_all()
        self.output_dir = output_dir
        self._is_chosen = tab is not None or "panel" in traits
        self.selection.join(self)
        self._set_verdict("", plain_selection(self.selection))
        self.observe(self._ask_update, ["_visible", "unticked"])
        self.observe(self._keep_panel, "panel")
        self.on_msg(self._act)

    def _take(self, job: Job, compare: Job | Summary | None, unfinished: ExitStack) -> None:
        """Make the panels of a job, then switch to it; nothing changes if that fails."""
        header = unfinished.enter_context(closing(JobPanel(job)))
        panels = {
            name: unfinished.enter_context(closing(make())) for name, make in _makers(job).items()
        }
        for name, panel in panels_of_two(job, compare, _timeline(panels)).items():
            panels[name] = unfinished.enter_context(closing(panel))
        picker = SecondJobPanel(job, self._compare_with, job_notices=False, on_demand=True)
        picker.say(compare)
        panels[picker.name] = unfinished.enter_context(closing(picker))
        self.job, self._compare, self.header, self.panels = job, compare, header, panels
        self._picker = picker
        self.selection = Selection.of(job)
        self._shown_for: dict[str, Any] | None = None
        self._memo = MemoizeLast()

    def _describe(self) -> BoardSpec:
        names = [*self.panels]
        cycles = self.job.cycles
        return BoardSpec(
            names=names,
            titles=[panel.title for panel in self.panels.values()],
            follows=[
                [each for each in (*TIME_FIELDS, "streams") if each in panel.depends_on]
                for panel in self.panels.values()
            ],
            tabs=tabs_of({name: type(panel) for name, panel in self.panels.items()}),
            timeline=1 + names.index("timeline") if "timeline" in names else None,
            what_if=1 + names.index("what_if") if "what_if" in names else None,
            cycles=descriptions(cycles) if len(cycles) > 1 else [],
            cycle=self.job.cycle,
        )

    @property
    def cycle(self) -> int:
        """Number of the shown cycle, from 0; settable, where -1 is the newest.

        Setting it replaces the panels and the selection by those of the cycle's job.
        """
        return self.job.cycle

    @cycle.setter
    def cycle(self, cycle: int) -> None:
        job = self.job.open_cycle(cycle)
        if job is not self.job:
            self._change_to(job)

    @locked
    def _change_to(self, job: Job) -> None:
        """Show another cycle in the open tab; if it is the compared one, the two are swapped."""
        left, selection, output_dir = self._children(), self.selection, self.output_dir
        compared = self._compare
        if isinstance(compared, Job) and compared.cycles == job.cycles:
            compared = self.job if compared.cycle == job.cycle else compared
        with ExitStack() as unfinished:
            self._take(job, compared, unfinished)
            unfinished.pop_all()
        self.output_dir = output_dir
        with self.hold_sync():
            self._show_panels()
            self._selection, self._bands = self.selection, NOT_YET
            self._options, self.unticked = [], ()
            self._set_verdict("", {})
        selection.leave(self)
        self.selection.join(self)
        for panel in left:
            panel.close()
        UPDATES.ask(self)

    def _show_panels(self) -> None:
        """Tell a page about other panels; the shown panel stays if it still exists."""
        self._panels, self._spec = self._children(), self._describe()
        if self.panel not in _shown(self._spec):
            self.panel = _first(self._spec)

    @property
    def tab(self) -> str:
        """Name of the open tab; setting it shows the tab's main panel.

        Raises
        ------
        ParameterError
            If there is no tab with this name.
        """
        tabs = self._spec["tabs"]
        return next((tab["name"] for tab in tabs if self.panel in _inside(self._spec, tab)), "")

    @tab.setter
    def tab(self, name: str) -> None:
        self.panel = _main(self._spec, name)
        self._is_chosen = True  # even if it is the tab that would open first

    @property
    def compare(self) -> Job | Summary | None:
        """The second job; settable to anything that can be opened, or to None to stop comparing."""
        return self._compare

    @compare.setter
    def compare(self, source: Source | Summary | None) -> None:
        self._compare_with(_as_second(source))

    def _compare_with(self, second: Job | Summary | None) -> None:
        self._compare = second
        made = panels_of_two(self.job, self._compare, _timeline(self.panels))
        was_open = self.tab == SecondJobPanel.tab
        left = [self.panels.pop(name) for name in OF_TWO_JOBS if name in self.panels]
        self.panels |= made
        for panel in made.values():
            panel.output_dir = self.output_dir
        picker = self._picker
        with self.hold_sync(), picker.hold_sync():
            picker.say(second)
            self._show_panels()
            self.panel = next(iter(made), picker.name if was_open else self.panel)
        for panel in left:
            panel.close()

    @property
    def findings(self) -> Diagnosis:
        """The diagnosis of all ranks: its items are the findings."""
        return diagnosis_of_phase(self.job, self.selection.served_phase)

    @property
    def events(self) -> pd.DataFrame:
        """The selected GPU work and its launches: see `selected_events`."""
        return selected_events(self.job, self.selection)

    @property
    def table(self) -> pd.DataFrame:
        """The table of the panel that the tabs show."""
        return self.panels[self.panel].table if self.panel else pd.DataFrame()

    @property
    def output_dir(self) -> PathLike | None:
        """Where the buttons of all panels write."""
        return self.header.output_dir

    @output_dir.setter
    def output_dir(self, folder: PathLike | None) -> None:
        for panel in self._children():
            panel.output_dir = folder

    def report_state(self) -> dict[str, Any]:
        """The options of the search, which a live page requests instead."""
        return {"_options": self._options or options(self.job)}

    def close(self) -> None:
        """Close the dashboard and its panels."""
        self.selection.leave(self)
        for panel in self._panels:
            panel.close()
        super().close()

    def __repr__(self) -> str:
        """Job and names of the panels."""
        return f"Dashboard({self.job!r}: {', '.join(self.panels)})"

    @validate("panel")
    def _known_panel(self, proposal: dict[str, Any]) -> str:
        panel: str = proposal["value"]
        names = _shown(self._spec)
        if names and panel not in ("", *names):
            msg = f"panel must be one of {', '.join(names)}, got {panel!r}"
            raise TraitError(msg)
        return panel

    def _children(self) -> list[Panel[Any]]:
        return [self.header, *self.panels.values()]

    def _selection_changed(self, name: str) -> None:
        """Follow the selection; each phase of a server has its own findings."""
        if name == "phase":
            self.unticked = ()
        UPDATES.ask(self)

    def _keep_panel(self, _: object) -> None:
        """Remember that somebody chose a panel, so that no verdict replaces it."""
        self._is_chosen = True

    def _ask_update(self, _: object) -> None:
        UPDATES.ask(self)

    def _act(self, _: object, message: object, __: object) -> None:
        """Do what a page requests, or send the selected events as text."""
        if not isinstance(message, dict):
            return
        if is_about_table(message):
            self._answer_about_events(message)
            return
        name = message.get("act")
        if not isinstance(name, str):
            return
        actions: dict[str, Callable[[], None]] = {
            "cycle": partial(self._show_cycle, message.get("cycle")),
            "undo": self.selection.undo,
            "next": partial(go_to_event, self.job, self.selection, 1),
            "previous": partial(go_to_event, self.job, self.selection, -1),
            "search": self._offer,
        }
        try:
            if name in actions:
                actions[name]()
        except Exception as failure:  # noqa: BLE001  # it is shown in the dashboard
            self._bands = {**self._bands, "error": reason(failure)}
            self._shown_for = None

    def _show_cycle(self, number: object) -> None:
        """Show the cycle that a page requests, if the menu has it."""
        if type(number) is int and 0 <= number < len(self.job.cycles):
            self.cycle = number

    @locked
    def _answer_about_events(self, content: dict[str, Any]) -> None:
        selected = repr(self.selection.values())
        events = partial(self._memo.get, "events", lambda: self.events, selected)
        self.send(*answer_about_table(content, events, {}, self._memo))

    @locked
    def _offer(self) -> None:
        """List what the search finds; that takes long if ranks must be loaded."""
        self._options = self._options or options(self.job)

    def _announce(self) -> None:
        """Keep the bands while newer ones are computed."""

    def _tell_interrupted(self) -> None:
        self._shown_for = None

    def _update(self) -> None:
        """Report what is selected, and compute the bands if a page shows them."""
        self._set_verdict(self.verdict, plain_selection(self.selection))
        if self._visible:
            self.compute_all()

    @locked
    def compute_all(self) -> None:
        """Compute the bands for the selection, with any failure, even if no page shows them."""
        wanted = {**self.selection.values(), "unticked": self.unticked}
        before = self._shown_for or {}
        if wanted == before:
            return
        try:
            first = self.job.remember(first_screen)
            phase = self.selection.served_phase
            ticked = {"unticked": self.unticked, "phase": self.selection.phase}
            if not before.items() >= ticked.items():
                rest = together(self.findings, self.unticked) if self.unticked or phase else ""
                self._together = rest or first["together"]
            if before != {**wanted, "unticked": before.get("unticked")}:
                is_all = self.selection.values() == self.selection.nothing()
                self._bands = first["bands"] if is_all else bands_of(self.findings, self.selection)
                self.job.forget(replay_of_ranks)  # 60 MB for 1.5 M events
            self._set_verdict(self._verdict(), plain_selection(self.selection))
            self._open_answer(first["answer"])
        except Exception as failure:  # noqa: BLE001  # it is shown in the dashboard
            self._bands = {**self._bands, "error": reason(failure)}
        self._shown_for = wanted

    def _verdict(self) -> str:
        """The report of the diagnosis, without folders of this machine."""
        return self.header._shortening()(self.job.remember(first_screen)["verdict"])  # noqa: SLF001

    def _repr_llm_(self) -> str:
        """What the diagnosis found, what is selected, and what to read next."""
        self.compute_all()
        said = [self.verdict or self._bands["error"] or "", "", f"Selected: {self.selected}"]
        then = f"panel.table, panel.verdict of one of panels: {', '.join(self.panels)}"
        return bounded("\n".join(said), f"Next: findings; {then}.")

    def _open_answer(self, answer: str) -> None:
        """Open the panel of the first finding, unless a panel was chosen before."""
        if not self._is_chosen and answer in _shown(self._spec):
            self.panel = answer
        self._is_chosen = True

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:  # noqa: ANN401
        self.compute_all()
        if self.panel:
            self.panels[self.panel].compute_all()
        data, metadata = super()._repr_mimebundle_(**kwargs) or ({}, {})
        html = self._summary()
        return_freed_memory()  # 70 MB for 1.5 M events
        return {**data, "text/html": html}, metadata

    def _summary(self) -> str:
        first = None if self._bands["error"] else self.job.remember(first_screen)
        timeline = self.panels["timeline"].summary() if "timeline" in self.panels else ""
        title, header = self.header._spec["title"], self.header._view  # noqa: SLF001
        return dashboard_summary(
            title,
            header,
            self._bands,
            budget=first["budget"] if first else {},
            timeline=timeline,
            kernels=kernel_times(self.job) if first else None,
        )


def _as_second(source: Source | Summary | None) -> Job | Summary | None:
    """The thing to compare with: a job, or a baseline if it is one or is named like one."""
    if source is None or isinstance(source, Summary):
        return source
    return opened(str(source)) if str(source).endswith(SUFFIX) else as_job(source)


def _timeline(panels: dict[str, Panel[Any]]) -> TimelinePanel | None:
    found = panels.get(TimelinePanel.name)
    return found if isinstance(found, TimelinePanel) else None


def _inside(spec: BoardSpec, tab: Tab) -> list[str]:
    """Names of the panels of a tab, the main one first."""
    return [spec["names"][place - 1] for place in tab["panels"]]


def _shown(spec: BoardSpec) -> list[str]:
    """Names of the panels in all tabs."""
    return [name for tab in spec["tabs"] for name in _inside(spec, tab)]


def _first(spec: BoardSpec) -> str:
    """Name of the panel that is shown until there is a verdict; empty if none shows the job.

    A page whose only tab compares jobs would begin by asking for another one.
    """
    return next((name for name in _shown(spec) if name != SecondJobPanel.name), "")


def _main(spec: BoardSpec, name: str) -> str:
    """Name of the main panel of a tab."""
    tabs = {tab["name"]: tab for tab in spec["tabs"]}
    check_choice("tab", name, tabs)
    return _inside(spec, tabs[name])[0]


def _makers(job: Job) -> dict[str, Callable[[], Panel[Any]]]:
    return {
        name: partial(panel, job, job_notices=False, on_demand=True)
        for name, panel in {**PANELS, **OF_DIAGNOSIS}.items()
        if panel.concerns(job)
    }


if TYPE_CHECKING:
    from hta_widgets.panels.base.selection import Follower

    _: type[Follower] = Dashboard
