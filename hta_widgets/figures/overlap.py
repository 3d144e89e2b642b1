"""Figure of the overlap: how much of each GPU's communication is hidden."""

from __future__ import annotations

from collections.abc import Collection

from hta_widgets.analyses.overlap import Overlap
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.base.rank_bars import BarPart, stacked_time_bars
from hta_widgets.figures.base.style import OVERLAPPED, TYPE_COLORS

_SERIES = (
    BarPart("overlap_time_ns", "Hidden behind computation", OVERLAPPED),
    BarPart(
        "beside_graph_ns", "During CUDA graphs", TYPE_COLORS["CUDA_GRAPH"], only_where_any=True
    ),
    BarPart.of_class("exposed_communication_ns", "Not hidden", "communication"),
)


def overlap(result: Overlap, *, selected: Collection[int] = (), as_percent: bool = True) -> Drawing:
    """Draw how much of each GPU's communication is hidden, and how much is not."""
    return stacked_time_bars(
        result.ranks,
        _SERIES,
        whole="communication_time_ns",
        whole_name="communication time",
        selected=selected,
        as_percent=as_percent,
    )
