"""The idle time of one rank in segments, each with its cause and the call that it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hta_widgets.analyses.idle_owners.gaps import (
    BETWEEN_KERNELS_NS,
    TAIL,
    Gaps,
    drains,
    gaps_of,
    launch_split,
)
from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.calls import Calls, calls_of
from hta_widgets.analyses.time.causes import CODE, NO_CALL, LaunchSplit
from hta_widgets.analyses.time.patterns import AUTOGRAD_THREAD, BACKWARD_WAIT
from hta_widgets.analyses.time.window import NO_STEP, Window, window_of
from hta_widgets.arrays import Int8Array, Int64Array, IntArray, Mask, narrowest_type
from hta_widgets.grouping import distinct
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.model.cut_forest import Thread
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

NOBODY = -1
_BEFORE_ALL = np.iinfo(np.int64).min
_AFTER_ALL = np.iinfo(np.int64).max
_NO_TIMES: Times = np.zeros(0, dtype=np.int64)


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
    """In order of interval and time; each is of one step."""
    step: IntArray
    """Number of the ProfilerStep of each segment, `NO_STEP` before the first, after the last, and
    without steps."""
    cause: Int8Array
    """Position in `IDLE_CAUSES` of each segment."""
    thread: IntArray
    """Position in ``Calls.threads`` of the thread whose time each is, -1 for none."""
    drain: IntArray
    """Place of the blocking call that let the GPU run dry before each interval, -1 for none."""


@asked_once
def owned_time(rank: Rank) -> OwnedTime:
    """The idle time of a rank in segments, which the cache keeps for large ranks."""
    columns = dict(rank.derive(_owned_time))
    others = {name: columns.pop(name) for name in ("step", "cause", "thread", "drain")}
    columns["end_ns"] = columns["start_ns"] + columns.pop("length_ns")
    return OwnedTime(IdleSegments(**columns), **others)


def _owned_time(rank: Rank) -> Columns:
    split = _Split(rank)
    host, host_cause = split.host_causes(joined([split.owned_by_host(), split.of_launch_calls()]))
    gpu, gpu_cause = split.of_gpu()
    segments, step, source = split.by_step(joined([host, gpu]))
    order = np.lexsort((segments.start_ns, segments.gap))
    of_owner = split.calls.thread_of(segments.owner)
    thread = np.where(segments.owner == NOBODY, split.thread[segments.gap], of_owner)
    segments = segments.take(order)
    length_ns = segments.length_ns()
    return {
        "gap": segments.gap.astype(np.int32),
        "start_ns": segments.start_ns,
        "length_ns": length_ns.astype(narrowest_type(length_ns)),
        "owner": segments.owner.astype(np.int32),
        "step": step[order].astype(narrowest_type(step)),
        "cause": np.concatenate((host_cause, gpu_cause))[source[order]],
        "thread": thread[order].astype(narrowest_type(thread)),
        "drain": split.drain.astype(narrowest_type(split.drain)),
    }


class _Split:
    """Idle intervals of a rank, split by `launch_split`."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.calls: Calls = calls_of(rank)
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
        if NO_STEP not in rank.remember(Window.of).steps:
            of_steps = self._thread_of_steps()
            return dict.fromkeys(by_device, of_steps)
        return {device: self._launching_most(work.launch) for device, work in by_device.items()}

    def _thread_of_steps(self) -> int:
        pid, tid = _first_step_thread(self.rank)
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
    def _timelines(self) -> dict[int, Timeline]:
        return {}

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
        cut, source = Timeline.covering(_overhead(self.rank)).cut(segments)
        overhead = cut.owner != NOBODY
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

    def _steps_of_gaps(self, window: Window) -> tuple[Int64Array, Int64Array]:
        """Positions of the steps in which each interval begins and ends; 0 is before the first."""
        gaps = self.gaps
        first, last = np.zeros((2, gaps.part.size), dtype=np.int64)
        for each in self.rank.gpu_work.devices:
            edges, own = window.step_edges(self.rank, each), gaps.device == each
            first[own] = np.searchsorted(edges, gaps.start_ns[own], side="right")
            last[own] = np.searchsorted(edges, gaps.end_ns[own], side="left")
        return first, last


def _first_step_thread(rank: Rank) -> tuple[int, int]:
    """Process and thread of the first mark of a step."""
    events, rows = rank.trace.events, rank.steps.rows
    return int(events.pid[rows[0]]), int(events.tid[rows[0]])


def _overhead(rank: Rank) -> Intervals:
    """Time in which the profiler is at work on any thread."""
    events = rank.trace.events
    rows = events.rows_of(Kind.OVERHEAD)
    start_ns = events.start_ns[rows]
    return Intervals.union(start_ns, start_ns + events.duration_ns[rows])


class IdleSegments(NamedTuple):
    """Stretches of idle time."""

    gap: IntArray
    """Position of the idle interval that each is part of. int64, or int32 where it is kept."""
    start_ns: Times
    end_ns: Times
    owner: IntArray
    """Place of the call that each belongs to, `NOBODY` for none. int64, or int32 where it is
    kept."""

    @classmethod
    def of(cls, start_ns: Times, end_ns: Times, owner: Int64Array | None = None) -> IdleSegments:
        """One segment for each interval that has a length."""
        gap = np.flatnonzero(end_ns > start_ns)
        nobody = np.full(gap.size, NOBODY)
        return cls(gap, start_ns[gap], end_ns[gap], nobody if owner is None else owner[gap])

    def take(self, chosen: Mask | Int64Array) -> IdleSegments:
        """Some of the segments."""
        if chosen.dtype == np.bool_:
            if chosen.all():  # usual
                return self
            chosen = np.flatnonzero(chosen)  # faster for several columns
        return IdleSegments(*(column[chosen] for column in self))

    def clip(self, start_ns: int, end_ns: int) -> IdleSegments:
        """The part of each that is inside a window; all reach into it."""
        starts, ends = np.maximum(self.start_ns, start_ns), np.minimum(self.end_ns, end_ns)
        return self._replace(start_ns=starts, end_ns=ends)

    def length_ns(self) -> Times:
        """Length of each."""
        return self.end_ns - self.start_ns


def joined(parts: list[IdleSegments]) -> IdleSegments:
    """All segments together."""
    nothing = IdleSegments.of(_NO_TIMES, _NO_TIMES)
    parts = [each for each in parts if each.gap.size]
    if len(parts) == 1:
        return parts[0]
    return IdleSegments(*map(np.concatenate, zip(nothing, *parts, strict=True)))


class Timeline(NamedTuple):
    """What holds when: ``holds[i]`` from ``edges[i]`` to ``edges[i + 1]``."""

    edges: Times
    """Times in ns, ascending; the first is before everything, the last after everything."""
    holds: Int64Array
    """A place, or `NOBODY`; of steps, a position."""

    @classmethod
    def innermost(cls, calls: Calls, thread: Thread) -> Timeline:
        """The innermost call of a thread."""
        # a |---------------|        edges  a  b  b' c   c' a'
        #     b |---|                owner  a  b  a  c   a  -
        #              c |--|        (c and a end at once: the end of the outer one counts last)
        first, last = thread.first, thread.last
        start, end = calls.start_ns[first:last], calls.forest.cut_end_ns[first:last]
        places = np.flatnonzero(end > start)
        inner_first = places[::-1]
        by_end = inner_first[np.argsort(end[inner_first], kind="stable")]
        times, holds = np.empty((2, 2, places.size), dtype=np.int64)  # of ends, then of starts
        np.take(end, by_end, out=times[0], mode="clip")
        np.take(start, places, out=times[1], mode="clip")
        holds[0] = calls.forest.parent[first:last][by_end]
        np.add(places, first, out=holds[1])
        return cls._of_changes(times.ravel(), holds.ravel())

    @classmethod
    def covering(cls, covered: Intervals) -> Timeline:
        """0 where time is covered, else `NOBODY`."""
        ends = np.full(len(covered), NOBODY)
        return cls._of_changes(
            np.concatenate((covered.ends, covered.starts)),
            np.concatenate((ends, np.zeros_like(ends))),
        )

    @classmethod
    def of_steps(cls, edges: Times) -> Timeline:
        """How many of some edges, ascending, each time is behind."""
        edges = np.concatenate(([_BEFORE_ALL], edges, [_AFTER_ALL]))
        return cls(edges, np.arange(edges.size - 1))

    @classmethod
    def _of_changes(cls, times: Times, holds: Int64Array) -> Timeline:
        """Sort changes by time; of those at one time, the last given counts."""
        order = np.argsort(times, kind="stable")
        edges, held = np.empty((2, times.size + 2), dtype=np.int64)
        edges[0], edges[-1], held[0] = _BEFORE_ALL, _AFTER_ALL, NOBODY
        np.take(times, order, out=edges[1:-1], mode="clip")
        np.take(holds, order, out=held[1:-1], mode="clip")
        return cls(edges, held[:-1])

    def cut(self, segments: IdleSegments) -> tuple[IdleSegments, Int64Array]:
        """Cut segments where something else begins to hold, and let that own each part.

        Also the position of the segment that each part was cut from.
        """
        if self.holds.size == 1:  # nothing ever changes
            owner = np.broadcast_to(self.holds, segments.gap.shape)
            return segments._replace(owner=owner), np.arange(segments.gap.size)
        first = np.searchsorted(self.edges, segments.start_ns, side="right") - 1
        parts = np.searchsorted(self.edges, segments.end_ns, side="left") - first
        ends = np.cumsum(parts)
        source = np.repeat(np.arange(parts.size), parts)
        at = np.arange(source.size) + (first - (ends - parts))[source]
        start = np.maximum(segments.start_ns[source], self.edges[at])
        end = np.minimum(segments.end_ns[source], self.edges[at + 1])
        cut = IdleSegments(segments.gap[source], start, end, self.holds[at])
        lasting = end > start
        return cut.take(lasting), source[lasting]
