"""Panel of the idle time."""

from __future__ import annotations

from typing import ClassVar

import pandas as pd
from traitlets import Bool, Enum, Float, Int, List

from hta_widgets.analyses.idle_time import IdleTime, idle_time
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.idle_time import idle_time_of_devices, idle_time_of_streams
from hta_widgets.panels.base.controls import Choice, Control, RankPicker, Slider, StreamPicker
from hta_widgets.panels.base.panel import Panel
from hta_widgets.trace.model.formats import Recorded

LEVELS = (("Streams", "stream"), ("GPUs", "device"))
SHARE_OR_TIME = Choice("visualize_pctg", "Show", (("Share", True), ("Time", False)))


class IdleTimePanel(Panel):
    """Why the GPUs, or their streams, are idle."""

    title = "Idle time"
    wide = True
    any_number_of_ranks = True
    needs = (Recorded.KERNELS,)
    controls: ClassVar[tuple[Control, ...]] = (
        RankPicker(),
        StreamPicker(),
        Choice("level", "Of", LEVELS),
        Slider(
            "consecutive_kernel_delay", "Kernel wait below", max=200, unit="µs", open_ended=True
        ),
        SHARE_OR_TIME,
    )

    level = Enum([value for _, value in LEVELS], "stream").tag(sync=True)
    """Streams, or GPUs with no stream busy."""

    streams: List[int] = List(Int()).tag(sync=True)
    """Streams shown; an empty list means all. GPUs always count all their streams."""

    consecutive_kernel_delay = Float(30, min=0).tag(sync=True)
    """Shorter intervals (µs) for which the host is not late are kernel wait."""

    visualize_pctg = Bool(True).tag(sync=True)
    """Show shares of the idle time instead of time."""

    def analyse(self) -> IdleTime:
        """Break down the idle time of the selected ranks."""
        return self._analyse(self.ranks)

    def draw(self, result: IdleTime) -> dict[str, Drawing]:
        """Draw a stacked bar for each stream or GPU."""
        as_percent = self.visualize_pctg
        if self.level == "stream":
            return {"Idle time of each stream": idle_time_of_streams(result, as_percent=as_percent)}
        shown = self._analyse([]) if self.linked and self.ranks else result
        figure = idle_time_of_devices(shown, selected=self.ranks, as_percent=as_percent)
        return {"Idle time of each GPU": figure}

    def tabulate(self, result: IdleTime) -> pd.DataFrame:
        """One row per stream or GPU, and cause."""
        return result.streams if self.level == "stream" else result.devices

    def nothing_to_show(self, result: IdleTime) -> str | None:
        """Say so where there is no GPU work, or none on the streams."""
        if result.devices.empty:
            return "No GPU work that could be idle."
        return "No work on these streams." if self.tabulate(result).empty else None

    def _analyse(self, ranks: list[int]) -> IdleTime:
        return idle_time(
            self.job,
            ranks,
            streams=self.streams,
            consecutive_kernel_delay=self.consecutive_kernel_delay,
        )
