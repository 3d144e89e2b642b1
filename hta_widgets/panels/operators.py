"""Panel of the operators."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal, TypeAlias

import pandas as pd
from traitlets import Int, default

from hta_widgets.analyses.operators import OperatorTable, operators
from hta_widgets.analyses.operators.operator_calls import RowsBy
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

Weight: TypeAlias = Literal["gpu", "cpu", "idle"]
Phase: TypeAlias = Literal["all", "forward", "backward", "optimizer", "other"]

_TITLES = {
    "gpu": "Operators with most GPU time of their own",
    "cpu": "Operators with most CPU time of their own",
    "idle": "Operators that let the GPU wait longest",
}


class OperatorsPanel(Panel[OperatorTable]):
    """What each operator takes, on the CPU and on the GPU.

    It shows the operators of the selected modules and phase. A click on an operator selects it.
    """

    name = "operators"
    tab = "operators"
    place = 1
    title = "Operators"
    follows = ("operators", "shapes", "modules", *TIME_FIELDS)
    table_selects: ClassVar = {"rank": "ranks", "operator": "operators", "input_dims": "shapes"}
    any_number_of_ranks = True
    needs = (Recorded.KERNELS,)

    by: RowsBy = parameter(
        LabelledEnum({"name": "Name", "shape": "Shape", "stack": "Stack"}), Choice("By")
    )
    """What tells rows apart: the name of the operator, also the shapes and types of its inputs, or
    also the Python frames around it."""

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
    """Part of a step to show; if all, the selected one."""

    weight: Weight = parameter(
        LabelledEnum({"gpu": "GPU time", "cpu": "CPU time", "idle": "Idle time"}), Choice("Show")
    )
    """Time that the bars show, and that orders the table: on the GPU or on the CPU, without
    operators inside, or idle time of the GPU. Without GPU work, it begins with CPU time."""

    num_operators: int = parameter(Int(15, min=1), Slider("Top operators", max=60))
    """Operators with a bar."""

    @default("weight")
    def _usual_weight(self) -> Weight:
        return "gpu" if self._shows_gpu_work() else "cpu"

    def analyse(self, ranks: list[int]) -> OperatorTable:
        """Sum up the operators of the ranks."""
        chosen, time = tuple(ranks), self.selection.time_of(self.job)
        phase, modules = self._shown_phase(), self.selection.modules
        analyse = partial(
            operators, self.job, chosen, by=self.by, phase=phase, modules=modules, **time
        )
        asked = (chosen, self.by, phase, modules, tuple(time.values()))
        return self._memo.get("result", analyse, *asked)

    def _shown_phase(self) -> str | None:
        """The phase of the panel, else the selected one; None for all."""
        return (self.selection.code_phase or None) if self.phase == "all" else self.phase

    def draw(self, result: OperatorTable) -> dict[str, Drawing]:
        """Draw the operators with most of the time that is shown."""
        column = "gpu_ns" if self.weight == "gpu" else "idle_ns"
        whole_ns = int(
            result.rows["cpu_self_ns"].sum() if self.weight == "cpu" else result.ranks[column].sum()
        )
        drawn = figure(
            result.rows,
            whole_ns,
            weight=self.weight,
            num_operators=self.num_operators,
            selected=SelectedOperators(self.selection.operators, self.selection.shapes),
        )
        return {_TITLES[self.weight]: drawn}

    def tabulate(self, result: OperatorTable) -> pd.DataFrame:
        """List the operators, those with most of the time that is shown first."""
        column = WEIGHTS[self.weight].column
        return self._memo.get("table", partial(_listed, result.rows, column), *(result, column))

    def nothing_to_show(self, result: OperatorTable) -> str | None:
        """Explain an empty panel: no calls, none of the phase, or none of the time."""
        if result.rows.empty:
            phase = self._shown_phase()
            if not result.ranks["gpu_ns"].sum() or not (phase or self.selection.modules):
                return result.finding
            of = f" in the phase {phase}" if phase else ""
            return (
                f"No operators run{of}{' in the selected modules' * bool(self.selection.modules)}."
            )
        if not result.rows[WEIGHTS[self.weight].column].any():
            other = ": show CPU time" if result.rows["cpu_self_ns"].any() else ""
            return f"No {WEIGHTS[self.weight].noun} belongs to an operator{other}."
        return None


def _listed(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Rows in order of a column, without that of the collectives if there are none."""
    ordered = rows.sort_values(column, ascending=False, kind="stable", ignore_index=True)
    return ordered if ordered["collectives"].any() else ordered.drop(columns="collectives")
