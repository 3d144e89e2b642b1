"""Columns of the tables of `MemoryUse`, and their types."""

from __future__ import annotations

from typing import Final

import numpy as np

DEVICE: Final = {"rank": np.int64, "device_type": object, "device": np.int64}
_OWNER: Final = {"operator": object, "caller": object, "module": object}
CURVE: Final = DEVICE | dict.fromkeys(("time_ns", "allocated_bytes", "reserved_bytes"), np.int64)
PEAK: Final = DEVICE | dict.fromkeys(
    (
        *("bytes", "time_ns", "step", "reserved_bytes", "fragmentation_bytes"),
        *("largest_fragmentation_bytes", "events", "allocated_in_all_bytes", "breaks"),
    ),
    np.int64,
)
ALIVE: Final = DEVICE | _OWNER | {"category": object, "blocks": np.int64, "bytes": np.int64}
STEPS: Final = DEVICE | dict.fromkeys(
    (
        *("step", "start_ns", "end_ns", "allocated_at_end_bytes", "peak_bytes"),
        *("surviving_blocks", "surviving_bytes"),
    ),
    np.int64,
)
SURVIVORS: Final = DEVICE | _OWNER | {"blocks": np.int64, "bytes": np.int64}
