"""Panel of the memory bandwidth."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import pandas as pd
from traitlets import Unicode

from hta_widgets.analyses.memory_bandwidth import MemoryBandwidth, memory_bandwidth
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.base.step_lines import step_lines
from hta_widgets.figures.memory_bandwidth import bandwidth_lines, lines_of_transfer
from hta_widgets.panels.base.controls import Button, Choice, Control, Options, RankPicker
from hta_widgets.panels.base.time_series import TimeSeriesPanel
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded

ALL = "all"


def transfers_of(job: Job) -> Options:
    """Kinds of transfers that any rank of a job has."""
    names = sorted(set(memory_bandwidth(job).transfers["name"]))
    return [("All", ALL), *((name, name) for name in names)]


class MemoryBandwidthPanel(TimeSeriesPanel):
    """Bandwidth of copies and fills over time."""

    title = "Memory bandwidth"
    wide = True
    needs = (Recorded.KERNELS,)
    controls: ClassVar[tuple[Control, ...]] = (
        RankPicker(),
        Choice("transfer", "Transfers", transfers_of),
        Button("write_counters", "Write as counters"),
    )

    transfer = Unicode(ALL).tag(sync=True)
    """Kind of transfer shown, such as ``Memcpy HtoD``; all of them by default."""

    def analyse(self) -> MemoryBandwidth:
        """Add up what runs on the selected ranks."""
        ranks = tuple(self.ranks)
        return self._latest.get("result", lambda: memory_bandwidth(self.job, ranks), ranks)

    def draw(self, result: MemoryBandwidth) -> dict[str, Drawing]:
        """Draw a step line for each kind of transfer."""
        lines = self._latest.get("lines", partial(bandwidth_lines, result), result)
        drawn = lines_of_transfer(lines, result, self._name)
        return {"Bandwidth of copies and fills": step_lines(drawn, window_us=self.window_us)}

    def tabulate(self, result: MemoryBandwidth) -> pd.DataFrame:
        """One row per kind of transfer."""
        table = result.transfers
        return table[table["name"] == self._name] if self._name else table

    def nothing_to_show(self, result: MemoryBandwidth) -> str | None:
        """Say so where there are no transfers, or none of the kind asked for."""
        if result.transfers.empty:
            return result.finding
        return f"No {self._name} on these ranks." if self.tabulate(result).empty else None

    @property
    def _name(self) -> str:
        return "" if self.transfer == ALL else str(self.transfer)
