"""Panel of the modules: a tree of ``nn.Module`` calls with their time by phase."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import pandas as pd
from traitlets import Int, default

from hta_widgets.analyses.modules import (
    NOUNS,
    OUTSIDE,
    WEIGHTS,
    ModuleTree,
    module_finding,
    module_totals,
    modules,
    time_by_phase,
)
from hta_widgets.analyses.modules.nodes import Merge
from hta_widgets.analyses.modules.nodes import Source as ModuleSource
from hta_widgets.analyses.modules.rank_sums import COSTS
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.modules import modules as figure
from hta_widgets.panels.base.controls import Choice, Slider
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.selection import TIME_FIELDS
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.quantities import capitalised
from hta_widgets.trace.model.formats import Recorded

Weight: TypeAlias = Literal["gpu", "cpu", "idle", "exposed"]

_SOURCES = {
    "auto": "modules or annotations",
    "modules": "modules",
    "regions": "annotations",
}


class ModulesPanel(Panel[ModuleTree]):
    """Time of each module, forward and backward, including the modules inside it.

    A click on a module selects it and shows the modules inside.
    """

    name = "modules"
    tab = "operators"
    place = 3
    title = "Modules"
    follows = ("modules", *TIME_FIELDS)
    any_number_of_ranks = True
    table_selects: ClassVar = {"path": "modules"}
    needs = (Recorded.KERNELS, Recorded.OPERATORS)
    needs_calls = "modules"

    weight: Weight = parameter(
        LabelledEnum(
            {"gpu": "GPU time", "cpu": "CPU time", "idle": "Idle time", "exposed": "Exposed comm."}
        ),
        Choice("Show", of_gpu_work=True),
    )
    """Time that the bars show: GPU time, CPU time, GPU idle time, or exposed communication.
    Defaults to CPU time without GPU work."""

    merge: Merge = parameter(
        LabelledEnum({"class": "Classes", "instance": "Instances"}), Choice("Rows")
    )
    """One row for all sibling modules of a class, or one row for each."""

    module_source: ModuleSource = parameter(
        LabelledEnum({"auto": "Automatic", "modules": "Modules", "regions": "Annotations"}),
        Choice("Of"),
    )
    """Show modules or annotations; by default annotations only if there are no modules."""

    levels: int = parameter(Int(3, min=1), Slider("Levels", max=10))
    """Number of open levels of the tree."""

    @default("weight")
    def _usual_weight(self) -> Weight:
        return "gpu" if self._shows_gpu_work() else "cpu"

    def analyse(self, ranks: list[int]) -> ModuleTree:
        """Sum up the modules of the ranks."""
        chosen, time = tuple(ranks), self.selection.time_of(self.job)
        return self._memo.call(
            modules, self.job, chosen, source=self.module_source, merge=self.merge, **time
        )

    def sentence(self, result: ModuleTree) -> str:
        """Say which class of modules has the most of the shown time."""
        return module_finding(result.modules, result.outside, result.source, self.weight)

    def draw(self, result: ModuleTree) -> dict[str, Drawing]:
        """Draw the tree of modules."""
        totals, weight = self._totals(result), self.weight
        times = self._memo.call(time_by_phase, result.modules, totals, weight)
        drawn = figure(
            totals,
            times,
            self._whole_ns(result),
            weight=weight,
            levels=self.levels,
            selected=self.selection.modules,
        )
        of = "regions" if result.source == "regions" else "modules"
        return {f"{capitalised(NOUNS[weight])} of {of}": drawn}

    def tabulate(self, result: ModuleTree) -> pd.DataFrame:
        """List the modules in the order of the tree, summed over ranks and phases.

        FLOP and memory are listed if they were recorded.
        """
        totals = self._totals(result)
        empty = [name for name in COSTS if not totals[name].any()]
        return totals.drop(columns=["parent", "name", *empty])

    def nothing_to_show(self, result: ModuleTree) -> str | None:
        """Explain an empty panel: no modules, or none of the time in them."""
        if result.modules.empty:
            return f"No {_SOURCES[self.module_source]} were recorded on the selected ranks."
        if not result.modules[WEIGHTS[self.weight]].any():
            return f"No {NOUNS[self.weight]} belongs to a module."
        return None

    def _totals(self, result: ModuleTree) -> pd.DataFrame:
        return self._memo.call(module_totals, result.modules)

    def _whole_ns(self, result: ModuleTree) -> int:
        """Total of the time that is shown, including time outside of modules."""
        outside_ns = int(result.outside[OUTSIDE[self.weight]].sum())
        column = WEIGHTS[self.weight]
        rows = result.modules
        if self.weight == "cpu":
            rows = rows[rows["depth"] == 0]
        return outside_ns + int(rows[column].sum())
