"""The idle intervals of the devices of one rank, and the work and the calls around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hta_widgets.analyses.time.calls import Calls
from hta_widgets.analyses.time.causes import (
    NO_CALL,
    LaunchSplit,
    are_of_one_graph,
    split_by_launch,
)
from hta_widgets.analyses.time.patterns import (
    BLOCKING,
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
)
from hta_widgets.analyses.time.window import Window, begin_on, window_of
from hta_widgets.arrays import Int8Array, Int64Array, IntArray, Mask
from hta_widgets.grouping import distinct
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.model.events import GPU_WORK, Events, Kind
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.rank import NEVER, Rank

PARTS: Final = ("head", "between", "tail")
HEAD, BETWEEN, TAIL = range(3)

BETWEEN_KERNELS_NS: Final = 30_000
"""Shorter intervals before work that was launched in time are the cost of starting kernels."""

DRAINED_BEFORE_NS: Final = 1_000
DRAINED_AFTER_NS: Final = 100_000
"""A blocking call drained the GPU if it returns this close to the moment when that ran dry."""


@dataclass(frozen=True, eq=False)
class Gaps:
    """Idle intervals, device by device in order of time."""

    device: IntArray
    start_ns: Times
    end_ns: Times
    part: Int8Array
    """Position in `PARTS`."""
    launch: IntArray
    """Row of the call that launched the work after the interval, or where the trace lacks it, of
    the call that came too late for what follows on the stream (see `_late_behind`); -1 if neither
    is in the trace or nothing follows."""
    inside_graph: Mask
    """Whether the work on both sides is of one launched graph."""

    @property
    def is_unrecorded(self) -> Mask:
        """Whether work follows whose launch is not in the trace."""
        return np.asarray((self.part != TAIL) & (self.launch == NO_CALL))


@asked_once
def gaps_of(rank: Rank) -> Gaps:
    """The idle intervals of all devices on which work is analysed."""
    columns = rank.derive(_gaps)
    return Gaps(**{**columns, "inside_graph": columns["inside_graph"].view(np.bool_)})


def launch_split(gaps: Gaps, events: Events) -> LaunchSplit:
    """Split each interval by its launch call.

    After the last work the whole interval is the host's. Inside a graph, and before work of unknown
    launch, nothing is.
    """
    launch = np.where(gaps.inside_graph, NO_CALL, gaps.launch)
    split = split_by_launch(gaps.start_ns, gaps.end_ns, launch, events)
    is_tail = gaps.part == TAIL
    return split._replace(
        host_until_ns=np.where(is_tail, gaps.end_ns, split.host_until_ns),
        call_until_ns=np.where(is_tail, gaps.end_ns, split.call_until_ns),
    )


def drains(gaps: Gaps, late: Mask, calls: Calls, thread: Int64Array) -> Int64Array:
    """Place of the blocking call that let the GPU run dry at the start of each interval, or -1.

    The GPU was drained only where it is `late`: where the next launch call began after the interval
    did. `thread` is the position in ``calls.threads`` of the launching thread.
    """
    found = np.full(late.size, NO_CALL)
    blocking = np.flatnonzero(calls.named(BLOCKING.search) & calls.is_launch_call)
    of_thread = calls.thread_of(blocking)
    end_ns = calls.start_ns[blocking] + calls.events.duration_ns[calls.forest.rows[blocking]]
    for each in distinct(thread[late]).tolist():
        own = np.flatnonzero(of_thread == each)
        own = own[np.argsort(end_ns[own], kind="stable")]
        asked = np.flatnonzero(late & (thread == each))
        first_place = _least_between(
            blocking[own],
            np.searchsorted(end_ns[own], gaps.start_ns[asked] - DRAINED_BEFORE_NS, side="left"),
            np.searchsorted(end_ns[own], gaps.start_ns[asked] + DRAINED_AFTER_NS, side="right"),
        )
        begun = first_place != NO_CALL
        begun[begun] = calls.start_ns[first_place[begun]] < gaps.start_ns[asked[begun]]
        found[asked[begun]] = first_place[begun]
    return found


def runs_at(rank: Rank, rows: Int64Array, times: Times) -> Mask:
    """Whether work that was launched before each time still runs then, beside copies of the host.

    A call that finds none drains nothing: it may wait for the copy that it asks for, for 25 µs.
    `rows` are all the GPU work.
    """
    events = rank.trace.events
    of_host = (HOST_TO_DEVICE, DEVICE_TO_HOST)
    names = events.name.values
    codes = np.unique(events.name.codes[rows[events.kind[rows] == Kind.MEMCPY]]).tolist()
    copies = [code for code in codes if any(each.search(names[code]) for each in of_host)]
    rows = rows[~np.isin(events.name.codes[rows], copies)]
    launch, start_ns = rank.launches[rows], events.start_ns[rows]
    asked_ns = np.where(launch >= 0, events.start_ns[launch], start_ns)
    order = np.argsort(asked_ns, kind="stable")
    until_ns = np.maximum.accumulate((start_ns + events.duration_ns[rows])[order])
    before = np.searchsorted(asked_ns[order], times, side="left")
    return np.asarray((before > 0) & (np.append(until_ns, 0)[before - 1] > times))


def _least_between(values: Int64Array, first: Int64Array, last: Int64Array) -> Int64Array:
    """Least of each slice, -1 for empty ones."""
    filled = np.flatnonzero(last > first)
    least = np.full(first.size, NO_CALL)
    if filled.size:
        edges = np.stack([first[filled], last[filled]], axis=1).ravel()
        bounded = np.append(values, values[-1:])  # an edge may be the end
        least[filled] = np.minimum.reduceat(bounded, edges)[::2]
    return least


def _gaps(rank: Rank) -> dict[str, NDArray[np.generic]]:
    window = window_of(rank)
    by_device = [_on_device(rank, window, device) for device in rank.gpu_work.devices]
    types: dict[str, DTypeLike] = {
        "device": rank.trace.events.device.dtype,
        "start_ns": np.int64,
        "end_ns": np.int64,
        "part": np.int8,
        "launch": np.int32,
        "inside_graph": np.uint8,
    }
    return {
        name: np.concatenate([np.zeros(0, dtype), *(each[name] for each in by_device)], dtype=dtype)
        for name, dtype in types.items()
    }


def recorded_work(rank: Rank, device: int) -> Int64Array:
    """Rows of all GPU work of a device, also of the step that is not analysed."""
    events = rank.trace.events
    rows = events.rows_of(*GPU_WORK)
    return np.asarray(rows[events.device[rows] == device])


@asked_once
def busy_time(rank: Rank, device: int) -> Intervals:
    """Time of the window in which any recorded work of a device runs."""
    window = window_of(rank)
    events, rows = rank.trace.events, recorded_work(rank, device)
    start_ns = events.start_ns[rows]
    busy = Intervals.union(start_ns, start_ns + events.duration_ns[rows])
    return busy.clip(begin_on(rank, device), window.end_ns)


def _on_device(rank: Rank, window: Window, device: int) -> dict[str, NDArray[np.generic]]:
    busy, begin_ns = busy_time(rank, device), begin_on(rank, device)
    start = np.concatenate(([begin_ns], busy.ends))
    end = np.concatenate((busy.starts, [window.end_ns]))
    start, end = start[end > start], end[end > start]
    rows = recorded_work(rank, device)
    after, before = work_after(rank, rows, end), _work_before(rank, rows, start)
    launch = np.where(after >= 0, rank.launches[after], NO_CALL).astype(np.int64)
    unknown = np.flatnonzero((after >= 0) & (launch == NO_CALL))
    launch[unknown] = _late_behind(rank, rows, after[unknown], start[unknown])
    launch_before = np.where(before >= 0, rank.launches[before], NO_CALL).astype(np.int64)
    inside_graph = are_of_one_graph(launch_before, launch, rank.trace.events)
    part = np.where(after < 0, TAIL, BETWEEN)
    part[(start == begin_ns) & (before < 0) & (after >= 0)] = HEAD
    return {
        "device": np.full(start.size, device),
        "start_ns": start,
        "end_ns": end,
        "part": part.astype(np.int8),
        "launch": launch,
        "inside_graph": inside_graph.astype(np.uint8),
    }


def _late_behind(rank: Rank, rows: Int64Array, work: Int64Array, start: Times) -> Int64Array:
    """The launch call of what follows on the stream of some work, if it came too late; else -1.

    Recorders leave the calls of some copies and fills out: where one comes before each kernel, no
    idle time had a call, in which the host was late for nine tenths of it. What it fills is not
    launched when the GPU runs dry, so that the host is late for both. Before the first work of its
    stream that is known to be launched, work may be from before the recording.

    `rows` are all GPU work of the device, `work` is that whose launch is not in the trace, and the
    interval before each begins at `start`.
    """
    if not work.size:
        return work
    events = rank.trace.events
    rows = rows[np.lexsort((rows, events.start_ns[rows], events.stream[rows]))]
    stream, launch = events.stream[rows], rank.launches[rows].astype(np.int64)
    is_known, places = launch != NO_CALL, np.arange(rows.size)
    following = np.where(is_known, places, rows.size)
    following = np.minimum.accumulate(following[::-1])[::-1]
    leading = np.maximum.accumulate(np.where(is_known, places, NO_CALL))
    at = np.full(events.start_ns.size, NO_CALL)
    at[rows] = places
    place = at[work]
    first, last = leading[place], following[place]
    inside = (first != NO_CALL) & (last < rows.size)
    found = np.where(inside, launch[np.minimum(last, rows.size - 1)], NO_CALL)
    inside &= (stream[first] == stream[place]) & (events.start_ns[found] > start)
    inside &= np.append(stream, NO_CALL)[last] == stream[place]
    return np.where(inside, found, NO_CALL)


def work_after(rank: Rank, rows: Int64Array, end: Times) -> Int64Array:
    """Work that starts where each interval ends, -1 for none.

    Of several, the one launched first; work of no duration only where no other starts.
    """
    events = rank.trace.events
    rows, gap = _at(events.start_ns[rows], rows, end)
    launch = rank.launches[rows]
    launched_ns = np.where(launch >= 0, events.start_ns[launch], NEVER)
    order = np.lexsort((rows, launched_ns, events.duration_ns[rows] == 0, gap))
    return _first_of_each(rows[order], gap[order], end.size)


def _work_before(rank: Rank, rows: Int64Array, start: Times) -> Int64Array:
    """Work that ends where each interval starts, the last started of several; -1 for none."""
    events = rank.trace.events
    rows, gap = _at(events.start_ns[rows] + events.duration_ns[rows], rows, start)
    order = np.lexsort((-rows, -events.start_ns[rows], gap))
    return _first_of_each(rows[order], gap[order], start.size)


def _at(times: Times, rows: Int64Array, asked: Times) -> tuple[Int64Array, Int64Array]:
    """Rows whose time is one of those asked for (ascending), and its position."""
    place = np.searchsorted(asked, times)
    met = np.flatnonzero(place < asked.size)
    met = met[asked[place[met]] == times[met]]
    return rows[met], place[met]


def _first_of_each(rows: Int64Array, group: Int64Array, count: int) -> Int64Array:
    """First row of each group; the groups ascend."""
    found = np.full(count, NO_CALL)
    first = np.flatnonzero(np.diff(group, prepend=-1))
    found[group[first]] = rows[first]
    return found
