"""Panel of the user annotations: their time on the GPU and on the CPU."""

from __future__ import annotations

from typing import ClassVar

from traitlets import Int, default

from hta_widgets.analyses.gpu_annotations import TIMES, GpuAnnotations, On, gpu_annotations
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.gpu_annotations import gpu_annotations as figure
from hta_widgets.figures.selected_operators import SelectedOperators
from hta_widgets.panels.base.controls import Choice, Slider
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.selection import TIME_FIELDS
from hta_widgets.panels.base.table import SELECTS
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.trace.model.formats import Recorded


class AnnotationsPanel(Panel[GpuAnnotations]):
    """What runs on the GPU, and on the CPU, for each user annotation.

    A click on an annotation selects what is launched in it.
    """

    name = "gpu_annotations"
    tab = "operators"
    place = 4
    title = "User annotations"
    listed = "annotations"
    follows = ("operators", *TIME_FIELDS)
    table_selects: ClassVar = {**SELECTS, "annotation": "operators"}
    any_number_of_ranks = True
    needs = (Recorded.KERNELS,)
    needs_calls = "annotations"

    on: On = parameter(
        LabelledEnum({"gpu": "GPU", "cpu": "CPU"}), Choice("Time on", of_gpu_work=True)
    )
    """Time that the bars show and the table is sorted by; defaults to CPU without GPU work."""

    num_annotations: int = parameter(Int(15, min=1), Slider("Top annotations", max=60))
    """Number of annotations to draw."""

    @default("on")
    def _usual_on(self) -> On:
        return "gpu" if self._shows_gpu_work() else "cpu"

    def analyse(self, ranks: list[int]) -> GpuAnnotations:
        """Sum up the annotations of the ranks."""
        chosen, time = tuple(ranks), self.selection.time_of(self.job)
        return self._memo.call(gpu_annotations, self.job, chosen, on=self.on, **time)

    def draw(self, result: GpuAnnotations) -> dict[str, Drawing]:
        """Draw the annotations with the most time."""
        drawn = figure(
            result.annotations,
            on=self.on,
            num_annotations=self.num_annotations,
            selected=SelectedOperators(self.selection.operators),
        )
        return {f"User annotations with the most {self.on.upper()} time": drawn}

    def nothing_to_show(self, result: GpuAnnotations) -> str | None:
        """Explain an empty panel: no annotations, or none that launched GPU work."""
        if result.annotations.empty:
            return result.finding
        if result.annotations[TIMES[self.on]].any():
            return None
        return f"No {self.on.upper()} time belongs to a user annotation."
