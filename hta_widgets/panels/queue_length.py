"""Panel of the queue length."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import pandas as pd
from traitlets import Int, List

from hta_widgets.analyses.queue_length import QueueLength, queue_length
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.base.step_lines import step_lines
from hta_widgets.figures.queue_length import lines_of_streams, queue_lines
from hta_widgets.panels.base.controls import Button, Control, RankPicker, StreamPicker
from hta_widgets.panels.base.time_series import TimeSeriesPanel
from hta_widgets.trace.model.formats import Recorded


class QueueLengthPanel(TimeSeriesPanel):
    """How many operations wait on each stream: launched, but not yet begun."""

    title = "Queue length"
    wide = True
    needs = (Recorded.KERNELS,)
    controls: ClassVar[tuple[Control, ...]] = (
        RankPicker(),
        StreamPicker(),
        Button("write_counters", "Write as counters"),
    )

    streams: List[int] = List(Int()).tag(sync=True)
    """Streams shown; an empty list means all."""

    def analyse(self) -> QueueLength:
        """Count what waits on the selected ranks."""
        ranks = tuple(self.ranks)
        return self._latest.get("result", lambda: queue_length(self.job, ranks), ranks)

    def draw(self, result: QueueLength) -> dict[str, Drawing]:
        """Draw a step line for each stream."""
        lines = self._latest.get("lines", partial(queue_lines, result), result)
        drawn = lines_of_streams(lines, result, self.streams)
        figure = step_lines(drawn, window_us=self.window_us)
        return {"Operations launched and not yet begun": figure}

    def tabulate(self, result: QueueLength) -> pd.DataFrame:
        """One row per stream."""
        table = result.streams
        return table[table["stream"].isin(self.streams)] if self.streams else table

    def nothing_to_show(self, result: QueueLength) -> str | None:
        """Say so where nothing was launched, or nothing on the streams."""
        if result.streams.empty:
            return result.finding
        return "No operations on these streams." if self.tabulate(result).empty else None
