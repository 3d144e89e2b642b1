"""Panel of the flame graph: time of one rank by call path, drawn in the browser."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

import pandas as pd
from traitlets import Bunch, Int, Unicode, default, observe

from hta_widgets.analyses.flame import Flame, collapsed_stacks, flame
from hta_widgets.analyses.flame.trees import Order, Weight
from hta_widgets.atomic_write import atomic_write
from hta_widgets.errors import ParameterError, write_errors
from hta_widgets.figures.flame import flame as boxes
from hta_widgets.figures.flame import flame_picture
from hta_widgets.panels.base.controls import ONE_RANK, Choice
from hta_widgets.panels.base.declarations import button, parameter
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.protocol import View
from hta_widgets.panels.base.rendered_view import RenderedView
from hta_widgets.panels.base.selection import TIME_FIELDS
from hta_widgets.panels.base.summary import image
from hta_widgets.panels.base.traits import LabelledEnum, Texts
from hta_widgets.panels.base.view import columns_as_text
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.remote.urls import PathLike

_NOTHING: Final = {
    "gpu": "No GPU work was recorded on this rank: show CPU time.",
    "cpu": "No CPU calls were recorded on this rank.",
    "idle": "No GPU idle time was recorded on this rank.",
    "bytes": "No allocations were recorded on this rank (profile_memory=True records them).",
}


class FlamePanel(Panel[Flame]):
    """Time of one rank by call path, as a flame graph.

    A click on a box selects its operator, module or kernel; a double click makes it the root.
    """

    name = "flame"
    tab = "operators"
    place = 2
    title = "Flame graph"
    follows = TIME_FIELDS
    any_number_of_ranks = True
    needs = (Recorded.OPERATORS,)

    rank: int = parameter(Int(), ONE_RANK)
    """The rank to show. Selecting other ranks changes it to the first of them."""

    weight: Weight = parameter(
        LabelledEnum(
            {"gpu": "GPU time", "cpu": "CPU time", "idle": "Idle time", "bytes": "Memory"}
        ),
        Choice("Show"),
    )
    """What the width of a box stands for: time of the GPU work that its calls launch, their CPU
    time, the GPU idle time that belongs to them, or the memory they allocate. The default is GPU
    time, or CPU time for a rank without GPU work."""

    order: Order = parameter(
        LabelledEnum({"merged": "Merged", "time": "In time order"}), Choice("Order")
    )
    """One box for all calls with the same callers, or one box for each run of neighbouring calls,
    in time order."""

    root: tuple[str, ...] = parameter(Texts())
    """Names from an outermost call to the one that fills the width; empty shows everything. If
    there is no such call, its innermost caller that exists is the root."""

    sandwich: str = parameter(Unicode())
    """Name whose calls are shown as one box, with their callees below and their callers above;
    ignored if no call of this name takes part."""

    _flame = Unicode().tag(sync=True)
    """What the browser draws; see `hta_widgets.figures.flame`."""

    @default("rank")
    def _first_rank(self) -> int:
        known = [rank for rank in self.ranks if rank in self.job.ranks]
        return (known or self.job.ranks)[0]

    @default("weight")
    def _usual_weight(self) -> Weight:
        return "gpu" if self.job.has_gpu_work([self.rank]) else "cpu"

    @observe("ranks")
    def _stay_among_the_selected(self, _: Bunch) -> None:
        if self.ranks and self.rank not in self.ranks:
            self.rank = self.ranks[0]

    def analyse(self, ranks: list[int]) -> Flame:  # noqa: ARG002
        """Sum up the time of the rank by call path."""
        asked = {"weight": self.weight, "order": self.order, **self.selection.time_of(self.job)}
        return self._memo.call(self._below_root, self.rank, self.root, self.sandwich, **asked)

    def _below_root(self, rank: int, root: tuple[str, ...], sandwich: str, **asked: Any) -> Flame:  # noqa: ANN401
        """The time below the innermost call that exists on the path to the root."""
        make = partial(flame, self.job, rank, **asked)
        roots = [root[:length] for length in range(len(root), -1, -1)]
        tried = [(sandwich, each) for each in roots] if sandwich else []
        for name, each in [*tried, *(("", each) for each in roots[:-1])]:
            try:
                return make(root=each, sandwich=name)
            except ParameterError:
                continue
        return make()

    def tabulate(self, result: Flame) -> pd.DataFrame:
        """List the names, with their self time and its share."""
        whole = max(int(result.nodes[f"total_{result.unit}"].iloc[0]), 1)
        own = result.names[f"own_{result.unit}"]
        return result.names.assign(own_percent=100 * own / whole)

    def nothing_to_show(self, result: Flame) -> str | None:
        """Explain an empty panel."""
        return None if result.total_ns or result.total_bytes else _NOTHING[self.weight]

    @button("Export folded stacks")
    def write_collapsed_stacks(self, output_dir: PathLike | None = None) -> Path:
        """Write all paths as text that other flame graph tools read, such as speedscope.

        The file name has the rank and the weight: ``rank-0-gpu.collapsed``. `output_dir` defaults
        to the panel's, or else to the working folder of the notebook; see
        `hta_widgets.analyses.flame.collapsed_stacks`.
        """
        rank = self.rank
        text = collapsed_stacks(
            self.job, rank, weight=self.weight, **self.selection.time_of(self.job)
        )
        if not text:
            raise ParameterError(_NOTHING[self.weight])
        target = self._folder(output_dir) / f"rank-{rank}-{self.weight}.collapsed"
        with write_errors(target), atomic_write(target) as unfinished:
            unfinished.write_bytes(text.encode(errors="replace"))
        return target

    def _picture(self, result: Flame) -> str:
        return image(flame_picture(result), self.title)

    def _view_of(self, outcome: RenderedView[Flame] | Exception) -> View:
        if isinstance(outcome, RenderedView):
            result = outcome.result
            self._drawn = self._memo.get("boxes", lambda: columns_as_text(boxes(result)), result)
        return super()._view_of(outcome)

    _drawn = ""

    def _publish(self, outcome: RenderedView[Flame] | Exception) -> None:
        with self.hold_sync():
            super()._publish(outcome)
            self._flame = self._drawn
