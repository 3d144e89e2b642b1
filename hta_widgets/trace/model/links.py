"""Correlation: which CPU call launched which GPU work.

::

    CPU   cudaLaunchKernel |------|          correlation 42, the outermost call with this id
            cuLaunchKernel   |--|            correlation 42
    GPU               kernel        |----|   correlation 42, launched by cudaLaunchKernel

If several launches of a process have the same id (all are 0, ids wrap, or files were merged), only
their order can tell which launch belongs to which work::

    CPU   launch 1   launch 2   launch 3     all with id 0
    GPU        |= 1 =|        |= 2 =||= 3 =| as many on one stream, each after its launch
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Int32Array, Int64Array, Mask
from hta_widgets.grouping import grouped, opens_run
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import GPU_SIDE, GPU_WORK, LAUNCH_CALLS, Events, KindSet

NO_LAUNCH = -1

_GIVES_WORK: Final = re.compile(r"Launch|Memcpy|Memset")
"""Host calls that share their id with the GPU work."""


def launch_rows(events: Events) -> Int32Array:
    """Row of the launch call of each GPU event; `NO_LAUNCH` for those without, and for CPU events.

    Correlation ids are unique within a process. A runtime call and the driver call inside it have
    the same id; the outermost call counts. If other calls of a process share an id, its work and
    its launches are paired in order, provided that there are as many of both, each piece of work
    starts after its launch, and all work is on one stream or starts before the next launch;
    otherwise none has a launch. If calls of several processes share an id, as in a file merged from
    several ranks, the call of the process that launches all other work of the device counts. If
    that is unknown, the only call that starts before the work counts; of several, none does.
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
        of_one = _of_one_process(events, calls, first[unsure], last[unsure])
        _pair_in_order(events, found, gpu[unsure[of_one]], calls)
        unsure = unsure[~of_one]
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
    step of the clock of the trace (`Trace.resolution_ns`), are too close to distinguish.
    """
    delay = start_ns - call_end_ns
    delay[np.abs(delay) <= 2 * resolution_ns] = 0
    return delay


def _outermost_calls(events: Events) -> Int64Array:
    """Calls with an id that are not inside another call with that id, by id, then by start."""
    calls = events.rows_of(*LAUNCH_CALLS)
    calls = calls[events.correlation[calls] >= 0]
    calls = calls[np.argsort(events.correlation[calls], kind="stable")]
    ids = events.correlation[calls]
    same = np.flatnonzero(ids[1:] == ids[:-1])
    if not same.size:
        return calls
    several = np.union1d(same, same + 1)
    outermost = np.ones(calls.size, dtype=bool)
    outermost[several] = np.isin(calls[several], _in_no_other(events, calls[several]))
    return calls[outermost]


def _in_no_other(events: Events, calls: Int64Array) -> Int64Array:
    """Calls not inside another of their correlation id and thread; of equal ones, the first.

    A call that ends a moment after the one around it is inside it, too, since times are rounded.
    """
    groups = grouped(events.correlation[calls], events.pid[calls], events.tid[calls])
    group = groups.of_rows
    order = np.lexsort((-events.duration_ns[calls], events.start_ns[calls], group))
    calls, group = calls[order], group[order]
    apart_ns = group * (int(events.end_ns[calls].max()) + 1)  # one maximum runs over all groups
    until_ns = np.maximum.accumulate(events.end_ns[calls] + apart_ns) - apart_ns
    start_ns, end_ns = events.start_ns[calls[1:]], events.end_ns[calls[1:]]
    is_after = (start_ns >= until_ns[:-1]) & (end_ns > until_ns[:-1])
    is_outside = opens_run(group) | np.append([True], is_after)
    return np.asarray(calls[is_outside])


def _of_one_process(events: Events, calls: Int64Array, first: Int64Array, last: Int64Array) -> Mask:
    """Whether all calls with an id, from a first place to a last, belong to one process."""
    pid = events.pid[calls]
    changes = np.append([0], np.cumsum(pid[1:] != pid[:-1]))
    return np.asarray(changes[last - 1] == changes[first])


def _pair_in_order(events: Events, found: Int32Array, work: Int64Array, calls: Int64Array) -> None:
    """Link work whose ids several launches of one process share, if their order tells which."""
    work, calls = _as_many_of_both(events, work, calls)
    if not work.size:
        return
    start_ns, ids = events.start_ns, events.correlation[work]
    is_last = np.append(ids[1:] != ids[:-1], [True])
    next_work, next_call = np.roll(work, -1), np.roll(calls, -1)
    conditions = (
        start_ns[calls] <= start_ns[work],
        is_last | (start_ns[work] < start_ns[next_call]),
        is_last
        | (events.device[work] == events.device[next_work])
        & (events.stream[work] == events.stream[next_work]),
    )
    edges = np.append([0], np.flatnonzero(is_last)[:-1] + 1)
    are_after, are_alone, are_on_one_stream = (
        np.logical_and.reduceat(each, edges) for each in conditions
    )
    are_sure = are_after & (are_alone | are_on_one_stream)
    is_sure = np.repeat(are_sure, np.diff(np.append(edges, work.size)))
    found[work[is_sure]] = calls[is_sure]


def _as_many_of_both(
    events: Events, work: Int64Array, calls: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Work and launches of the ids that have as many of both, by id, then by start."""
    work = work[KindSet(GPU_WORK).among(events.kind[work])]
    calls = calls[events.named(calls, _GIVES_WORK)]
    work = work[np.lexsort((events.start_ns[work], events.correlation[work]))]
    of_work, works = np.unique(events.correlation[work], return_counts=True)
    of_calls, launches = np.unique(events.correlation[calls], return_counts=True)
    common, at_work, at_call = np.intersect1d(of_work, of_calls, return_indices=True)
    common = common[works[at_work] == launches[at_call]]
    work, calls = (rows[np.isin(events.correlation[rows], common)] for rows in (work, calls))
    return work, calls


def _only_first_is_before(
    events: Events, work: Int64Array, first: Int64Array, second: Int64Array
) -> NDArray[Any]:
    """Whether only the first call, of several by start, starts before the work."""
    start_ns = events.start_ns
    return (start_ns[first] <= start_ns[work]) & (start_ns[second] > start_ns[work])


def _processes_of_devices(events: Events, launches: Int32Array, gpu: Int64Array) -> dict[int, int]:
    """Process that launches all the given work of each device; none if there are several."""
    pairs = np.stack([events.device[gpu], events.pid[launches[gpu]]])
    devices, processes = np.unique(pairs, axis=1)
    alone = ~np.isin(devices, devices[1:][devices[1:] == devices[:-1]])
    return dict(zip(devices[alone].tolist(), processes[alone].tolist(), strict=True))


def _call_of_process(events: Events, candidates: Int64Array, process: int, default: int) -> int:
    """The call of a process, the default if it has none, or no launch if it has several."""
    of_process = candidates[events.pid[candidates] == process]
    if of_process.size > 1:
        return NO_LAUNCH
    return int(of_process[0]) if of_process.size else default
