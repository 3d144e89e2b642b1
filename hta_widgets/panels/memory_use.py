"""Panel of the memory use: allocated memory over time, and what fills it at the peak."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal, TypeAlias

import pandas as pd
from traitlets import Int, default

from hta_widgets.analyses.memory_use import (
    MemoryUse,
    device_name,
    may_record_memory,
    memory_finding,
    memory_use,
)
from hta_widgets.analyses.memory_use.owners import UNKNOWN
from hta_widgets.analyses.memory_use.recorded import CPU
from hta_widgets.analyses.time.rows import records
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.memory_use import OwnerColumn, alive_at_peak, memory_curve, memory_lines
from hta_widgets.panels.base.controls import Choice, Slider
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.time_series import ZoomedPanel
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded

Memory: TypeAlias = Literal["gpu", "cpu"]
Listed: TypeAlias = Literal["alive", "devices", "steps", "survivors"]


class MemoryPanel(ZoomedPanel[MemoryUse]):
    """Memory allocated and reserved over time, and what fills it at the peak."""

    name = "memory_use"
    tab = "memory"
    place = 1
    title = "Memory use"
    needs = (Recorded.MEMORY,)

    memory: Memory = parameter(LabelledEnum({"gpu": "GPU", "cpu": "CPU"}), Choice("Memory"))
    """Whose memory to show; defaults to CPU without GPU work."""

    by: OwnerColumn = parameter(
        LabelledEnum({"caller": "Operators", "module": "Modules"}), Choice("Owners")
    )
    """Group what is alive at the peak by the operator or the module that allocated it."""

    num_owners: int = parameter(Int(10, min=1), Slider("Top owners", max=40))
    """Number of owners to draw."""

    listed: Listed = parameter(
        LabelledEnum(
            {
                "alive": "Alive at the peak",
                "devices": "Peaks",
                "steps": "Steps",
                "survivors": "Outlive their step",
            }
        ),
        Choice("Table"),
    )
    """Contents of the table: what is alive at the peak, the peaks, what each step leaves behind,
    or the blocks that outlive the step after the one that allocated them."""

    @default("memory")
    def _usual_memory(self) -> Memory:
        return "gpu" if self._shows_gpu_work() else "cpu"

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """Whether the job may have memory events."""
        return super().concerns(job) and may_record_memory(job)

    def analyse(self, ranks: list[int]) -> MemoryUse:
        """Follow the memory of the ranks."""
        return self._memo.call(memory_use, self.job, tuple(ranks))

    def sentence(self, result: MemoryUse) -> str:
        """Return the finding on the memory that is shown."""
        shown = self._of_memory(result)
        if shown.peak.empty:
            return result.finding if result.peak.empty else ""
        return memory_finding(shown.peak, shown.alive_at_peak, shown.steps, shown.survivors)

    def draw(self, result: MemoryUse) -> dict[str, Drawing]:
        """Draw the curve of each device, and what is alive at the highest peak."""
        shown = self._of_memory(result)
        lines = self._memo.get("lines", partial(memory_lines, shown, self.shift_ns), shown)
        highest = shown.peak.loc[[shown.peak["bytes"].idxmax()]]
        row = records(highest)[0]
        alive = shown.alive_at_peak.merge(highest[["rank", "device_type", "device"]])
        several = len(set(shown.peak["rank"])) > 1
        name = f"Alive at the peak of {device_name(row, name_rank=several)}"
        figures = {"Allocated and reserved memory": memory_curve(lines, window_us=self.window_us)}
        if (alive["category"] != UNKNOWN).any():  # a bar of nothing else says nothing
            figures[name] = alive_at_peak(alive, by=self.by, num_owners=self.num_owners)
        return figures

    def tabulate(self, result: MemoryUse) -> pd.DataFrame:
        """List what is alive at the peak, the peaks, the steps, or what outlives them."""
        shown = self._of_memory(result)
        return {
            "alive": shown.alive_at_peak,
            "devices": shown.peak,
            "steps": shown.steps,
            "survivors": shown.survivors,
        }[self.listed]

    def nothing_to_show(self, result: MemoryUse) -> str | None:
        """Explain an empty panel: no memory events, or none of this memory."""
        if result.peak.empty:
            return result.finding
        if self._of_memory(result).peak.empty:
            return f"No events of {self.memory.upper()} memory were recorded on the selected ranks."
        return None

    def _of_memory(self, result: MemoryUse) -> MemoryUse:
        """The part of the result about the memory that is shown."""
        return self._memo.call(_part, result, is_cpu=self.memory == "cpu")


def _part(result: MemoryUse, *, is_cpu: bool) -> MemoryUse:
    names = ("peak", "alive_at_peak", "steps", "survivors")  # tables with a device column
    tables = {name: getattr(result, name) for name in names}
    chosen = {
        name: table[(table["device"] == CPU) == is_cpu].reset_index(drop=True)
        for name, table in tables.items()
    }
    return replace(result, **chosen)
