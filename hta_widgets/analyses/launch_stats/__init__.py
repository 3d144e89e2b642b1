"""Cost of launching GPU work: duration of the calls, and delay until the work starts."""

from hta_widgets.analyses.launch_stats.analysis import (
    DISTRIBUTIONS,
    LAUNCH_DELAY_OUTLIERS,
    RUNTIME_OUTLIERS,
    SHORT_KERNELS,
    LaunchStats,
    launch_stats,
)

__all__ = [
    "DISTRIBUTIONS",
    "LAUNCH_DELAY_OUTLIERS",
    "RUNTIME_OUTLIERS",
    "SHORT_KERNELS",
    "LaunchStats",
    "launch_stats",
]
