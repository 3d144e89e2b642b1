"""Panel of the overlap by rank."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd
from traitlets import Bool, Enum, Int

from hta_widgets.analyses.rank_overlap import RankOverlap, rank_overlap
from hta_widgets.analyses.rank_overlap.lanes import DEVICE, LEVELS, RANK, STREAM, Lanes
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.rank_overlap import (
    STRIPS_AT_MOST,
    images_over_time,
    strips_over_time,
    time_by_lane,
)
from hta_widgets.panels.base.controls import (
    SHARE_OR_TIME,
    Choice,
    Control,
    RankPicker,
    Slider,
    Toggle,
)
from hta_widgets.panels.base.panel import Panel
from hta_widgets.trace.job import Job

BY = (("Rank", RANK), ("Device", DEVICE), ("Stream", STREAM))
TIMES, OUTLIERS = "times", "outliers"
LISTS = (("Times", TIMES), ("Outliers", OUTLIERS))


class RankOverlapPanel(Panel):
    """Computation, communication, both or neither: each rank beside the others, and over time."""

    title = "Overlap by rank"
    wide = True
    any_number_of_ranks = True
    controls: ClassVar[tuple[Control, ...]] = (
        RankPicker(),
        Choice("by", "By", BY),
        SHARE_OR_TIME,
        Slider("slices", "Slices", min=1, max=200),
        Toggle("common_window", "Same window for all"),
        Choice("listed", "Table", LISTS),
    )

    by = Enum(LEVELS, RANK).tag(sync=True)
    """Compare ranks, or keep their devices or streams apart."""

    as_percent = Bool(True).tag(sync=True)
    """Show shares of each span instead of time."""

    slices = Int(30, min=1, max=200).tag(sync=True)
    """Number of slices of time."""

    common_window = Bool(False).tag(sync=True)
    """Count the time before a late start and after an early end as empty."""

    listed = Enum([value for _, value in LISTS], TIMES).tag(sync=True)
    """What the data table holds: the times of all, or who stands out by which rule."""

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """Tell whether there is more than one rank, device or stream to compare."""
        return len(job.ranks) > 1 or len(Lanes.of(job, job.ranks, STREAM).lanes) > 1

    def analyse(self) -> RankOverlap:
        """Measure the selected ranks."""
        return self._analyse(self.ranks)

    def draw(self, result: RankOverlap) -> dict[str, Drawing]:
        """Draw the time of each lane, and how it goes over time."""
        shown = self._analyse([]) if self.linked and self.ranks else result
        chosen = self.ranks if self.linked else []
        name = f"Time by {self.by} (▲ higher, ▼ lower than the others)"
        columns = partial(time_by_lane, shown, selected=chosen, as_percent=self.as_percent)
        basis = (shown.lanes, shown.outliers, tuple(chosen), self.as_percent)
        figures = {name: self._latest.get("time by lane", columns, *basis)}
        many = len(shown.lanes) > STRIPS_AT_MOST
        if many:
            name = f"Share of each slice of time, by {self.by} (pale 0 %, full colour 100 %)"
            figures[name] = images_over_time(shown, selected=chosen)
        if chosen or not many:
            figures["What each slice of time goes to"] = strips_over_time(shown, selected=chosen)
        return figures

    def tabulate(self, result: RankOverlap) -> pd.DataFrame:
        """One row per lane, or per column and lane that stands out in it, farthest first.

        Who stands out is told from all ranks, also while some are selected.
        """
        if self.listed == TIMES:
            return result.lanes
        outliers = self._analyse([]).outliers if self.linked and self.ranks else result.outliers
        found = outliers[(outliers.filter(like="verdict") != "").any(axis=1)]
        return found.sort_values("modified_z", key=np.abs, ascending=False, kind="stable")

    def nothing_to_show(self, result: RankOverlap) -> str | None:
        """Say so where no kernel ran."""
        return None if result.lanes["kernels"].any() else result.finding

    def _analyse(self, ranks: list[int]) -> RankOverlap:
        return rank_overlap(
            self.job, ranks, by=self.by, slices=self.slices, common_window=self.common_window
        )
