"""Panel of the memory bandwidth: copies and memsets over time."""

from __future__ import annotations

from functools import partial

import pandas as pd
from traitlets import Unicode

from hta_widgets.analyses.memory_bandwidth import (
    MemoryBandwidth,
    kinds_of_transfers,
    memory_bandwidth,
)
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.base.step_lines import step_lines
from hta_widgets.figures.memory_bandwidth import bandwidth_lines, lines_of_transfer
from hta_widgets.panels.base.controls import Choice
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.time_series import TimeSeriesPanel
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded

ALL = "all"


def transfers_of(job: Job) -> dict[str, str]:
    """Kinds of transfer that occur in a job."""
    by_rank = job.reduce(kinds_of_transfers, job.ranks).values()
    return {ALL: "All", **{name: name for name in sorted(set[str]().union(*by_rank))}}


class MemoryBandwidthPanel(TimeSeriesPanel[MemoryBandwidth]):
    """Bandwidth of copies and memsets over time."""

    name = "memory_bandwidth"
    tab = "memory"
    place = 2
    title = "Memory bandwidth"
    needs = (Recorded.KERNELS,)
    needs_gpu_work = True

    transfer: str = parameter(Unicode(ALL), Choice("Transfers", transfers_of))
    """Kind of transfer to show, such as ``"Memcpy HtoD"``; ``"all"`` by default."""

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """Whether the job has any copies or memsets."""
        return super().concerns(job) and len(transfers_of(job)) > 1

    def analyse(self, ranks: list[int]) -> MemoryBandwidth:
        """Add up the transfers of the ranks over time."""
        return self._memo.call(memory_bandwidth, self.job, tuple(ranks))

    def draw(self, result: MemoryBandwidth) -> dict[str, Drawing]:
        """Draw a step line for each kind of transfer."""
        lines = self._memo.get("lines", partial(bandwidth_lines, result, self.shift_ns), result)
        drawn = lines_of_transfer(lines, result, self._name)
        return {"Bandwidth of copies and memsets": step_lines(drawn, window_us=self.window_us)}

    def tabulate(self, result: MemoryBandwidth) -> pd.DataFrame:
        """List the kinds of transfers."""
        table = result.transfers
        return table[table["name"] == self._name] if self._name else table

    def nothing_to_show(self, result: MemoryBandwidth) -> str | None:
        """Explain an empty panel: no transfers, or none of the selected kind."""
        if result.transfers.empty:
            return result.finding
        return f"No {self._name} on the selected ranks." if self.tabulate(result).empty else None

    @property
    def _name(self) -> str:
        return "" if self.transfer == ALL else self.transfer
