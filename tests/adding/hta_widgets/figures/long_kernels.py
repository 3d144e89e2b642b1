"""Figure of the long kernels."""

from __future__ import annotations

from hta_widgets.analyses.long_kernels import LongKernels

from hta_widgets.figures.base.drawing import Drawing, trace


def long_kernels(result: LongKernels) -> Drawing:
    """Draw a bar for each rank."""
    bars = trace("bar", x=result.ranks["rank"].to_numpy(), y=result.ranks["long"].to_numpy())
    return Drawing([bars], {})
