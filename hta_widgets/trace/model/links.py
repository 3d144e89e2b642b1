"""Correlation: which call of the CPU launched which work on the GPU."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import GPU_SIDE, LAUNCH_CALLS, Events

NO_LAUNCH = -1

Rows = NDArray[np.int64]


def launch_rows(events: Events) -> NDArray[np.int32]:
    """Find the launching call of each GPU event.

    Correlation ids are unique within a process. Where several calls of a process carry one id (a
    runtime call and the driver call inside it) the outermost counts: the earliest start, then the
    longest. Where calls of several processes carry one id, the call is that of the process which
    launches the other work of the device; where that is not known, the last one that begins before
    the work.

    Returns
    -------
    ndarray of int32, one per event
        Row of the runtime or driver call; `NO_LAUNCH` for CPU events and for GPU events whose
        launch is not in the trace.
    """
    found = np.full(len(events), NO_LAUNCH, dtype=np.int32)
    gpu = events.rows_of(*GPU_SIDE)
    gpu = gpu[events.correlation[gpu] >= 0]
    calls = _outermost_calls(events)
    ids = events.correlation[calls]
    first = np.searchsorted(ids, events.correlation[gpu], side="left")
    last = np.searchsorted(ids, events.correlation[gpu], side="right")
    sure = last - first == 1
    found[gpu[sure]] = calls[first[sure]]
    unsure = np.flatnonzero(last - first > 1)
    process_of = _processes_of_devices(events, found, gpu[sure]) if unsure.size else {}
    for row, start, end in zip(gpu[unsure], first[unsure], last[unsure], strict=True):
        process = process_of.get(int(events.device[row]))
        found[row] = _choose(events, calls[start:end], int(row), process)
    return found


def launch_delays_ns(start_ns: Times, call_end_ns: Times, resolution_ns: int) -> Times:
    """Time from the end of each call to the start of the operation that it launches.

    Negative where the operation starts before the call returns; 0 where both times, each true to a
    step of the clock with which the trace was written, are too close to tell.

    Parameters
    ----------
    start_ns, call_end_ns : ndarray of int64
        Of the operations and of their calls, in pairs.
    resolution_ns : int
        Step of the clock: `Trace.resolution_ns`.
    """
    delay = start_ns - call_end_ns
    delay[np.abs(delay) <= 2 * resolution_ns] = 0
    return delay


def _outermost_calls(events: Events) -> Rows:
    """One call per correlation id and process, in order of the id, then of start."""
    calls = events.rows_of(*LAUNCH_CALLS)
    calls = calls[events.correlation[calls] >= 0]
    calls = calls[np.argsort(events.correlation[calls], kind="stable")]
    ids = events.correlation[calls]
    same = np.flatnonzero(ids[1:] == ids[:-1])
    if not same.size:
        return calls
    several = np.union1d(same, same + 1)
    outermost = np.ones(calls.size, dtype=bool)
    outermost[several] = np.isin(calls[several], _first_of_each(events, calls[several]))
    return calls[outermost]


def _first_of_each(events: Events, calls: Rows) -> Rows:
    """The call of each correlation id and process that starts first; if several do, the longest."""
    correlation, pid = events.correlation[calls], events.pid[calls]
    order = np.lexsort((-events.duration_ns[calls], events.start_ns[calls], pid, correlation))
    key = np.stack([correlation[order], pid[order]])
    is_first = np.any(np.diff(key, axis=1, prepend=-1), axis=0)
    return np.asarray(calls[order][is_first])


def _processes_of_devices(events: Events, launches: NDArray[np.int32], gpu: Rows) -> dict[int, int]:
    """Process that launches most of the work of each device."""
    pairs = np.stack([events.device[gpu], events.pid[launches[gpu]]])
    (devices, processes), count = np.unique(pairs, axis=1, return_counts=True)
    order = np.argsort(count, kind="stable")
    return dict(zip(devices[order].tolist(), processes[order].tolist(), strict=True))


def _choose(events: Events, candidates: Rows, work: int, process: int | None) -> int:
    """Choose between calls of several processes, which come in order of start."""
    of_process = candidates[events.pid[candidates] == process]
    if process is not None and of_process.size:
        return int(of_process[0])
    before = candidates[events.start_ns[candidates] <= events.start_ns[work]]
    return int(before[-1] if before.size else candidates[0])
