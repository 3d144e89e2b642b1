"""Figure of the temporal breakdown: one stacked bar per GPU."""

from __future__ import annotations

from collections.abc import Collection

from hta_widgets.analyses.temporal_breakdown import TemporalBreakdown
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.base.rank_bars import BarPart, stacked_time_bars
from hta_widgets.figures.base.style import NEUTRAL, TYPE_COLORS

_SERIES = (
    BarPart("compute_time_ns", "Compute", TYPE_COLORS["COMPUTATION"]),
    BarPart("graph_time_ns", "CUDA graphs", TYPE_COLORS["CUDA_GRAPH"], only_where_any=True),
    BarPart.of_class(
        "communication_time_ns", "Communication, not hidden", "communication", only_where_any=True
    ),
    BarPart.of_class("copy_time_ns", "Copies and memsets", "copies", only_where_any=True),
    BarPart("other_time_ns", "Other work", NEUTRAL, only_where_any=True),
    BarPart.of_class("idle_time_ns", "Idle", "other_idle"),
)


def temporal_breakdown(
    result: TemporalBreakdown, *, selected: Collection[int] = (), as_percent: bool = True
) -> Drawing:
    """Draw each GPU's time by what it does, including its idle time."""
    return stacked_time_bars(
        result.ranks,
        _SERIES,
        whole="kernel_time_ns",
        whole_name="GPU span",
        selected=selected,
        as_percent=as_percent,
    )
