"""The launch statistics as HTA's tables."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from hta_widgets.analyses.launch_stats.launched_work import LaunchedWork
from hta_widgets.hta_tables import tables_of
from hta_widgets.quantities import NS_PER_US


def launch_stats(launched: Mapping[int, LaunchedWork]) -> dict[int, pd.DataFrame]:
    """Return the columns that `TraceAnalysis.get_cuda_kernel_launch_stats` documents."""
    columns = {
        rank: {
            "correlation": work.correlation,
            "cpu_duration": work.cpu_duration_ns / NS_PER_US,
            "gpu_duration": work.gpu_duration_ns / NS_PER_US,
            "launch_delay": np.maximum(work.signed_delay_ns, 0) / NS_PER_US,
        }
        for rank, work in launched.items()
    }
    return tables_of(columns)
