"""Time series that can be written into a trace, and the suffix of the copies."""

from __future__ import annotations

from enum import Flag, auto

DEFAULT_SUFFIX = "_with_counters"


class TimeSeriesTypes(Flag):
    """Time series that can be written into a trace."""

    QUEUE_LENGTH = auto()
    MEMCPY_BANDWIDTH = auto()
