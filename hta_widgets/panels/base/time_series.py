"""Base classes for panels of quantities over time: a time window, and a button to write traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from traitlets import Float, List, TraitError, validate

from hta_widgets.analyses.clocks.aligned import alignment_notices, common_offsets_ns
from hta_widgets.export.trace_with_counters import DEFAULT_SUFFIX, write_traces_with_counters
from hta_widgets.panels.base.declarations import button, parameter
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.rendered_view import ResultT
from hta_widgets.quantities import NS_PER_US
from hta_widgets.trace.remote.urls import PathLike

_START_AND_END = 2


class ZoomedPanel(Panel[ResultT]):
    """A quantity over time; a zoom into the figure sets the window, `window_us`.

    Selecting a window for all panels, `Selection.window_ns`, sets it too. The lines of all ranks
    share one axis: µs since the first event of all ranks, on their aligned clocks.
    """

    window_us: list[float] = parameter(List(Float()))
    """Start and end of the time shown, in µs since the job's origin; an empty list means all."""

    @property
    def shift_ns(self) -> dict[int, int]:
        """Time (ns) between the recorded and the common clock, for each rank shown."""
        ranks = self.job.select_ranks(self.ranks)
        recorded, common = self.job.offsets_ns(ranks), common_offsets_ns(self.job)
        return {rank: common[rank] - recorded[rank] for rank in ranks}

    def _notices(self, result: ResultT) -> list[str]:
        ranks = self.job.select_ranks(self.ranks)
        return [*super()._notices(result), *alignment_notices(self.job, ranks)]

    def _follow(self) -> None:
        super()._follow()
        if not self.window_us:
            self._zoom_to_selection()

    def _selection_changed(self, name: str) -> None:
        super()._selection_changed(name)
        if name == "window_ns":
            self._zoom_to_selection()

    def _zoom_to_selection(self) -> None:
        """Show the selected window, or all of the time if none is selected."""
        window_ns = self.selection.window_ns
        self.window_us = [edge_ns / NS_PER_US for edge_ns in window_ns or ()]

    @validate("window_us")
    def _start_before_end(self, proposal: dict[str, Any]) -> list[float]:
        window: list[float] = proposal["value"]
        if window and (len(window) != _START_AND_END or not window[0] < window[1]):
            msg = f"window_us must be [start, end] in µs, or [] for all, got {window}"
            raise TraitError(msg)
        return window


class TimeSeriesPanel(ZoomedPanel[ResultT]):
    """A quantity over time that can be written into copies of the traces."""

    @button("Export for Perfetto…")
    def write_counters(
        self, output_suffix: str = DEFAULT_SUFFIX, output_dir: PathLike | None = None
    ) -> list[Path]:
        """Write copies of the selected ranks' traces, with the time series as counters.

        Both queue length and memory bandwidth are written, for `Perfetto
        <https://ui.perfetto.dev>`_ or ``chrome://tracing``. The copies go to `output_dir`, by
        default the panel's, or else next to the traces.

        Returns
        -------
        list of Path
            The files written; ranks without counters have none.
        """
        return write_traces_with_counters(
            self.job,
            ranks=self.ranks,
            output_suffix=output_suffix,
            output_dir=self.output_dir if output_dir is None else output_dir,
        )
