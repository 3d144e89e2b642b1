"""Panel of the what-if: how long a step would take if something were different."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Final, Literal, TypeAlias

from traitlets import Bool, Float

from hta_widgets.diagnosis.what_if import (
    AS_RECORDED,
    EqualRanks,
    KernelClass,
    WhatIfSteps,
    what_if,
    why_not_replayed,
)
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.what_if import changed_step, rank_ends
from hta_widgets.panels.base.controls import Choice, Slider, Toggle
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.protocol import PanelSpec
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded

Listed: TypeAlias = Literal["classes", "ranks"]

_AS_RECORDED: Final = {
    "host_speed": 1.0,
    "hidden_percent": 0.0,
    "equal_ranks": "recorded",
    "kernels": "products",
    "kernel_percent": AS_RECORDED,
    "without_loading": False,
}
"""Settings of the knobs that change nothing."""

FASTEST_HOST = 16.0
"""From this speed on, the host is assumed to need no time at all."""


class WhatIfPanel(Panel[WhatIfSteps]):
    """How long a step would take with a faster host or kernels, hidden communication, equal ranks.

    All changes are replayed together, through everything that waits for something else, over all
    ranks. At its maximum, the slider of the host means a host that needs no time. Showing a finding
    turns no knob, as hardly any knob removes exactly what the price covers.
    """

    name = "what_if"
    tab = None
    place = 1
    title = "What if"
    follows = ("kernel", "steps", "phase")
    table_labels: ClassVar = {"ms": "changed (ms)"}
    needs = (Recorded.KERNELS,)
    any_number_of_ranks = True

    host_speed: float = parameter(
        Float(1, min=0.25, max=FASTEST_HOST),
        Slider("Host speed", step=0.25, unit="×", log=True),
    )
    """Factor by which the host launches faster; from 16 on, the host needs no time."""

    hidden_percent: float = parameter(
        Float(0, min=0, max=100), Slider("Communication hidden", step=5, unit="%")
    )
    """Share (%) of all transfers that takes no time; ranks still wait for late ones."""

    kernels: KernelClass = parameter(
        LabelledEnum(
            {
                "products": "Matrix products",
                "elementwise": "Elementwise",
                "attention": "Attention",
                "copies": "Copies",
                "selected": "Selected kernel",
            }
        ),
        Choice("Kernels"),
    )
    """The kernels that `kernel_percent` changes."""

    kernel_percent: float = parameter(Float(100, min=0, max=100), Slider("take", step=5, unit="%"))
    """Duration of these kernels, in percent of the recorded one."""

    without_loading: bool = parameter(Bool(False), Toggle("Input data always ready"))
    """Remove the time in which the host loads data."""

    equal_ranks: EqualRanks = parameter(
        LabelledEnum({"recorded": "As recorded", "slower": "Slower ones", "all": "All"}),
        Choice("Level ranks to the median"),
    )
    """Ranks whose kernels take as long as the same kernels on the median rank."""

    listed: Listed = parameter(
        LabelledEnum({"classes": "Critical path", "ranks": "Ranks"}), Choice("Table")
    )
    """Contents of the table: what bounds the step, or when each rank finishes."""

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """Whether anything ran on a GPU that can be replayed, on a rank whose time has a price."""
        priced = tuple(rank for rank in job.ranks if not job.kinds[rank].why_not_priced)
        return super().concerns(job) and bool(priced) and not why_not_replayed(job, priced)

    def _describe(self) -> PanelSpec:
        """Leave out the knobs that would change nothing in this job."""
        spec = super()._describe()
        without = {"equal_ranks"} if len(self.job.ranks) == 1 else set()
        if not self.job.may_communicate():
            without.add("hidden_percent")
        controls = [each for each in spec["controls"] if each["name"] not in without]
        return {**spec, "controls": controls}

    def analyse(self, ranks: list[int]) -> WhatIfSteps:
        """Replay the job with the changes."""
        speed = self.host_speed
        asked = () if self.linked else tuple(ranks)
        steps = self.selection.steps_of(self.job)
        changes: dict[str, Any] = {
            "host_speed": math.inf if speed >= FASTEST_HOST else speed,
            "hidden_percent": self.hidden_percent,
            "equal_ranks": self.equal_ranks,
            "without_loading": self.without_loading,
        }
        if self.kernel_percent < AS_RECORDED:
            changes |= {
                "kernels": self.kernels,
                "kernel_percent": self.kernel_percent,
                "selected_kernel": self.selection.kernel,
            }
        return self._memo.call(what_if, self.job, asked or None, steps=steps or None, **changes)

    def draw(self, result: WhatIfSteps) -> dict[str, Drawing]:
        """Draw the step now and changed, and when each rank finishes, once a knob is turned."""
        if all(getattr(self, name) == value for name, value in _AS_RECORDED.items()):
            return {}
        name = "The mean step, now and changed"
        figures = {f"{name} (a bound)" if result.is_bound else name: changed_step(result)}
        if len(result.ranks) > 1:
            figures["When each rank finishes"] = rank_ends(
                result, selected=self.ranks if self.linked else ()
            )
        return figures

    def nothing_to_show(self, result: WhatIfSteps) -> str | None:
        """Explain an empty panel: no GPU work."""
        return result.finding if result.classes.empty else None
