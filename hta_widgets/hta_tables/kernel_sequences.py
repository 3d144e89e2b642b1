"""The kernel sequences as HTA's table."""

from __future__ import annotations

import pandas as pd

from hta_widgets.analyses.kernel_sequences import KernelSequences
from hta_widgets.quantities import NS_PER_US


def kernel_sequences(result: KernelSequences) -> pd.DataFrame:
    """Return the columns that `TraceAnalysis.get_frequent_cuda_kernel_sequences` documents."""
    table = result.patterns
    return pd.DataFrame(
        {
            "pattern": table["pattern"],
            "count": table["count"],
            "GPU kernel duration (us)": table["gpu_time_ns"] / NS_PER_US,
            "CPU op duration (us)": table["cpu_time_ns"] / NS_PER_US,
        }
    )
