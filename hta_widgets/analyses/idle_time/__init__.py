"""Why GPUs and their streams are idle: the host is late, back-to-back kernels, or other."""

from hta_widgets.analyses.idle_time.analysis import (
    IDLE_CATEGORIES,
    IdleTime,
    idle_time,
    stream_idle_time,
)

__all__ = ["IDLE_CATEGORIES", "IdleTime", "idle_time", "stream_idle_time"]
