"""Panel of the overlap by rank: activities compared across ranks and over time."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal, TypeAlias

import numpy as np
import pandas as pd
from traitlets import Bool, Int

from hta_widgets.analyses.rank_overlap import RankOverlap, rank_overlap
from hta_widgets.analyses.rank_overlap.finding import NOUNS
from hta_widgets.analyses.rank_overlap.lanes import busy_devices
from hta_widgets.analyses.rank_overlap.outliers import SHARES, TIMES
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.base.lane_panes import ACTIVITY_WORDS
from hta_widgets.figures.rank_overlap import (
    STRIPS_AT_MOST,
    images_over_time,
    strips_over_time,
    time_by_lane,
)
from hta_widgets.panels.base.controls import SHARE_OR_TIME, Choice, Slider, Toggle
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.trace.job import Job

By: TypeAlias = Literal["rank", "device", "stream"]
Listed: TypeAlias = Literal["times", "outliers"]


class RankOverlapPanel(Panel[RankOverlap]):
    """Computation, communication, both or neither, compared across ranks and over time."""

    name = "rank_overlap"
    tab = "ranks"
    place = 2
    title = "Overlap by rank"
    follows = ("window_ns",)
    any_number_of_ranks = True
    table_of_all = True
    table_labels: ClassVar = {
        f"{activity}_{unit}": words.lower().replace("cuda", "CUDA")
        for activity, words in ACTIVITY_WORDS.items()
        for unit in ("ns", "percent")
    }
    table_names: ClassVar = {
        column: f"{label} ({'ns' if column.endswith('_ns') else '%'})"
        for column, label in table_labels.items()
    }

    by: By = parameter(
        LabelledEnum({"rank": "Ranks", "device": "GPUs", "stream": "Streams"}), Choice("Compare")
    )
    """What to compare."""

    as_percent: bool = parameter(Bool(True), SHARE_OR_TIME)
    """Show shares of each span instead of time."""

    slices: int = parameter(Int(30, min=1, max=200), Slider("Time slices"))
    """Number of time slices, up to 200."""

    common_window: bool = parameter(Bool(False), Toggle("Same window for all ranks"))
    """Count the time before a late start and after an early end as empty."""

    listed: Listed = parameter(
        LabelledEnum({"times": "Times", "outliers": "Outliers"}), Choice("Table")
    )
    """Contents of the table: the times of all lanes, or the outliers by each rule."""

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """Whether there is more than one rank or GPU to compare."""
        return len(job.ranks) > 1 or max(job.reduce(busy_devices, job.ranks).values()) > 1

    def analyse(self, ranks: list[int]) -> RankOverlap:
        """Measure the activities of the ranks."""
        return rank_overlap(
            self.job,
            ranks,
            by=self.by,
            slices=self.slices,
            common_window=self.common_window,
            window_ns=self.selection.window_ns,
        )

    def sentence(self, result: RankOverlap) -> str:
        """Return the finding; in a window, with what of the panel the window limits."""
        window = self.selection.window_ns
        if not window:
            return result.finding
        start_ns, end_ns = result.slices["start_ns"].min(), result.slices["end_ns"].max()
        is_cut = window[0] <= start_ns and end_ns <= window[1]
        said = (
            "Only the time slices are of the selected window; all other"
            if is_cut
            else "No kernel runs in the selected window; all"
        )
        return f"{said} numbers are of everything analysed. {result.finding}"

    def draw(self, result: RankOverlap) -> dict[str, Drawing]:
        """Draw the time of each lane, and its activity over time."""
        shown = self.of_all_ranks(result)
        chosen = self.ranks if self.linked else []
        noun = NOUNS[self.by]
        drawn = shown.outliers["column"].isin(SHARES if self.as_percent else TIMES)
        marked = (drawn & (shown.outliers["verdict"] != "")).any()
        marks = " (▲ above, ▼ below the median; open: possible outlier)" if marked else ""
        name = f"Time by {noun}{marks}"
        columns = partial(time_by_lane, shown, selected=chosen, as_percent=self.as_percent)
        basis = (shown.lanes, shown.outliers, tuple(chosen), self.as_percent)
        figures = {name: self._memo.get("time by lane", columns, *basis)}
        many = len(shown.lanes) > STRIPS_AT_MOST
        if many:
            name = f"Share of each time slice, by {noun} (pale 0 %, full colour 100 %)"
            figures[name] = images_over_time(shown, selected=chosen)
        if chosen or not many:
            figures["Activity in each time slice"] = strips_over_time(shown, selected=chosen)
        return figures

    def tabulate(self, result: RankOverlap) -> pd.DataFrame:
        """List the lanes, or the outliers of each column, the strongest first.

        Outliers are always determined among all ranks, even if some are selected. Columns of
        devices, streams and nodes that nothing has are left out.
        """
        table = result.lanes
        if self.listed == "outliers":
            outliers = self.of_all_ranks(result).outliers
            found = outliers[(outliers.filter(like="verdict") != "").any(axis=1)]
            table = found.sort_values("modified_z", key=np.abs, ascending=False, kind="stable")
        return self._memo.call(_listed, table)

    def nothing_to_show(self, result: RankOverlap) -> str | None:
        """Explain an empty panel: no kernels."""
        return None if result.lanes["kernels"].any() else result.finding

    def _time(self) -> str:
        """The time that is cut into slices; all other numbers cover the whole time."""
        window = super()._time()
        return f"time slices of {window}" if window else ""


def _listed(table: pd.DataFrame) -> pd.DataFrame:
    """A table without columns of numbers that nothing in it has."""
    numbers = ["device", "stream", "node"]
    return table.drop(columns=[each for each in numbers if (table[each] < 0).all()])
