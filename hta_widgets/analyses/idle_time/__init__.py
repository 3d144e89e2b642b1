"""Why GPUs and their streams are idle: the host is late, the GPU holds work back, or unknown."""

from hta_widgets.analyses.idle_time.analysis import (
    IDLE_CATEGORIES,
    IdleTime,
    idle_time,
    stream_idle_time,
)
from hta_widgets.analyses.idle_time.gaps import IDLE_SPLIT

__all__ = ["IDLE_CATEGORIES", "IDLE_SPLIT", "IdleTime", "idle_time", "stream_idle_time"]
