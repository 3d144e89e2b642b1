"""The kernel breakdown as HTA's two tables."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hta_widgets.analyses.kernel_breakdown import KernelBreakdown
from hta_widgets.quantities import NS_PER_US

_STATISTICS = {
    "sum_ns": "sum (us)",
    "max_ns": "max (us)",
    "min_ns": "min (us)",
    "stddev_ns": "stddev",
    "mean_ns": "mean (us)",
}


def kernel_breakdown(result: KernelBreakdown) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the columns that `TraceAnalysis.get_gpu_kernel_breakdown` documents."""
    types = pd.DataFrame(
        {
            "kernel_type": result.types["kernel_type"],
            "sum": result.types["sum_ns"] / NS_PER_US,
            "percentage": result.types["percentage"].round(1),
        }
    )
    table = result.kernels
    columns = {
        _STATISTICS.get(name, name): table[name].to_numpy(np.float64) / NS_PER_US
        if name in _STATISTICS
        else table[name]
        for name in table.columns
        if name != "folded"
    }
    return types, pd.DataFrame(columns)
