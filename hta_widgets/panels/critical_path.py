"""Panel of the critical path: what bounds the steps."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from traitlets import Int

from hta_widgets.diagnosis.critical_path import CriticalPathTables, critical_path
from hta_widgets.diagnosis.rank_answers import replay_of_ranks
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.critical_path import kernel_drags, path_classes, path_over_time
from hta_widgets.panels.base.controls import Choice, Slider
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.trace.model.formats import Recorded

Listed: TypeAlias = Literal["kernels", "classes", "operators", "ranks", "pieces"]


class CriticalPathPanel(Panel[CriticalPathTables]):
    """The longest path through everything that waits for something else, over all ranks.

    A kernel on the path is not necessarily worth optimising, as another path may be almost as long.
    Kernels are therefore sorted by what the steps gain without one of their calls.
    """

    name = "critical_path"
    tab = "critical_path"
    place = 2
    title = "Critical path"
    follows = ("kernel", "steps", "phase")
    needs = (Recorded.KERNELS,)
    needs_gpu_work = True
    any_number_of_ranks = True
    table_selects: ClassVar = {"kernel": "kernel", "rank": "ranks", "operator": "operators"}
    table_labels: ClassVar = {"ns": "on the path (ns)", "percent": "on the path (%)"}

    num_kernels: int = parameter(Int(10, min=1), Slider("Top kernels", max=60))
    """Number of kernels to draw."""

    listed: Listed = parameter(
        LabelledEnum(
            {
                "kernels": "Kernels",
                "classes": "Classes",
                "operators": "Operators",
                "ranks": "Ranks",
                "pieces": "Segments",
            }
        ),
        Choice("Table"),
    )
    """Contents of the table: kernels with slack and drag; time on the path by class, by operator
    or by rank; or the pieces of the path in order of time."""

    def analyse(self, ranks: list[int]) -> CriticalPathTables:
        """Find the path of all ranks, whatever is selected."""
        asked = () if self.linked else tuple(ranks)
        steps = self.selection.steps_of(self.job)
        return self._memo.call(self._find, asked, steps)

    def _find(self, ranks: tuple[int, ...], steps: tuple[int, ...]) -> CriticalPathTables:
        found = critical_path(self.job, ranks or None, steps=steps or None)
        self.job.forget(replay_of_ranks)  # to free memory, like `Dashboard` after each selection
        return found

    def sentence(self, result: CriticalPathTables) -> str:
        """Return the finding; if some ranks are selected, say that it is of all."""
        if not (self.linked and self.ranks):
            return result.finding
        return f"The path is that of all ranks, not only of the selected ones. {result.finding}"

    def draw(self, result: CriticalPathTables) -> dict[str, Drawing]:
        """Draw the classes, the kernels with the most to gain, and the path over time."""
        figures = {"Classes of the critical path": path_classes(result)}
        if (result.kernels["drag_ns"] > 0).any():
            figures["What one call of each kernel is worth"] = kernel_drags(
                result, num_kernels=self.num_kernels, selected=self.selection.kernel
            )
        ranks = tuple(self.ranks) if self.linked else ()
        over_time = self._memo.call(path_over_time, result, selected=ranks)
        figures["Where the path runs"] = over_time
        return figures

    def nothing_to_show(self, result: CriticalPathTables) -> str | None:
        """Explain an empty panel: no GPU work."""
        return result.finding if result.classes.empty else None
