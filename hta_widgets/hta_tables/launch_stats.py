"""The launch statistics as HTA's tables."""

from __future__ import annotations

import pandas as pd

from hta_widgets.analyses.launch_stats import LaunchStats
from hta_widgets.hta_tables import NS_PER_US


def launch_stats(result: LaunchStats) -> dict[int, pd.DataFrame]:
    """Return the columns that `TraceAnalysis.get_cuda_kernel_launch_stats` documents."""
    return {
        rank: pd.DataFrame(
            {
                "correlation": work.correlation,
                "cpu_duration": work.cpu_duration_ns / NS_PER_US,
                "gpu_duration": work.gpu_duration_ns / NS_PER_US,
                "launch_delay": work.launch_delay_ns / NS_PER_US,
            }
        )
        for rank, work in result.work.items()
    }
