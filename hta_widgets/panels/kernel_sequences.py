"""Panel of the kernel sequences."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
from traitlets import Bool, Int, Unicode

from hta_widgets.analyses.kernel_sequences import KernelSequences, kernel_sequences
from hta_widgets.analyses.kernel_sequences.launching_calls import (
    operators_to_offer,
    suggested_operator,
)
from hta_widgets.export.overlaid_trace import write_overlaid_trace
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.kernel_sequences import kernel_sequences as draw_sequences
from hta_widgets.figures.kernel_sequences import readable_patterns
from hta_widgets.names.shorten import distinct_names
from hta_widgets.panels.base.controls import (
    Button,
    Choice,
    Control,
    RankPicker,
    Search,
    Slider,
    Toggle,
)
from hta_widgets.panels.base.panel import Panel
from hta_widgets.quantities import duration
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.opening.open import HasJob, as_job
from hta_widgets.trace.remote.urls import PathLike, TraceSource

OPERATORS_AT_MOST = 200
LABEL_WIDTH = 72
COUNT_OR_TIME = (("Occurrences", False), ("GPU time", True))


def operator_options(job: Job) -> list[tuple[str, str, str]]:
    """Operators and modules of the first rank by the GPU time under them, longest first."""
    table = operators_to_offer(job).head(OPERATORS_AT_MOST)
    names = distinct_names(table["name"].tolist(), LABEL_WIDTH)
    return [
        (label, name, f"{duration(gpu_ns)}, {calls:,} {'call' if calls == 1 else 'calls'}")
        for label, name, gpu_ns, calls in zip(
            names, table["name"], table["gpu_time_ns"], table["occurrences"], strict=True
        )
    ]


class KernelSequencesPanel(Panel):
    """Which sequences of kernels an operator launches, and how often, on the first rank selected.

    Begins with a repeated operator that launches several kernels each time.
    """

    title = "Kernel sequences"
    wide = True
    needs = (Recorded.KERNELS,)
    any_number_of_ranks = True
    controls: ClassVar[tuple[Control, ...]] = (
        RankPicker(),
        Search("operator_name", "Operator", operator_options, free_text=True),
        Slider("min_pattern_len", "At least kernels", min=1, max=20, open_ended=True),
        Slider("top_k", "Sequences", min=1, max=50, open_ended=True),
        Choice("as_time", "Show", COUNT_OR_TIME),
        Toggle("whole_name", "Whole name"),
        Button("write_overlay", "Write overlay"),
    )

    operator_name = Unicode().tag(sync=True)
    """Name of the operator."""

    min_pattern_len = Int(3, min=1).tag(sync=True)
    """Occurrences that launch fewer GPU operations are left out."""

    top_k = Int(5, min=1).tag(sync=True)
    """Number of sequences shown and overlaid, the most frequent first."""

    as_time = Bool(False).tag(sync=True)
    """Show GPU time instead of the number of occurrences."""

    whole_name = Bool(True).tag(sync=True)
    """`operator_name` is the whole name; otherwise a part of it, as in HTA."""

    def __init__(self, source: Job | HasJob | TraceSource, **parameters: Any) -> None:  # noqa: ANN401
        job = as_job(source)
        parameters.setdefault("operator_name", suggested_operator(job))
        super().__init__(job, **parameters)

    def write_overlay(
        self, output_dir: PathLike = ".", *, compress_other_kernels: bool = True
    ) -> Path:
        """Write a copy of the trace in which the events of the sequences shown are marked.

        By default into the working directory of the notebook; see
        `hta_widgets.export.overlaid_trace.write_overlaid_trace`.
        """
        return write_overlaid_trace(
            self.job,
            self.result,
            output_dir,
            top_k=self.top_k,
            compress_other_kernels=compress_other_kernels,
        )

    def analyse(self) -> KernelSequences:
        """Find the sequences on the first of the selected ranks."""
        return kernel_sequences(
            self.job,
            self.job.select_ranks(self.ranks)[0],
            operator_name=self.operator_name,
            min_pattern_len=self.min_pattern_len,
            whole_name=self.whole_name,
        )

    def draw(self, result: KernelSequences) -> dict[str, Drawing]:
        """Draw a bar for each of the top sequences."""
        return {"Sequences": draw_sequences(result, top_k=self.top_k, as_time=self.as_time)}

    def tabulate(self, result: KernelSequences) -> pd.DataFrame:
        """One row per sequence."""
        return readable_patterns(result)

    def nothing_to_show(self, result: KernelSequences) -> str | None:
        """Say why there is no sequence."""
        return result.finding if result.patterns.empty else None
