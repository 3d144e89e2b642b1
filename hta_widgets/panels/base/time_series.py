"""What the panels of quantities over time share: a window of time, and writing them out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from traitlets import Float, List, TraitError, validate

from hta_widgets.export.trace_with_counters import DEFAULT_SUFFIX, write_traces_with_counters
from hta_widgets.panels.base.panel import Panel

_START_AND_END = 2


class TimeSeriesPanel(Panel):
    """A quantity over time; a zoom into the figure sets the window."""

    window_us: List[float] = List(Float()).tag(sync=True)
    """Start and end of the time shown, in µs since the job's origin; an empty list means all."""

    def write_counters(self, output_suffix: str = DEFAULT_SUFFIX) -> list[Path]:
        """Write copies of the selected ranks' traces that hold the time series as counters.

        Queue lengths and memory bandwidths are both written, for `Perfetto
        <https://ui.perfetto.dev>`_ or ``chrome://tracing``, beside the traces.

        Returns
        -------
        list of Path
            The files written; a rank without anything to count has none.
        """
        return write_traces_with_counters(self.job, ranks=self.ranks, output_suffix=output_suffix)

    @validate("window_us")
    def _start_before_end(self, proposal: dict[str, Any]) -> list[float]:
        window: list[float] = proposal["value"]
        if window and (len(window) != _START_AND_END or not window[0] < window[1]):
            msg = f"window_us is {window}; it is [start, end] in µs, or [] for all"
            raise TraitError(msg)
        return window
