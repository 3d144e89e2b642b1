"""Panel of the operators: their time on the CPU and on the GPU."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import pandas as pd
from traitlets import Int, default

from hta_widgets.analyses.operators import (
    OperatorTable,
    Weight,
    may_tell_phase,
    operators,
    sentence_of_time,
)
from hta_widgets.analyses.operators.operator_calls import RowsBy
from hta_widgets.analyses.time.rows import largest_first
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.operators import WEIGHTS
from hta_widgets.figures.operators import operators as figure
from hta_widgets.figures.selected_operators import SelectedOperators
from hta_widgets.panels.base.controls import Choice, Slider
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.selection import TIME_FIELDS
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.trace.model.formats import Recorded

Phase: TypeAlias = Literal["all", "forward", "backward", "optimizer", "other"]

_TITLES = {
    "gpu": "Operators with the most self GPU time",
    "cpu": "Operators with the most self CPU time",
    "idle": "Operators that keep the GPU waiting longest",
}


class OperatorsPanel(Panel[OperatorTable]):
    """Time of each operator, on the CPU and on the GPU.

    It shows the operators of the selected modules and phase. A click on an operator selects it.
    """

    name = "operators"
    tab = "operators"
    place = 1
    title = "Operators"
    follows = ("operators", "shapes", "modules", "finding", *TIME_FIELDS)
    table_selects: ClassVar = {"rank": "ranks", "operator": "operators", "input_dims": "shapes"}
    any_number_of_ranks = True
    needs = (Recorded.KERNELS,)

    by: RowsBy = parameter(
        LabelledEnum({"name": "Name", "shape": "Shape", "stack": "Stack"}), Choice("By")
    )
    """What a row stands for: an operator name; a name with the shapes and types of its inputs; or
    a name with the Python frames around it."""

    phase: Phase = parameter(
        LabelledEnum(
            {
                "all": "All",
                "forward": "Forward",
                "backward": "Backward",
                "optimizer": "Optimizer",
                "other": "Other",
            }
        ),
        Choice("Phase"),
    )
    """Phase of a step to show; ``all`` shows the selected phase."""

    weight: Weight = parameter(
        LabelledEnum({"gpu": "GPU time", "cpu": "CPU time", "idle": "Idle time"}),
        Choice("Show", of_gpu_work=True),
    )
    """Time that the bars show and the table is sorted by: self GPU time, self CPU time, or GPU idle
    time. Defaults to CPU time without GPU work."""

    num_operators: int = parameter(Int(15, min=1), Slider("Top operators", max=60))
    """Number of operators to draw."""

    @default("weight")
    def _usual_weight(self) -> Weight:
        return "gpu" if self._shows_gpu_work() else "cpu"

    def analyse(self, ranks: list[int]) -> OperatorTable:
        """Sum up the operators of the ranks."""
        chosen, time = tuple(ranks), self.selection.time_of(self.job)
        phase, modules = self._shown_phase(), self.selection.modules
        return self._memo.call(
            operators, self.job, chosen, by=self.by, phase=phase, modules=modules, **time
        )

    def _shown_phase(self) -> str | None:
        """The panel's phase, or else the selected one; None means all."""
        return (self.selection.code_phase or None) if self.phase == "all" else self.phase

    def sentence(self, result: OperatorTable) -> str:
        """Say which operator has the most of the shown time."""
        if result.rows.empty:
            return result.finding
        are_operators = len(result.operators) > 0
        return sentence_of_time(result.rows, result.ranks, self.weight, are_operators=are_operators)

    def draw(self, result: OperatorTable) -> dict[str, Drawing]:
        """Draw the operators with the most of the chosen time."""
        column = "gpu_ns" if self.weight == "gpu" else "idle_ns"
        whole_ns = int(
            result.rows["cpu_self_ns"].sum() if self.weight == "cpu" else result.ranks[column].sum()
        )
        drawn = figure(
            result.rows,
            whole_ns,
            weight=self.weight,
            num_operators=self.num_operators,
            selected=SelectedOperators(
                self.selection.operators or self.marked, self.selection.shapes
            ),
        )
        return {_TITLES[self.weight]: drawn}

    def tabulate(self, result: OperatorTable) -> pd.DataFrame:
        """List the operators, those with the most of the chosen time first."""
        column = WEIGHTS[self.weight].column
        return self._memo.call(_listed, result.rows, column)

    def nothing_to_show(self, result: OperatorTable) -> str | None:
        """Explain an empty panel: no calls, none in the phase, or none with the chosen time."""
        if result.rows.empty:
            phase = self._shown_phase()
            if not result.ranks["gpu_ns"].sum() or not (phase or self.selection.modules):
                return result.finding
            if phase and (why := self._cannot_tell(phase, result.ranks["rank"].tolist())):
                return why
            of = f" in the {phase} phase" if phase else ""
            return (
                f"No operators run{of}{' in the selected modules' * bool(self.selection.modules)}."
            )
        if not result.rows[WEIGHTS[self.weight].column].any():
            other = ": show CPU time" if result.rows["cpu_self_ns"].any() else ""
            return f"No {WEIGHTS[self.weight].noun} belongs to an operator{other}."
        return None

    def _cannot_tell(self, phase: str, ranks: list[int]) -> str:
        """Why a phase without operators may have some; empty if it has none."""
        if any(self.job.reduce(may_tell_phase, ranks, phase).values()):
            return ""
        if phase == "optimizer":
            return "The optimizer phase cannot be told: no operators were recorded."
        by_profiler = not any(self.job.sources[rank].format.lacks for rank in ranks)
        how = " (with_stack=True records them)" * by_profiler
        return f"The {phase} phase cannot be told: no modules were recorded{how}."


def _listed(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Rows sorted by a column, without the column of collectives if it is empty."""
    ordered = largest_first(rows, column)
    return ordered if ordered["collectives"].any() else ordered.drop(columns="collectives")
