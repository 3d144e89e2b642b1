"""Base of the widgets that the front end's loader draws: panels and dashboards."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakSet

import anywidget
from traitlets import Dict, Unicode, default

from hta_widgets.analyses.plain_text import bounded
from hta_widgets.panels.base.assets import reload_assets, shared_assets
from hta_widgets.panels.base.front_end import static_file
from hta_widgets.panels.base.report.graph import completed, saved_models
from hta_widgets.panels.base.report.page import page, report_target, write_report
from hta_widgets.panels.base.updates import locked
from hta_widgets.panels.base.widget import Widget
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.live_profiler import LiveProfiler
from hta_widgets.trace.opening.open import HasJob
from hta_widgets.trace.remote.urls import PathLike, TraceSource

Source: TypeAlias = Job | HasJob | TraceSource | LiveProfiler
"""What a widget can open: a job, a `TraceAnalysis`, paths or URLs, a profiler."""

_PART_BYTES: Final = 20_000
"""Maximum size of the summary of each panel in the report of a dashboard."""

_MOST_OF_VERDICT: Final = 6_500
"""Maximum length of the verdict; with the selection, it stays below `MOST_CHARACTERS`."""


class _Loader(anywidget.AnyWidget):
    """Never instantiated: it has anywidget watch the file of the class, if ANYWIDGET_HMR=1.

    The watched file would keep widgets of its class in memory, even once they are closed.
    """

    _esm = static_file("loader.js")


class DrawnWidget(Widget):
    """A widget of a job, drawn by the front end in the kernel's assets."""

    if TYPE_CHECKING:
        job: Job = field(init=False)

    verdict = Unicode(read_only=True).tag(sync=True)
    """The finding about what is shown, in words; empty until it is computed for a page or a report.
    Read-only, for programs and hosts that see only the traits of a widget."""

    selected: Dict[str, object] = Dict(read_only=True).tag(sync=True)
    """What is selected, as plain values by field of `Selection`, omitting fields that select all:
    see `plain_selection`. For a panel, only the fields that its `verdict` depends on."""

    _esm = Unicode().tag(sync=True)
    _assets = anywidget.WidgetTrait().tag(sync=True)

    _ipython_display_ = None
    """ipywidgets 7 has one without HTML, which would replace `_repr_mimebundle_`."""

    def __init__(self, **traits: Any) -> None:  # noqa: ANN401
        super().__init__(_assets=shared_assets(), **traits)
        _open.add(self)

    @locked
    def to_html(self, path: PathLike, *, progress: bool = False) -> Path:
        """Save as one HTML file with interactive charts and tables that needs no kernel or network.

        The file has the current parameters, which are fixed. All panels are computed first, even
        those that no page shows. Like a saved notebook, it contains names and numbers of the trace,
        but no folders of this machine.

        Parameters
        ----------
        path : path
            A path in an existing folder that ends in ``.html``. An earlier report is replaced.
        progress : bool
            Show a progress bar if it takes long.

        Returns
        -------
        Path
            The file written.

        Raises
        ------
        ParameterError
            If the path is unsuitable for a report, or an existing file there is not a report.
        WriteError
            If the system refuses to write it.
        """
        target = report_target(path)
        widgets = completed(self, progress=progress)
        bundle: Any = self._repr_mimebundle_()
        parts = [each.summary(_PART_BYTES) for each in widgets[1:] if isinstance(each, DrawnWidget)]
        summaries = [bundle[0]["text/html"], *filter(None, parts)]
        write_report(target, page(self.job.name, summaries, saved_models(widgets)))
        return target

    def _set_verdict(self, verdict: str, selected: dict[str, object]) -> None:
        """Set the read-only traits."""
        with self.hold_sync():
            self.set_trait("verdict", bounded(verdict, most=_MOST_OF_VERDICT))
            self.set_trait("selected", selected)

    def summary(self, limit: int) -> str:  # noqa: ARG002
        """Return what is shown as HTML without scripts, limited to a size (bytes)."""
        return ""

    @default("_esm")
    def _loader(self) -> str:
        return str(_Loader._esm)  # noqa: SLF001


_open: WeakSet[DrawnWidget] = WeakSet()


def _reload(loader: str) -> None:
    """Send rebuilt modules, and then the loader, which imports them into open widgets."""
    reload_assets()
    for widget in list(_open):
        widget._esm = loader  # noqa: SLF001


_Loader._esm.changed.connect(_reload)  # type: ignore[attr-defined]  # noqa: SLF001
