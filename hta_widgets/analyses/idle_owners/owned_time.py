"""The idle time of the devices of one rank, in segments by cause and call."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hta_widgets.analyses.idle_owners.gaps import (
    BETWEEN_KERNELS_NS,
    TAIL,
    Gaps,
    drains,
    gaps_of,
    launch_split,
)
from hta_widgets.analyses.idle_owners.late_launches import LateLaunches
from hta_widgets.analyses.idle_owners.segments import NOBODY, IdleSegments, Timeline, joined
from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.calls import Calls, calls_of
from hta_widgets.analyses.time.causes import CODE, NO_CALL, LaunchSplit
from hta_widgets.analyses.time.patterns import AUTOGRAD_THREAD, BACKWARD_WAIT
from hta_widgets.analyses.time.window import NO_STEP, Window, window_of
from hta_widgets.arrays import Int8Array, Int64Array, IntArray, Mask, narrowest_type
from hta_widgets.grouping import distinct
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.rank import Rank

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
class HostCauses:
    """What a call, or a call around it, says of the time in which it is innermost."""

    named: Int8Array
    """By place: cause that the name of the call or of one around it decides, else `UNDECIDED`."""
    usual: Int8Array
    """By place: cause of the rest, by the kind of call."""

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

    def decide(self, owner: IntArray, *, overhead: Mask, drained: Mask) -> Int8Array:
        """Cause of each segment of time, of which `owner` is the innermost call, -1 for none.

        Parameters
        ----------
        overhead : ndarray of bool
            Whether the profiler was at work on any thread.
        drained : ndarray of bool
            Whether the idle interval followed a blocking call that had drained the GPU.
        """
        named = np.append(self.named, UNDECIDED)
        usual = np.append(self.usual, CODE["nothing_recorded"])
        cause = np.where(drained, CODE["synchronising"], usual[owner])
        cause = np.where(named[owner] == UNDECIDED, cause, named[owner])
        return np.where(overhead, CODE["profiler"], cause).astype(np.int8)


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
    ]


@dataclass(frozen=True, eq=False)
class OwnedTime:
    """The idle time of a rank; the segments of an interval add up to it."""

    segments: IdleSegments
    """In order of interval and time; each is of one step, and of one of the times between the
    moments of its interval (see `LateLaunches`)."""
    step: IntArray
    """Number of the ProfilerStep of each segment, `NO_STEP` before the first, after the last, and
    without steps."""
    cause: Int8Array
    """Position in `IDLE_CAUSES` of each segment."""
    thread: IntArray
    """Position in ``Calls.threads`` of the thread whose time each is, -1 for none."""
    is_continued: Mask
    """Which segments go on with the one before: at a moment, the call and the cause stay."""
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
    del host, gpu  # of 1.5 M events 24 MB
    cause = np.concatenate((host_cause, gpu_cause))[source]
    of_owner = split.calls.thread_of(segments.owner)
    thread = np.where(segments.owner == NOBODY, split.thread[segments.gap], of_owner)
    others = {"step": step.astype(narrowest_type(step)), "cause": cause}
    others["thread"] = thread.astype(narrowest_type(thread))
    order = np.lexsort((segments.start_ns, segments.gap))
    del step, source, of_owner, thread  # 28 MB
    length_ns = segments.length_ns
    segments = IdleSegments(
        segments.gap[order].astype(np.int32),
        segments.start_ns[order],
        length_ns[order].astype(narrowest_type(length_ns)),
        segments.owner[order].astype(np.int32),
    )
    segments, part = segments.cut_at(split.moments_ns())
    order = order[part]
    return {
        **segments._asdict(),
        **{name: column[order] for name, column in others.items()},
        "is_continued": (np.diff(part, prepend=NOBODY) == 0).view(np.uint8),
        "drain": split.drain.astype(narrowest_type(split.drain)),
    }


class _Split:
    """Idle intervals of a rank, split by `launch_split`."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.calls: Calls = calls_of(rank)
        self._timelines: dict[int, Timeline] = {}
        self.gaps: Gaps = gaps_of(rank)
        self.times: LaunchSplit = launch_split(self.gaps, rank.trace.events)
        self.call = self.calls.places_of(self.gaps.launch)
        self.thread = self._host_thread()
        self.drain = drains(self.gaps, self.times.late, self.calls, self.thread)

    def _host_thread(self) -> Int64Array:
        """Thread that is asked first what the host did: the launching one, else the main one."""
        launching = np.where(self.call >= 0, self.calls.thread_of(self.call), NOBODY)
        for device, main in self.main_threads.items():
            is_tail = (self.gaps.part == TAIL) & (self.gaps.device == device)
            launching[is_tail] = main
        return launching

    @cached_property
    def main_threads(self) -> dict[int, int]:
        """By device: the thread of the first analysed step, else the one that launches most."""
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
        self._timelines.clear()  # of 1.5 M events 30 MB
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

    def _timeline(self, thread: int) -> Timeline:
        if thread == NOBODY:
            return Timeline.covering(Intervals.union([], []))
        if thread not in self._timelines:
            self._timelines[thread] = Timeline.innermost(self.calls, self.calls.threads[thread])
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
        cut, source = Timeline.covering(overhead(self.rank)).cut(segments)
        is_overhead = cut.owner != NOBODY
        cut = cut._replace(owner=segments.owner[source])
        drained = self.drain[cut.gap] != NO_CALL
        causes = HostCauses.of(self.calls)
        return cut, causes.decide(cut.owner, overhead=is_overhead, drained=drained)

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
        """Cut segments where a step begins or ends; the step of each, and what it was cut from.

        Only a kernel of no duration ends while the device is idle.
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
            cut, of_chosen = Timeline.of_steps(edges).cut(segments.take(chosen))
            parts.append(cut._replace(owner=segments.owner[chosen[of_chosen]]))
            steps.append(numbers[cut.owner])
            sources.append(chosen[of_chosen])
        return joined(parts), np.concatenate(steps), np.concatenate(sources)

    def moments_ns(self) -> list[Times]:
        """See `LateLaunches.moments_ns`, of each interval on its own device."""
        found = [self.gaps.start_ns.copy() for _ in range(3)]  # at which nothing is cut
        for device in self.rank.gpu_work.devices:
            own = self.gaps.device == device
            moments_ns = LateLaunches(self.rank, device, self.gaps).moments_ns
            for times, of_device in zip(found, moments_ns, strict=True):
                times[own] = of_device[own]
        return found

    def _steps_of_gaps(self, window: Window) -> tuple[Int64Array, Int64Array]:
        """Positions of the steps in which each interval begins and ends; 0 is before the first."""
        gaps = self.gaps
        first, last = np.zeros((2, gaps.part.size), dtype=np.int64)
        for each in self.rank.gpu_work.devices:
            edges, own = window.step_edges(self.rank, each), gaps.device == each
            first[own] = np.searchsorted(edges, gaps.start_ns[own], side="right")
            last[own] = np.searchsorted(edges, gaps.end_ns[own], side="left")
        return first, last


def overhead(rank: Rank) -> Intervals:
    """Time in which the profiler is at work on any thread."""
    events = rank.trace.events
    rows = events.rows_of(Kind.OVERHEAD)
    start_ns = events.start_ns[rows]
    return Intervals.union(start_ns, start_ns + events.duration_ns[rows])
