"""Panel of the queue length: operations launched but not yet started, over time."""

from __future__ import annotations

from functools import partial

import pandas as pd
from traitlets import Int, List

from hta_widgets.analyses.queue_length import QueueLength, queue_length
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.base.step_lines import step_lines
from hta_widgets.figures.queue_length import lines_of_streams, queue_lines
from hta_widgets.panels.base.controls import STREAM_PICKER
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.time_series import TimeSeriesPanel
from hta_widgets.trace.model.formats import Recorded


class QueueLengthPanel(TimeSeriesPanel[QueueLength]):
    """Number of operations on each stream that are launched but have not started."""

    name = "queue_length"
    tab = "idle"
    place = 5
    title = "Queue length"
    needs = (Recorded.KERNELS,)
    needs_gpu_work = True

    streams: list[int] = parameter(List(Int()), STREAM_PICKER)
    """Streams to show; an empty list means all."""

    def analyse(self, ranks: list[int]) -> QueueLength:
        """Count the waiting operations of the ranks."""
        return self._memo.call(queue_length, self.job, tuple(ranks))

    def draw(self, result: QueueLength) -> dict[str, Drawing]:
        """Draw a step line for each stream."""
        lines = self._memo.get("lines", partial(queue_lines, result, self.shift_ns), result)
        drawn = lines_of_streams(lines, result, self.streams)
        figure = step_lines(drawn, window_us=self.window_us)
        return {"Operations launched but not yet started": figure}

    def tabulate(self, result: QueueLength) -> pd.DataFrame:
        """List the streams."""
        table = result.streams
        return table[table["stream"].isin(self.streams)] if self.streams else table

    def nothing_to_show(self, result: QueueLength) -> str | None:
        """Explain an empty panel: no launched operations, or none on the selected streams."""
        if result.streams.empty:
            return result.finding
        if self.tabulate(result).empty:
            return "No launched operations on the selected streams."
        return None
