"""All panels of a job on one page, linked."""

from __future__ import annotations

from typing import Any

import anywidget
import pandas as pd
from traitlets import List

from hta_widgets.analyses.result import Result
from hta_widgets.errors import number_ranges
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.panels.base.assets import shared_assets
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.parameters import Source
from hta_widgets.panels.base.protocol import PanelSpec
from hta_widgets.panels.base.selection import Selection
from hta_widgets.panels.base.summary import within
from hta_widgets.panels.base.traits import references
from hta_widgets.panels.cupti_counters import CuptiCountersPanel
from hta_widgets.panels.duration_tails import DurationTailsPanel
from hta_widgets.panels.idle_time import IdleTimePanel
from hta_widgets.panels.kernel_breakdown import KernelBreakdownPanel
from hta_widgets.panels.kernel_sequences import KernelSequencesPanel
from hta_widgets.panels.launch_overlap import LaunchOverlapPanel
from hta_widgets.panels.launch_stats import LaunchStatsPanel
from hta_widgets.panels.memory_bandwidth import MemoryBandwidthPanel
from hta_widgets.panels.overlap import OverlapPanel
from hta_widgets.panels.queue_length import QueueLengthPanel
from hta_widgets.panels.rank_overlap import RankOverlapPanel
from hta_widgets.panels.temporal_breakdown import TemporalBreakdownPanel
from hta_widgets.quantities import counted
from hta_widgets.trace.opening.open import as_job

PANELS: dict[str, type[Panel[Any]]] = {
    "temporal_breakdown": TemporalBreakdownPanel,
    "overlap": OverlapPanel,
    "rank_overlap": RankOverlapPanel,
    "kernel_breakdown": KernelBreakdownPanel,
    "idle_time": IdleTimePanel,
    "launch_stats": LaunchStatsPanel,
    "duration_tails": DurationTailsPanel,
    "launch_overlap": LaunchOverlapPanel,
    "queue_length": QueueLengthPanel,
    "memory_bandwidth": MemoryBandwidthPanel,
    "kernel_sequences": KernelSequencesPanel,
    "cupti_counters": CuptiCountersPanel,
}

SUMMARY_ROWS = 3
"""Rows of each panel's table in the dashboard's summary."""

SUMMARY_BYTES = 60_000
"""Most that the summary adds to a saved notebook."""


class JobPanel(Panel[Result]):
    """The job: its name, its ranks, and what was left out."""

    wide = True
    any_number_of_ranks = True

    def analyse(self, ranks: list[int]) -> Result:
        """Count the ranks of the job."""
        every = self.job.ranks
        finding = f"{counted(len(every), 'rank')}: {number_ranges(every)}."
        return Result(finding=finding, notices=self.job.notices_for(ranks or every))

    def draw(self, result: Result) -> dict[str, Drawing]:  # noqa: ARG002
        """Draw nothing: the job has no figure."""
        return {}

    def tabulate(self, result: Result) -> pd.DataFrame:  # noqa: ARG002
        """List the file of each rank."""
        sources = self.job.sources
        files = [source.name for source in sources.values()]
        return pd.DataFrame({"rank": list(sources), "file": files})

    def _describe(self) -> PanelSpec:
        return {**super()._describe(), "title": self.job.name}


class Dashboard(anywidget.AnyWidget):
    """All panels that apply to a job, sharing one selection.

    Parameters
    ----------
    source : Job, TraceAnalysis, path, list of paths or mapping of rank to path
        What to analyse.
    layout : ipywidgets.Layout or dict, optional
        Size and place of the widget.

    Attributes
    ----------
    job : Job
    selection : Selection
        What is selected in all panels.
    header : Panel
        The name of the job, its ranks and what was left out.
    panels : dict of str to Panel
        The panels by the name of their analysis.
    """

    _esm = Panel._esm  # noqa: SLF001  # the same file, which reloads assets first

    _assets = anywidget.WidgetTrait().tag(sync=True)
    _panels = List(anywidget.WidgetTrait()).tag(sync=True, to_json=references)

    _ipython_display_ = None
    """That of ipywidgets 7 would be used instead of `_repr_mimebundle_`, and has no HTML."""

    def __init__(self, source: Source, **traits: Any) -> None:  # noqa: ANN401
        self.job = as_job(source)
        self.selection = Selection.of(self.job)
        self.header = JobPanel(self.job)
        self.panels = {
            name: panel(self.job, job_notices=False)
            for name, panel in PANELS.items()
            if panel.concerns(self.job)
        }
        super().__init__(_assets=shared_assets(), _panels=self._children(), **traits)

    def close(self) -> None:
        """Close the dashboard and its panels."""
        for panel in self._children():
            panel.close()
        super().close()

    def __repr__(self) -> str:
        """Job and names of the panels."""
        return f"Dashboard({self.job!r}: {', '.join(self.panels)})"

    def _children(self) -> list[Panel[Any]]:
        return [self.header, *self.panels.values()]

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:  # noqa: ANN401
        data, metadata = super()._repr_mimebundle_(**kwargs) or ({}, {})
        summaries = (panel.summary(SUMMARY_ROWS) for panel in self._children())
        return {**data, "text/html": within(SUMMARY_BYTES, summaries)}, metadata
