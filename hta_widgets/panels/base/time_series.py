"""Base of the panels of quantities over time: a time window, and a button that writes traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from traitlets import Float, List, TraitError, validate

from hta_widgets.export.trace_with_counters import DEFAULT_SUFFIX, write_traces_with_counters
from hta_widgets.panels.base.declarations import button
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.parameters import PanelParameters
from hta_widgets.panels.base.rendered_view import ResultT

_START_AND_END = 2


class TimeSeriesParameters(PanelParameters, total=False):
    """Parameters that every panel of a quantity over time takes."""

    window_us: list[float]


class TimeSeriesPanel(Panel[ResultT]):
    """A quantity over time; a zoom into the figure sets the window, `window_us`."""

    window_us = List(Float()).tag(sync=True)

    @button("Write traces with counters")
    def write_counters(self, output_suffix: str = DEFAULT_SUFFIX) -> list[Path]:
        """Write copies of the selected ranks' traces with the time series as counters.

        Both queue length and memory bandwidth are written, for `Perfetto
        <https://ui.perfetto.dev>`_ or ``chrome://tracing``, next to the traces.

        Returns
        -------
        list of Path
            The files written; none for ranks without counters.
        """
        return write_traces_with_counters(self.job, ranks=self.ranks, output_suffix=output_suffix)

    @validate("window_us")
    def _start_before_end(self, proposal: dict[str, Any]) -> list[float]:
        window: list[float] = proposal["value"]
        if window and (len(window) != _START_AND_END or not window[0] < window[1]):
            msg = f"window_us must be [start, end] in µs, or [] for all, got {window}"
            raise TraitError(msg)
        return window
