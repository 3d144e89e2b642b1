"""Bandwidth of copies and memsets over time, by kind of transfer."""

from hta_widgets.analyses.memory_bandwidth.analysis import (
    UNIT,
    MemoryBandwidth,
    memory_bandwidth,
    transfer_statistics,
)

__all__ = ["UNIT", "MemoryBandwidth", "memory_bandwidth", "transfer_statistics"]
