"""Which time series can be written into a trace, and how the copies are called."""

from __future__ import annotations

from enum import Flag, auto

DEFAULT_SUFFIX = "_with_counters"


class TimeSeriesTypes(Flag):
    """What can be written into a trace."""

    QUEUE_LENGTH = auto()
    MEMCPY_BANDWIDTH = auto()
