"""The idle time of the devices of one rank: as intervals, and as segments by cause and call."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hta_widgets.analyses.budget.idle_segments import NOBODY, IdleSegments, OwnerTimeline, joined
from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.calls import Calls, calls_of
from hta_widgets.analyses.time.causes import (
    CODE,
    LAUNCH_NS,
    NO_CALL,
    LaunchSplit,
    are_of_one_graph,
    split_by_launch,
)
from hta_widgets.analyses.time.patterns import (
    AUTOGRAD_THREAD,
    BACKWARD_WAIT,
    BLOCKING,
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
)
from hta_widgets.analyses.time.window import NO_STEP, Window, begin_on, window_of
from hta_widgets.arrays import Int8Array, Int64Array, IntArray, Mask, narrowed
from hta_widgets.grouping import distinct
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.model.events import GPU_WORK, LAUNCH_CALLS, Events, Kind
from hta_widgets.trace.model.kernels import MIGRATES, MIGRATES_TO_HOST, PREFETCHING
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.rank import NEVER, Rank

PARTS: Final = ("head", "between", "tail")
HEAD, BETWEEN, TAIL = range(3)

BETWEEN_KERNELS_NS: Final = 30_000
"""Shorter intervals before work that was launched in time are the cost of starting kernels."""

DRAINED_BEFORE_NS: Final = 1_000
DRAINED_AFTER_NS: Final = 100_000
"""A blocking call drained the GPU if it returns this close to the moment when the GPU ran dry."""

AT_ONCE_NS: Final = 2_000
"""A call that finds only work which ends this soon does not wait for it. After a copy of 25 µs, in
the first 0.8 of which a kernel ended, 200 µs of Python were a stall of that call."""

SHORTEST_GAP_NS: Final = 1_000
"""Shorter intervals are the cost of starting kernels, whatever the host does."""

STRETCH_NS: Final = 1_000_000
"""A host that launches nothing for longer does something other than launching slowly."""

OF_NO_DATA: Final = (Kind.KERNEL, Kind.MEMSET)
"""Work whose launch call hands over nothing but the order to do it. The call of a copy may take
long because of host memory."""

LAST_PART: Final = 0.1
"""Share of a long launch call, at its end, in which its kernel may start: a call of 5.5 s returned
0.7 ms after the start."""

UNDECIDED = -1

_BY_PATH = {
    "profiler": patterns.PROFILER,
    "data_loading": patterns.DATA_LOADING,
    "garbage_collection": patterns.GARBAGE_COLLECTION,
    "compiling": patterns.COMPILING,
}

_BY_API_CALL = {
    "allocating": patterns.ALLOCATING,
    "initialising": patterns.INITIALISING,
    "synchronising": patterns.BLOCKING,
}


@dataclass(frozen=True, eq=False)
class Gaps:
    """Idle intervals, device by device in order of time."""

    device: IntArray
    start_ns: Times
    end_ns: Times
    part: Int8Array
    """Position in `PARTS`."""
    launch: IntArray
    """Row of the call that launched the work after the interval; if the trace lacks it, of the call
    that came too late for what follows on the stream (see `_late_launch_after`). -1 if neither is
    in the trace, or nothing follows."""
    inside_graph: Mask
    """Whether the work on both sides belongs to one launched graph."""
    after: IntArray
    """Row of the work after the interval, see `work_after`; -1 for none."""
    by_host: Mask
    """Whether pages of managed memory move after the interval because of the host: to it, which
    touches them while no kernel runs, or, before all other work, in either direction."""

    @property
    def is_unrecorded(self) -> Mask:
        """Whether work follows whose launch is not in the trace."""
        return np.asarray((self.part != TAIL) & (self.launch == NO_CALL))


@asked_once
def gaps_of(rank: Rank) -> Gaps:
    """The idle intervals of all devices on which work is analysed."""
    columns = rank.derive(_gaps)
    masks = {name: columns[name].view(np.bool_) for name in ("inside_graph", "by_host")}
    return Gaps(**{**columns, **masks})


def launch_split(gaps: Gaps, events: Events) -> LaunchSplit:
    """Split each interval by its launch call.

    After the last work, and before pages that move because of the host, the whole interval is the
    host's. Inside a graph, and before other work whose launch is unknown, none of it is.
    """
    launch = np.where(gaps.inside_graph, NO_CALL, gaps.launch)
    split = split_by_launch(gaps.start_ns, gaps.end_ns, launch, events)
    is_whole = (gaps.part == TAIL) | gaps.by_host
    return split._replace(
        host_until_ns=np.where(is_whole, gaps.end_ns, split.host_until_ns),
        call_until_ns=np.where(is_whole, gaps.end_ns, split.call_until_ns),
    )


def drains(gaps: Gaps, late: Mask, calls: Calls, thread: Int64Array) -> Int64Array:
    """Place of the blocking call that let the GPU run dry at the start of each interval, or -1.

    The GPU was drained only where it is `late`, that is, if the next launch call started after the
    interval did. `thread` is the position in ``calls.threads`` of the launching thread.
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
    """Whether work that was launched before each time runs on then, except copies of the host.

    A call that finds none drains nothing, nor does one that finds only what ends `AT_ONCE_NS`
    later: it may wait 25 µs for the copy that it asks for. `rows` are all the GPU work.
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
    return np.asarray((before > 0) & (np.append(until_ns, 0)[before - 1] > times + AT_ONCE_NS))


def _least_between(values: Int64Array, first: Int64Array, last: Int64Array) -> Int64Array:
    """Least of each slice, -1 for empty ones."""
    filled = np.flatnonzero(last > first)
    least = np.full(first.size, NO_CALL)
    if filled.size:
        edges = np.stack([first[filled], last[filled]], axis=1).ravel()
        bounded = np.append(values, values[-1:])  # an edge may be the end
        least[filled] = np.minimum.reduceat(bounded, edges)[::2]
    return least


def _gaps(rank: Rank) -> Columns:
    window = window_of(rank)
    by_device = [_on_device(rank, window, device) for device in rank.gpu_work.devices]
    types: dict[str, DTypeLike] = {
        "device": rank.trace.events.device.dtype,
        "start_ns": np.int64,
        "end_ns": np.int64,
        "part": np.int8,
        "launch": np.int32,
        "inside_graph": np.uint8,
        "after": np.int32,
        "by_host": np.uint8,
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
    events, busy, begin_ns = rank.trace.events, busy_time(rank, device), begin_on(rank, device)
    start = np.concatenate(([begin_ns], busy.ends))
    end = np.concatenate((busy.starts, [window.end_ns]))
    start, end = start[end > start], end[end > start]
    rows = recorded_work(rank, device)
    after, before = work_after(rank, rows, end), _work_before(rank, rows, start)
    launch = np.where(after >= 0, rank.launches[after], NO_CALL).astype(np.int64)
    unknown = np.flatnonzero((after >= 0) & (launch == NO_CALL))
    launch[unknown] = _late_launch_after(rank, rows, after[unknown], start[unknown])
    launch_before = np.where(before >= 0, rank.launches[before], NO_CALL).astype(np.int64)
    inside_graph = are_of_one_graph(launch_before, launch, events)
    part = np.where(after < 0, TAIL, BETWEEN)
    part[(start == begin_ns) & (before < 0) & (after >= 0)] = HEAD
    by_host = events.named(after, MIGRATES_TO_HOST) & ~_are_prefetched(rank, rows, end)
    by_host |= (part == HEAD) & events.named(after, MIGRATES)
    # pages on another GPU are reached through the host
    by_host &= (after >= 0) & (launch == NO_CALL) & (len(rank.gpu_work.devices) == 1)
    return {
        "device": np.full(start.size, device),
        "start_ns": start,
        "end_ns": end,
        "part": part.astype(np.int8),
        "launch": launch,
        "inside_graph": inside_graph.astype(np.uint8),
        "after": after,
        "by_host": by_host.astype(np.uint8),
    }


def _are_prefetched(rank: Rank, rows: Int64Array, end: Times) -> Mask:
    """Before which times a call has asked for pages since the last launched work on a GPU."""
    events, launched = rank.trace.events, rows[rank.launches[rows] >= 0]
    calls = events.rows_of(*LAUNCH_CALLS)
    asked = calls[events.named(calls, PREFETCHING)]
    starts = (np.sort(events.start_ns[each]) for each in (asked, launched))
    last_asked, last_launched = (
        np.append(-NEVER, found)[np.searchsorted(found, end)] for found in starts
    )
    return np.asarray(last_asked > last_launched)


def _late_launch_after(rank: Rank, rows: Int64Array, work: Int64Array, start: Times) -> Int64Array:
    """The launch call of what follows on the stream of some work, if it came too late; else -1.

    Recorders leave out the calls of some copies and fills; what uses these is not launched either
    when the GPU runs dry, so the host is late for both. Work before the first known launch on its
    stream may be from before the recording. `rows` are all GPU work of the device, `work` is the
    part whose launch is not in the trace, and the interval before each of these starts at `start`.
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

    If several do, the one launched first; work of no duration only if no other starts.
    """
    events = rank.trace.events
    rows, gap = _at(events.start_ns[rows], rows, end)
    launch = rank.launches[rows]
    launched_ns = np.where(launch >= 0, events.start_ns[launch], NEVER)
    order = np.lexsort((rows, launched_ns, events.duration_ns[rows] == 0, gap))
    return _first_of_each(rows[order], gap[order], end.size)


def _work_before(rank: Rank, rows: Int64Array, start: Times) -> Int64Array:
    """Work that ends where each interval starts, of several the last to start; -1 for none."""
    events = rank.trace.events
    rows, gap = _at(events.start_ns[rows] + events.duration_ns[rows], rows, start)
    order = np.lexsort((-rows, -events.start_ns[rows], gap))
    return _first_of_each(rows[order], gap[order], start.size)


def _at(times: Times, rows: Int64Array, asked: Times) -> tuple[Int64Array, Int64Array]:
    """Rows whose time is one of those asked for (ascending), and the position of this time."""
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


def last_part_ns(length_ns: Times) -> Times:
    """How long before the end of a long launch call its kernel may start."""
    return np.maximum((LAST_PART * length_ns).astype(np.int64), LAUNCH_NS)


class LateLaunches:
    """The launch of what comes after each idle interval."""

    def __init__(self, rank: Rank, gaps: Gaps) -> None:
        self.rank, self.gaps = rank, gaps
        events, launch = rank.trace.events, gaps.launch
        known = launch != NO_CALL
        self.launch_ns: Times = np.where(known, events.start_ns[launch], 0)
        self.launch_end_ns: Times = self.launch_ns + np.where(known, events.duration_ns[launch], 0)
        self.decided: Mask = known & ~gaps.inside_graph & (gaps.part != TAIL)
        self.decided &= gaps.end_ns - gaps.start_ns > SHORTEST_GAP_NS
        self.is_late: Mask = self.decided & (self.launch_ns > gaps.start_ns)

    @property
    def moments_ns(self) -> tuple[Times, Times, Times]:
        """Times in each interval at which what the host does changes, see `device_steps`."""
        return self.stretch_start_ns, self.launch_ns, self.decided_until_ns

    @cached_property
    def launches_long(self) -> Mask:
        """Intervals before a kernel or a fill that last to the end of its long launch call.

        The call may have started before them, and may last 10 to 19 ms after the GPU has run dry
        (SwitchTransformers). A graph starts while its launch still hands over nodes: after 3.6 to
        9.1 ms of the 5.7 to 9.2 ms that the launch of 4,568 nodes took on eight H200.
        """
        kind = np.append(self.rank.trace.events.kind, -1)[self.gaps.after]
        of_no_data = np.isin(kind, OF_NO_DATA)
        begin_ns, end_ns = self.launch_ns, self.launch_end_ns
        is_long = end_ns - np.maximum(begin_ns, self.gaps.start_ns) > STRETCH_NS
        of_graph = self.is_late & self.starts_graph
        of_graph &= self.gaps.end_ns - begin_ns > STRETCH_NS
        lasts = self.gaps.end_ns > end_ns - last_part_ns(end_ns - begin_ns)
        lasts &= self.is_late | self.decided & ~self.starts_graph
        return np.asarray(of_no_data & is_long & (of_graph | lasts))

    @cached_property
    def decided_until_ns(self) -> Times:
        """Time until which the host decides: the usual latency of a launch, or a long one's end."""
        usual_ns = self.launch_ns + LAUNCH_NS
        return np.asarray(np.where(self.launches_long, self.launch_end_ns, usual_ns))

    @cached_property
    def stretch_start_ns(self) -> Times:
        """End of the last launch call before each interval's own, kept inside the interval."""
        events, launches = self.rank.trace.events, self.rank.launches
        rows = distinct(launches[events.rows_of(*GPU_WORK)])
        rows = rows[rows >= 0]
        rows = rows[np.argsort(events.start_ns[rows], kind="stable")]
        before = np.searchsorted(events.start_ns[rows], self.launch_ns, side="left")
        reached = np.maximum.accumulate(events.start_ns[rows] + events.duration_ns[rows])
        last_ns = np.append(reached, self.gaps.start_ns.min(initial=0))[before - 1]
        last_ns = np.where(before > 0, last_ns, self.gaps.start_ns)
        return np.asarray(np.minimum(np.maximum(last_ns, self.gaps.start_ns), self.launch_ns))

    @cached_property
    def starts_graph(self) -> Mask:
        """Whether a graph follows, whose work depends on what the previous one returned."""
        is_graph = self.rank.trace.events.named(self.gaps.launch, patterns.GRAPH_LAUNCH)
        return np.asarray(is_graph & (self.gaps.launch != NO_CALL))


@dataclass(frozen=True, eq=False)
class HostCauses:
    """What a call, or a call around it, shows about the time in which it is innermost."""

    named: Int8Array
    """Cause, by place, if the name of the call or of one around it decides; else `UNDECIDED`."""
    usual: Int8Array
    """Cause, by place, of all other time, from the kind of call."""

    @classmethod
    def of(cls, calls: Calls) -> HostCauses:
        """Decide for every call."""
        named = np.full(calls.kind.size, UNDECIDED, dtype=np.int8)
        for cause, decides in reversed(_deciding(calls)):
            if decides.any():
                named[calls.forest.at_or_below(decides)] = CODE[cause]
        usual = np.full(calls.kind.size, CODE["host_code"], dtype=np.int8)
        usual[calls.forest.at_or_below(calls.kind == Kind.CPU_OP)] = CODE["operator"]
        usual[calls.is_launch_call] = CODE["launching"]
        return cls(named, usual)

    def decide(self, owner: IntArray, *, overhead: IntArray, drained: Mask) -> Int8Array:
        """Cause of each segment of time; `owner` is its innermost call, -1 for none.

        Parameters
        ----------
        overhead : ndarray of int
            Position in `overheads` of what was running on any thread, -1 for none.
        drained : ndarray of bool
            Whether the idle interval followed a blocking call that had drained the GPU.
        """
        named = np.append(self.named, UNDECIDED)
        usual = np.append(self.usual, CODE["nothing_recorded"])
        cause = np.where(drained, CODE["synchronising"], usual[owner])
        cause = np.where(named[owner] == UNDECIDED, cause, named[owner])
        cause = np.where(overhead == 0, CODE["profiler"], cause)
        return np.where(overhead == 1, CODE["initialising"], cause).astype(np.int8)


def _deciding(calls: Calls) -> list[tuple[str, Mask]]:
    """Calls that decide the cause of all time inside them; the first in the list decides first."""
    api = calls.is_launch_call
    duration_ns = calls.events.duration_ns[calls.forest.rows]
    sets_up = api & (duration_ns >= patterns.SLOW_NS)
    if sets_up.any():
        sets_up &= ~calls.named(patterns.GIVES_WORK.search)
    return [
        *((cause, calls.named(pattern.search)) for cause, pattern in _BY_PATH.items()),
        *((cause, calls.named(pattern.search) & api) for cause, pattern in _BY_API_CALL.items()),
        ("initialising", sets_up),
        # putc does not count as catching up after a wait
        ("host_code", calls.kind == Kind.OS_CALL),
    ]


@dataclass(frozen=True, eq=False)
class OwnedTime:
    """The idle time of a rank; the segments of an interval add up to it."""

    segments: IdleSegments
    """Ordered by interval and time. Each is in one step, and between two moments of its interval
    (see `LateLaunches`)."""
    step: IntArray
    """Number of the ProfilerStep of each segment, `NO_STEP` before the first, after the last, and
    without steps."""
    cause: Int8Array
    """Position in `IDLE_CAUSES` of each segment."""
    thread: IntArray
    """Position in ``Calls.threads`` of the thread that each segment belongs to, -1 for none."""
    is_continued: Mask
    """Which segments continue the previous one: a moment divides them, but call and cause stay."""
    drain: IntArray
    """Place of the blocking call that let the GPU run dry before each interval, -1 for none."""


@asked_once
def owned_time(rank: Rank) -> OwnedTime:
    """The idle time of a rank in segments, which the cache keeps for large ranks."""
    columns = dict(rank.derive(_owned_time))
    is_continued = columns.pop("is_continued").view(np.bool_)
    segments = IdleSegments(*(columns.pop(name) for name in IdleSegments._fields))
    return OwnedTime(segments=segments, is_continued=is_continued, **columns)


def _owned_time(rank: Rank) -> Columns:
    split = _Split(rank)
    host, host_cause = split.host_causes(joined([split.owned_by_host(), split.of_launch_calls()]))
    gpu, gpu_cause = split.of_gpu()
    segments, step, source = split.by_step(joined([host, gpu]))
    del host, gpu  # 24 MB for 1.5 M events
    cause = np.concatenate((host_cause, gpu_cause))[source]
    of_owner = split.calls.thread_of(segments.owner)
    thread = np.where(segments.owner == NOBODY, split.thread[segments.gap], of_owner)
    others = {"step": narrowed(step), "cause": cause}
    others["thread"] = narrowed(thread)
    order = np.lexsort((segments.start_ns, segments.gap))
    del step, source, of_owner, thread  # 28 MB
    segments = segments._replace(length_ns=narrowed(segments.length_ns)).take(order)
    segments, part = segments.cut_at(LateLaunches(rank, split.gaps).moments_ns)
    order = order[part]
    return {
        **segments._asdict(),
        **{name: column[order] for name, column in others.items()},
        "is_continued": (np.diff(part, prepend=NOBODY) == 0).view(np.uint8),
        "drain": narrowed(split.drain),
    }


class _Split:
    """Idle intervals of a rank, split by `launch_split`."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.calls: Calls = calls_of(rank)
        self._timelines: dict[int, OwnerTimeline] = {}
        self.gaps: Gaps = gaps_of(rank)
        self.times: LaunchSplit = launch_split(self.gaps, rank.trace.events)
        self.call = self.calls.places_of(self.gaps.launch)
        self.thread = self._host_thread()
        self.drain = drains(self.gaps, self.times.late, self.calls, self.thread)

    def _host_thread(self) -> Int64Array:
        """Thread to ask first what the host did: the launching one, or else the main one."""
        launching = np.where(self.call >= 0, self.calls.thread_of(self.call), NOBODY)
        for device, main in self.main_threads.items():
            is_whole = (self.gaps.part == TAIL) | self.gaps.by_host
            launching[is_whole & (self.gaps.device == device)] = main
        return launching

    @cached_property
    def main_threads(self) -> dict[int, int]:
        """For each device, the thread of the first analysed step, or else the busiest launcher."""
        rank = self.rank
        by_device = rank.gpu_work.by_device() if len(rank.gpu_work) else {}
        if NO_STEP not in window_of(rank).steps:
            of_steps = self._thread_of_steps()
            return dict.fromkeys(by_device, of_steps)
        return {device: self._launching_most(work.launch) for device, work in by_device.items()}

    def _thread_of_steps(self) -> int:
        events, first = self.rank.trace.events, self.rank.steps.rows[0]
        pid, tid = int(events.pid[first]), int(events.tid[first])
        same = [(each.pid, each.tid) == (pid, tid) for each in self.calls.threads]
        return same.index(True) if any(same) else NOBODY

    def _launching_most(self, launch: Int64Array) -> int:
        launched = self.calls.places_of(launch[launch >= 0])
        threads = self.calls.thread_of(launched[launched != NO_CALL])
        return int(np.bincount(threads).argmax()) if threads.size else NOBODY

    def owned_by_host(self) -> IdleSegments:
        """The host's part of each interval, by innermost call."""
        host = IdleSegments.of(self.gaps.start_ns, self.times.host_until_ns)
        device = self.gaps.device[host.gap]
        owned = [
            self._asked(host.take(device == each), main) for each, main in self.main_threads.items()
        ]
        self._timelines.clear()  # 30 MB for 1.5 M events
        return joined(owned)

    def _asked(self, host: IdleSegments, main: int) -> IdleSegments:
        """Ask the launching threads, then the main one, then those that run the backward pass."""
        thread = self.thread[host.gap]
        known, unknown = [], [host.take(thread == main)]
        for each in distinct(thread[thread != main]).tolist():
            cut, _ = self._timeline(each).cut(host.take(thread == each))
            known.append(cut.take(cut.owner != NOBODY))
            unknown.append(cut.take(cut.owner == NOBODY))
        of_main, _ = self._timeline(main).cut(joined(unknown))
        waits = np.append(self._is_backward_wait, False)[of_main.owner]
        known.append(of_main.take(~waits))
        return joined([*known, *self._in_the_backward_pass(of_main.take(waits), main)])

    def _in_the_backward_pass(self, waiting: IdleSegments, main: int) -> list[IdleSegments]:
        """Split by the calls of the autograd threads; time without a call belongs to the wait."""
        known = []
        for each in self._autograd_threads:
            if each != main and waiting.gap.size:
                cut, source = self._timeline(each).cut(waiting)
                nobody = cut.owner == NOBODY
                known.append(cut.take(~nobody))
                waiting = cut._replace(owner=waiting.owner[source]).take(nobody)
        return [*known, waiting]

    def _timeline(self, thread: int) -> OwnerTimeline:
        if thread == NOBODY:
            return OwnerTimeline.covering(Intervals.union([], []))
        if thread not in self._timelines:
            self._timelines[thread] = OwnerTimeline.innermost(
                self.calls, self.calls.threads[thread]
            )
        return self._timelines[thread]

    @cached_property
    def _is_backward_wait(self) -> Mask:
        return self.calls.named(BACKWARD_WAIT.search)

    @cached_property
    def _autograd_threads(self) -> list[int]:
        places = np.flatnonzero(self.calls.named(AUTOGRAD_THREAD.search))
        return sorted(set(self.calls.thread_of(places).tolist()))

    def of_launch_calls(self) -> IdleSegments:
        """The part of each interval in which its launch call runs."""
        return IdleSegments.of(self.times.host_until_ns, self.times.call_until_ns, self.call)

    def host_causes(self, segments: IdleSegments) -> tuple[IdleSegments, Int8Array]:
        """Cut the host's and the launch calls' segments by profiler overhead; add their causes."""
        cut, source = OwnerTimeline.covering(*overheads(self.rank)).cut(segments)
        overhead = cut.owner
        cut = cut._replace(owner=segments.owner[source])
        drained = self.drain[cut.gap] != NO_CALL
        causes = HostCauses.of(self.calls)
        return cut, causes.decide(cut.owner, overhead=overhead, drained=drained)

    def of_gpu(self) -> tuple[IdleSegments, Int8Array]:
        """The rest of each interval, with its cause; it belongs to the call of the waiting work."""
        gaps = self.gaps
        rest = IdleSegments.of(self.times.call_until_ns, gaps.end_ns, self.call)
        length_ns = gaps.end_ns - gaps.start_ns
        short = ~self.times.late & (length_ns < BETWEEN_KERNELS_NS)
        cause = np.where(short, CODE["between_kernels"], CODE["dependency"])
        cause = np.where(gaps.inside_graph, CODE["inside_graph"], cause)
        cause = np.where(gaps.is_unrecorded, CODE["launch_not_recorded"], cause)
        return rest, cause[rest.gap].astype(np.int8)

    def by_step(self, segments: IdleSegments) -> tuple[IdleSegments, Int64Array, Int64Array]:
        """Cut segments at step boundaries; also the step of each, and what it was cut from.

        A step ends while the device is idle only if it ends with a kernel of no duration.
        """
        window = window_of(self.rank)
        numbers = np.concatenate(([NO_STEP], window.steps, [NO_STEP]))
        first, last = self._steps_of_gaps(window)
        crossed = (last > first)[segments.gap]
        whole = np.flatnonzero(~crossed)
        step = numbers[first[segments.gap[whole]]]
        if whole.size == crossed.size:
            return segments, step, whole
        parts, steps, sources = [segments.take(whole)], [step], [whole]
        device = self.gaps.device[segments.gap]
        for each in self.rank.gpu_work.devices:
            chosen = np.flatnonzero(crossed & (device == each))
            edges = window.step_edges(self.rank, each)
            cut, of_chosen = OwnerTimeline.of_steps(edges).cut(segments.take(chosen))
            parts.append(cut._replace(owner=segments.owner[chosen[of_chosen]]))
            steps.append(numbers[cut.owner])
            sources.append(chosen[of_chosen])
        return joined(parts), np.concatenate(steps), np.concatenate(sources)

    def _steps_of_gaps(self, window: Window) -> tuple[Int64Array, Int64Array]:
        """Positions of the steps in which each interval starts and ends; 0 is before the first."""
        gaps = self.gaps
        first, last = np.zeros((2, gaps.part.size), dtype=np.int64)
        for each in self.rank.gpu_work.devices:
            edges, own = window.step_edges(self.rank, each), gaps.device == each
            first[own] = np.searchsorted(edges, gaps.start_ns[own], side="right")
            last[own] = np.searchsorted(edges, gaps.end_ns[own], side="left")
        return first, last


def overheads(rank: Rank) -> tuple[Intervals, Intervals]:
    """Time in which the profiler works on any thread, and time in which CUDA loads code.

    Traces record both as overhead. Code is loaded at the first use of a kernel, profiled or not.
    """
    events = rank.trace.events
    rows = events.rows_of(Kind.OVERHEAD)
    start_ns, end_ns = events.start_ns[rows], events.start_ns[rows] + events.duration_ns[rows]
    loads = events.named(rows, patterns.LOADS_CODE)
    profiler = Intervals.union(start_ns[~loads], end_ns[~loads])
    return profiler, Intervals.union(start_ns[loads], end_ns[loads]) - profiler
