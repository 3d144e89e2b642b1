"""Correlation: which CPU call launched which GPU work.

::

    CPU   cudaLaunchKernel |------|          correlation 42, the outermost call with this id
            cuLaunchKernel   |--|            correlation 42
    GPU               kernel        |----|   correlation 42, launched by cudaLaunchKernel
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Int32Array, Int64Array
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import GPU_SIDE, LAUNCH_CALLS, Events

NO_LAUNCH = -1


def launch_rows(events: Events) -> Int32Array:
    """Find the launch call of each GPU event.

    Correlation ids are unique within a process. If several calls of a process have the same id (a
    runtime call and the driver call inside it), the outermost counts: the earliest start, then the
    longest. If calls of several processes have the same id, as in a file merged from several ranks,
    the call of the process that launches all other work of the device counts. If that is unknown,
    the only call that starts before the work counts; if there are several, none does.

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
    if unsure.size:
        work, first, last = gpu[unsure], first[unsure], last[unsure]
        only = _only_first_is_before(events, work, calls[first], calls[first + 1])
        found[work[only]] = calls[first[only]]
        process_of = _processes_of_devices(events, found, gpu[sure])
        for row, start, end in zip(work, first, last, strict=True):
            process = process_of.get(int(events.device[row]))
            if process is not None:
                found[row] = _call_of_process(events, calls[start:end], process, found[row])
    return found


def launch_delays_ns(start_ns: Times, call_end_ns: Times, resolution_ns: int) -> Times:
    """Time from the end of each launch call to the start of the operation that it launches.

    Negative if the operation starts before the call returns; 0 if the two times, each exact to one
    step of the clock of the trace, are too close to distinguish.

    Parameters
    ----------
    start_ns, call_end_ns : ndarray of int64
        Of the operations and their launch calls, in pairs.
    resolution_ns : int
        Step of the clock: `Trace.resolution_ns`.
    """
    delay = start_ns - call_end_ns
    delay[np.abs(delay) <= 2 * resolution_ns] = 0
    return delay


def _outermost_calls(events: Events) -> Int64Array:
    """One call per correlation id and process, by id, then by start."""
    calls = events.rows_of(*LAUNCH_CALLS)
    calls = calls[events.correlation[calls] >= 0]
    calls = calls[np.argsort(events.correlation[calls], kind="stable")]
    ids = events.correlation[calls]
    same = np.flatnonzero(ids[1:] == ids[:-1])
    if not same.size:
        return calls
    several = np.union1d(same, same + 1)
    outermost = np.ones(calls.size, dtype=bool)
    outermost[several] = np.isin(calls[several], _earliest_of_each(events, calls[several]))
    return calls[outermost]


def _earliest_of_each(events: Events, calls: Int64Array) -> Int64Array:
    """First call of each correlation id and process; the longest of those that start together."""
    correlation, pid = events.correlation[calls], events.pid[calls]
    order = np.lexsort((-events.duration_ns[calls], events.start_ns[calls], pid, correlation))
    key = np.stack([correlation[order], pid[order]])
    is_first = np.any(np.diff(key, axis=1, prepend=-1), axis=0)
    return np.asarray(calls[order][is_first])


def _only_first_is_before(
    events: Events, work: Int64Array, first: Int64Array, second: Int64Array
) -> NDArray[Any]:
    """Whether only the first call, of several by start, starts before the work."""
    start_ns = events.start_ns
    return (start_ns[first] <= start_ns[work]) & (start_ns[second] > start_ns[work])


def _processes_of_devices(events: Events, launches: Int32Array, gpu: Int64Array) -> dict[int, int]:
    """Process that launches all of this work of each device; none for a device of several."""
    pairs = np.stack([events.device[gpu], events.pid[launches[gpu]]])
    devices, processes = np.unique(pairs, axis=1)
    alone = ~np.isin(devices, devices[1:][devices[1:] == devices[:-1]])
    return dict(zip(devices[alone].tolist(), processes[alone].tolist(), strict=True))


def _call_of_process(events: Events, candidates: Int64Array, process: int, default: int) -> int:
    """Choose the call of a process."""
    of_process = candidates[events.pid[candidates] == process]
    return int(of_process[0]) if of_process.size else default
