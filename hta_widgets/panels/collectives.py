"""Panel of the collectives: how long and how fast they are, and which ranks are late."""

from __future__ import annotations

from typing import Literal, TypeAlias

from traitlets import Int

from hta_widgets.analyses.collectives import Collectives, collectives
from hta_widgets.figures.base.drawing import FEW_BARS, LONG_NAMES, Drawing, with_width
from hta_widgets.figures.collectives import bandwidth_by_size, late_ranks, time_by_kind
from hta_widgets.panels.base.controls import Choice, Slider
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.trace.model.formats import Recorded

Listed: TypeAlias = Literal["groups", "kernels", "matched"]


class CollectivesPanel(Panel[Collectives]):
    """Collectives: how long they take, how fast they are, which ranks wait and which are late."""

    name = "collectives"
    tab = "communication"
    place = 1
    title = "Collectives"
    any_number_of_ranks = True
    needs = (Recorded.KERNELS,)
    needs_communication = True

    num_groups: int = parameter(Int(10, min=1), Slider("Top collectives", max=40))
    """Number of bars; each stands for collectives of one kind, size and process group."""

    listed: Listed = parameter(
        LabelledEnum({"groups": "Kinds", "kernels": "Kernels", "matched": "Collectives"}),
        Choice("Table"),
    )
    """Contents of the table: collectives by kind, size and group; communication kernels; or the
    collectives of several ranks, with the rank that arrived last."""

    def analyse(self, ranks: list[int]) -> Collectives:
        """List the collectives of the ranks, matched over all ranks of the job."""
        chosen = tuple(ranks)
        key = "result" if chosen else "result of all ranks"
        return self._memo.get(key, lambda: collectives(self.job, chosen or None), chosen)

    def draw(self, result: Collectives) -> dict[str, Drawing]:
        """Draw the time by kind, the bandwidths by size, and the lateness of each rank."""
        bars = time_by_kind(result, num_groups=self.num_groups)
        figures = {"Time by collective, size and group": bars}
        if result.kernels["algbw_gb_per_s"].notna().any():
            points = self._memo.call(bandwidth_by_size, result)
            figures["Bandwidth by size"] = with_width(points, FEW_BARS)
            figures["Time by collective, size and group"] = with_width(bars, LONG_NAMES)
        shown = self.of_all_ranks(result)
        if shown.matched["late_rank"].notna().any():
            selected = self.ranks if self.linked else ()
            name = "Straggler delay: last arrival minus median"
            figures[name] = late_ranks(shown, selected=selected)
        return figures

    def nothing_to_show(self, result: Collectives) -> str | None:
        """Explain an empty panel: no communication kernels."""
        return result.finding if result.kernels.empty else None
