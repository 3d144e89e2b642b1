"""Figure of the temporal breakdown: one stacked bar per GPU."""

from __future__ import annotations

from collections.abc import Collection

from hta_widgets.analyses.temporal_breakdown import TemporalBreakdown
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.base.rank_bars import BarPart, stacked_time_bars
from hta_widgets.figures.base.style import IDLE, TYPE_COLORS

_SERIES = (
    BarPart("compute_time_ns", "Compute", TYPE_COLORS["COMPUTATION"]),
    BarPart("non_compute_time_ns", "Non-compute", TYPE_COLORS["COMMUNICATION"]),
    BarPart("idle_time_ns", "Idle", IDLE),
)


def temporal_breakdown(
    result: TemporalBreakdown, *, selected: Collection[int] = (), as_percent: bool = True
) -> Drawing:
    """Draw compute, non-compute and idle time of each GPU.

    Parameters
    ----------
    result : TemporalBreakdown
    selected : collection of int
        Ranks to emphasise; none means all.
    as_percent : bool
        Share of each GPU's kernel time instead of time.
    """
    return stacked_time_bars(
        result.ranks,
        _SERIES,
        whole="kernel_time_ns",
        whole_name="kernel time",
        selected=selected,
        as_percent=as_percent,
    )
