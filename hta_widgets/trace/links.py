"""Correlation: which call of the CPU launched which work on the GPU."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hta_widgets.trace.events import GPU_SIDE, LAUNCH_CALLS, Events

NO_LAUNCH = -1


def launch_rows(events: Events) -> NDArray[np.int64]:
    """Find the launching call of each GPU event.

    Where several calls carry one correlation id (a runtime call and the driver call inside it)
    the outermost counts: the earliest start, then the longest.

    Returns
    -------
    ndarray of int64, one per event
        Row of the runtime or driver call; `NO_LAUNCH` for CPU events and for GPU events whose
        launch is not in the trace.
    """
    found = np.full(len(events), NO_LAUNCH, dtype=np.int64)
    calls = events.rows_of(*LAUNCH_CALLS)
    calls = calls[events.correlation[calls] >= 0]
    gpu = events.rows_of(*GPU_SIDE)
    gpu = gpu[events.correlation[gpu] >= 0]
    if not calls.size or not gpu.size:
        return found
    order = np.lexsort(
        (-events.duration_ns[calls], events.start_ns[calls], events.correlation[calls])
    )
    calls = calls[order]
    ids = events.correlation[calls]
    position = np.minimum(np.searchsorted(ids, events.correlation[gpu]), ids.size - 1)
    matches = ids[position] == events.correlation[gpu]
    found[gpu[matches]] = calls[position[matches]]
    return found
