"""GPU time by kernel type and by kernel."""

from hta_widgets.analyses.kernel_breakdown.analysis import (
    OTHERS,
    KernelBreakdown,
    kernel_breakdown,
)
from hta_widgets.analyses.kernel_breakdown.finding import totals_over_ranks

__all__ = ["OTHERS", "KernelBreakdown", "kernel_breakdown", "totals_over_ranks"]
