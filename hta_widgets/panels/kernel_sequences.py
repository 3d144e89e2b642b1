"""Panel of the kernel sequences that an operator launches."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from traitlets import Bool, Int, Unicode, default

from hta_widgets.analyses.kernel_sequences import (
    KernelSequences,
    kernel_sequences,
    operators_to_offer,
    suggested_operator,
)
from hta_widgets.export.overlaid_trace import write_overlaid_trace
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.kernel_sequences import kernel_sequences as draw_sequences
from hta_widgets.figures.kernel_sequences import readable_patterns
from hta_widgets.names.shorten import distinct_names
from hta_widgets.panels.base.controls import Choice, Search, Slider, Toggle
from hta_widgets.panels.base.declarations import button, parameter
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.protocol import Option
from hta_widgets.quantities import counted, duration
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.remote.urls import PathLike

MAX_OPERATORS = 200
LABEL_WIDTH = 72


def operator_options(job: Job) -> list[Option]:
    """Operators and modules of the first rank, those that launch the most GPU time first."""
    table = operators_to_offer(job).head(MAX_OPERATORS)
    names = distinct_names(table["name"].tolist(), LABEL_WIDTH)
    return [
        (label, name, f"{duration(gpu_ns)}, {counted(calls, 'call')}")
        for label, name, gpu_ns, calls in zip(
            names, table["name"], table["gpu_time_ns"], table["occurrences"], strict=True
        )
    ]


class KernelSequencesPanel(Panel[KernelSequences]):
    """Sequences of kernels that an operator launches, with counts, on the first selected rank."""

    name = "kernel_sequences"
    tab = "kernels"
    place = 3
    title = "Kernel sequences"
    needs = (Recorded.KERNELS,)
    needs_gpu_work = True
    any_number_of_ranks = True

    operator_name: str = parameter(Unicode(), Search("Operator", operator_options, free_text=True))
    """Name of the operator; defaults to a repeated one that launches several kernels each time."""

    min_pattern_len: int = parameter(Int(3, min=1), Slider("Minimum kernels", max=20))
    """Occurrences that launch fewer GPU operations are left out."""

    top_k: int = parameter(Int(5, min=1), Slider("Top sequences", max=50))
    """Number of sequences to show and mark, the most frequent first."""

    as_time: bool = parameter(Bool(False), Choice("Show", {False: "Occurrences", True: "GPU time"}))
    """Show GPU time instead of the number of occurrences."""

    whole_name: bool = parameter(Bool(True), Toggle("Match whole name"))
    """Match the whole name; otherwise match part of it, as HTA does."""

    @default("operator_name")
    def _suggested_operator(self) -> str:
        return suggested_operator(self.job)

    @button("Write marked trace")
    def write_overlay(
        self, output_dir: PathLike | None = None, *, compress_other_kernels: bool = True
    ) -> Path:
        """Write a copy of the trace in which the events of the shown sequences are marked.

        `output_dir` defaults to the panel's, or else to the working folder of the notebook; see
        `hta_widgets.export.overlaid_trace.write_overlaid_trace`.
        """
        return write_overlaid_trace(
            self.job,
            self.result,
            self._folder(output_dir),
            top_k=self.top_k,
            compress_other_kernels=compress_other_kernels,
        )

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """Whether any operator, annotation or module launches kernels."""
        return super().concerns(job) and not operators_to_offer(job).empty

    def analyse(self, ranks: list[int]) -> KernelSequences:
        """Find the sequences on the first rank."""
        return kernel_sequences(
            self.job,
            self.job.select_ranks(ranks)[0],
            operator_name=self.operator_name,
            min_pattern_len=self.min_pattern_len,
            whole_name=self.whole_name,
        )

    def draw(self, result: KernelSequences) -> dict[str, Drawing]:
        """Draw a bar for each of the top sequences."""
        return {"Sequences": draw_sequences(result, top_k=self.top_k, as_time=self.as_time)}

    def tabulate(self, result: KernelSequences) -> pd.DataFrame:
        """List the sequences."""
        return readable_patterns(result)

    def nothing_to_show(self, result: KernelSequences) -> str | None:
        """Explain an empty panel: no sequences."""
        return result.finding if result.patterns.empty else None
