"""Panel of the steps of an inference server, by phase."""

from __future__ import annotations

from typing import ClassVar

import pandas as pd

from hta_widgets.analyses.server_steps import ServerStepTable, server_steps
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.server_steps import served_steps
from hta_widgets.panels.base.panel import Panel
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded

_FIRST = ("rank", "phase", "steps", "output_tokens", "prompt_tokens", "output_token_ns")
_SECOND = ("output_tokens_per_s", "prompt_tokens_per_s", "period_ns", "busy_percent")


class ServerStepsPanel(Panel[ServerStepTable]):
    """What a server does, step by step, and the time that prompts and answers take.

    All steps are shown, and the selected ones stand out. A click on a phase in the table selects
    its steps in all panels.
    """

    name = "server_steps"
    tab = "steps"
    place = 0
    title = "Server steps"
    follows = ("phase", "steps")
    table_selects: ClassVar = {"phase": "phase"}
    table_labels: ClassVar = {
        "output_token_ns": "per output token",
        "period_ns": "median step",
        "like": "comparable steps",
    }
    table_open = True
    any_number_of_ranks = True
    needs = (Recorded.KERNELS,)
    needs_gpu_work = True

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """Whether a rank serves."""
        return super().concerns(job) and any(each.engine for each in job.kinds.values())

    def analyse(self, ranks: list[int]) -> ServerStepTable:
        """Measure the steps of the ranks."""
        return server_steps(self.job, ranks)

    def draw(self, result: ServerStepTable) -> dict[str, Drawing]:
        """Draw the steps in the colours of their phases."""
        selection = self.selection
        drawn = served_steps(result.steps, phase=selection.served_phase, selected=selection.steps)
        return {"Steps by phase": drawn}

    def tabulate(self, result: ServerStepTable) -> pd.DataFrame:
        """List the phases of each rank, starting with their tokens."""
        first = [*_FIRST, *_SECOND]
        return result.phases[[*first, *(each for each in result.phases if each not in first)]]

    def nothing_to_show(self, result: ServerStepTable) -> str | None:
        """Explain an empty panel: no rank serves, or no step has GPU work."""
        return "No steps of an inference server were recorded." if result.steps.empty else None

    def _time(self) -> str:
        """Empty, because all steps are shown, whether selected or not."""
        return ""
