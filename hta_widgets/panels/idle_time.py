"""Panel of the idle time: why GPUs or streams are idle."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import ClassVar, Literal, TypeAlias

import numpy as np
import pandas as pd
from traitlets import Bool, Float, Int, List

from hta_widgets.analyses.idle_time import IdleTime, idle_time
from hta_widgets.analyses.roofline.vendor import words_of
from hta_widgets.analyses.time.causes import idle_in_words
from hta_widgets.analyses.time.window import numbered_steps
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.idle_time import PART_NAMES, idle_time_of_devices, idle_time_of_streams
from hta_widgets.panels.base.controls import SHARE_OR_TIME, STREAM_PICKER, Choice, Slider
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.selection import TIME_FIELDS
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded

Level: TypeAlias = Literal["device", "stream"]


def counted_steps(
    job: Job,
    ranks: Iterable[int],
    *,
    steps: Collection[int] = (),
    window_ns: Sequence[int] | None = None,
) -> int:
    """Number of ProfilerSteps of each rank in the time that is counted.

    No ranks or steps means all. It is 0 if there is no time per step: the ranks have no steps or
    different numbers of steps, or a window, which need not contain whole steps, is counted.
    """
    if window_ns is not None:
        return 0
    by_rank = job.reduce(numbered_steps, [*ranks] or job.ranks).values()
    counts = {len({*each} & {*steps} if steps else each) for each in by_rank}
    return counts.pop() if len(counts) == 1 else 0


class IdleTimePanel(Panel[IdleTime]):
    """Why the GPUs, or their streams, are idle."""

    name = "idle_time"
    tab = "idle"
    place = 2
    title = "Idle time"
    follows = TIME_FIELDS
    any_number_of_ranks = True
    needs = (Recorded.KERNELS,)
    needs_gpu_work = True
    table_labels: ClassVar = {"split": "cause"}
    table_names = PART_NAMES

    streams: list[int] = parameter(List(Int()), STREAM_PICKER)
    """Streams to show; an empty list means all. For a GPU, all of its streams always count."""

    level: Level = parameter(LabelledEnum({"device": "GPUs", "stream": "Streams"}), Choice("Level"))
    """Idle time of each GPU (when no stream is busy), or of each stream."""

    consecutive_kernel_delay: float = parameter(
        Float(30, min=0), Slider("Kernel-to-kernel gaps: under", unit="µs", max=200)
    )
    """If the launch call started in time, shorter intervals (µs) count as kernel-to-kernel gaps,
    longer ones as time after the launch."""

    visualize_pctg: bool = parameter(Bool(False), SHARE_OR_TIME)
    """Show shares of the idle time instead of time; all bars share one scale."""

    def analyse(self, ranks: list[int]) -> IdleTime:
        """Break down the idle time of the ranks."""
        return idle_time(
            self.job,
            ranks,
            streams=self.streams,
            consecutive_kernel_delay=self.consecutive_kernel_delay,
            **self.selection.time_of(self.job),
        )

    def draw(self, result: IdleTime) -> dict[str, Drawing]:
        """Draw a stacked bar for each stream or GPU."""
        as_percent, words = self.visualize_pctg, words_of(self.job)
        if self.level == "stream":
            figure = idle_time_of_streams(result, as_percent=as_percent)
            return {"Idle time of each stream": figure.in_words(words)}
        shown = self.of_all_ranks(result)
        steps = 0 if as_percent else counted_steps(self.job, [], **self.selection.time_of(self.job))
        figure = idle_time_of_devices(
            shown, selected=self.ranks, as_percent=as_percent, steps=steps
        )
        return {"Idle time of each GPU": figure.in_words(words)}

    def tabulate(self, result: IdleTime) -> pd.DataFrame:
        """List the streams or GPUs with the parts of their idle time, the longest part first."""
        table = result.stream_split if self.level == "stream" else result.device_split
        keys = [name for name in ("rank", "device", "stream") if name in table]
        of = table.groupby(keys, sort=False).ngroup().to_numpy()
        return table.iloc[np.lexsort((-table["idle_time_ns"].to_numpy(), of))]

    def sentence(self, result: IdleTime) -> str:
        """The finding, or the amount of idle time if it is too short for a finding."""
        spans = result.device_split.drop_duplicates(["rank", "device"])["span_ns"]
        if result.finding or not spans.sum():
            return result.finding
        idle_ns = int(result.device_split["idle_time_ns"].sum())
        whole = "GPU span" if len(spans) == 1 else "GPU spans"
        return idle_in_words(idle_ns, int(spans.sum()), len(spans), whole)

    def nothing_to_show(self, result: IdleTime) -> str | None:
        """Explain an empty panel: no GPU work, or none on the selected streams."""
        if result.devices.empty:
            return result.finding
        return "No GPU work on the selected streams." if self.tabulate(result).empty else None
