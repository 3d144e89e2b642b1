"""What each GPU operation of a rank waits for before it starts.

It starts once its stream is free, it has been launched, and what it depends on is done. The last of
these gets the recorded time, the others their usual time::

    launch        [call]
                  |-- latency --|
    stream    ====kernel====|   |====kernel====|
                            |gap|
"""

from __future__ import annotations

from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.budget.device_steps import PROMPT
from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.window import lead_in_end
from hta_widgets.arrays import Float64Array, Int64Array, Mask
from hta_widgets.diagnosis.replay.host_line import HostLine
from hta_widgets.diagnosis.replay.operations import NEVER, NONE, Operations
from hta_widgets.grouping import are_among
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.kernels import KernelType

LATENCY_NS: Final = 25_000
"""Longest usual time from a launch to the start; what takes longer waits for something else."""

GAP_NS: Final = 4_000
"""The same from the end of the previous operation on the stream."""

FEWEST: Final = 5
USUAL_LATENCY_NS: Final = 5_000
USUAL_GAP_NS: Final = 1_000
"""Usual times to assume if there are too few starts to measure them."""

ASKED_NS: Final = 100_000
"""How long before a start may have ended what the calls of the program say it waits for."""

FOLLOWED_NS: Final = 40_000
"""The same without such calls. With 15 µs, 20 ms of each step on an MI300X had no explanation."""

FILLED: Final = 0.9
"""A kernel that is ready waits for room if kernels of other streams run for this share of its
waiting: all of 242 ms in a job on two V100, whose computing and exchanging streams take turns."""

TOUCHING_NS: Final = 500
"""How long after a start what it waits for may end: recorded times are not exact."""

DEPENDENCY_NS: Final = 1_500
"""Longest time from the end of a dependency to a start that waits for something else: if the
dependency ended later, the start would follow this soon."""

_WAIT_EVENT: Final = "StreamWaitEvent"
_RECORDED_WAIT: Final = "Stream Wait Event"


class Starts(NamedTuple):
    """What the start of each operation waits for."""

    point: Int64Array
    """Point of the `HostLine` that each starts after, -1 for none."""
    latency_ns: Float64Array
    """Least time from this point to the start."""
    gap_ns: Float64Array
    """Least time from the end of the previous operation on its stream; -inf for the first."""
    unexplained_ns: Float64Array
    """Part of latency or gap that nothing recorded explains."""
    waits_for_room: Mask
    """Whether that part is 0 only because kernels of other streams fill the GPU."""
    in_graph: Mask
    """Whether the call that launched each launched others before it, too."""
    after: Int64Array
    source: Int64Array
    """Operations that depend on another one of the rank, and this other one."""
    delay_ns: Float64Array
    """Least time from the end of the source to the start."""


def starts(operations: Operations, line: HostLine) -> Starts:
    """Find what the operations of a rank wait for."""
    return _Starting(operations, line).decided()


class _Starting:
    def __init__(self, operations: Operations, line: HostLine) -> None:
        self.operations, self.line = operations, line
        work = operations
        self.start = work.start_ns
        self.is_first = work.before == NONE
        self.gap = np.where(self.is_first, 0, work.gap_ns)
        self.latency = np.where(work.is_launched, work.start_ns - work.launched_ns, 0)
        self.by_launch = work.starts_call | work.is_handed_over | (work.is_launched & self.is_first)
        self.by_launch &= ~self._follows_earlier_work()
        self.point = self._points()
        self.lat0, self.gap0 = self._usual()

    def _follows_earlier_work(self) -> Mask:
        """First operations of streams that are busy with work from before the recording."""
        work, found = self.operations, np.zeros(len(self.operations), dtype=np.bool_)
        for device in np.unique(work.device).tolist():
            free_ns = lead_in_end(work.rank, device)
            if free_ns is not None:
                found |= self.is_first & (work.device == device) & (self.start == free_ns)
        return found

    def _points(self) -> Int64Array:
        """Point of the line at which each operation is launched."""
        of_row = np.full(self.operations.rank.trace.events.start_ns.size + 1, NONE)
        launching = np.flatnonzero(self.line.launch_row >= 0)
        row, time_ns = self.line.launch_row[launching], self.line.time_ns[launching]
        of_row[row[::-1]] = launching[::-1]  # a graph handed over in parts has several points
        work, found = self.operations, of_row[self.operations.call]
        handed = work.call[work.is_handed_over]
        at = np.flatnonzero(are_among(row, handed))
        begun = zip(row[at].tolist(), time_ns[at].tolist(), strict=True)
        parts = dict(zip(begun, launching[at].tolist(), strict=True))
        chosen = np.flatnonzero(self.by_launch & are_among(work.call, handed))
        asked = zip(work.call[chosen].tolist(), work.launched_ns[chosen].tolist(), strict=True)
        usual = found[chosen].tolist()
        found[chosen] = [parts.get(each, at) for each, at in zip(asked, usual, strict=True)]
        return np.where(self.by_launch, found, NONE)

    def _usual(self) -> tuple[float, float]:
        work = self.operations
        idle = self.is_first | (work.end_ns[work.before] <= work.launched_ns)
        idle &= work.is_launched
        latencies = self.latency[idle]
        latency = np.percentile(latencies, 10) if latencies.size >= FEWEST else USUAL_LATENCY_NS
        short = ~self.is_first & (self.gap >= 0) & (self.gap <= GAP_NS)
        queued = short & (~self.by_launch | (self.latency > PROMPT * latency))
        gaps = self.gap[short] if np.count_nonzero(queued) >= FEWEST else self.gap[queued]
        return float(latency), float(np.median(gaps)) if gaps.size else float(USUAL_GAP_NS)

    def decided(self) -> Starts:
        """Decide what each start waited for, and how long that usually takes."""
        # Of the launch and the operation before, the later one decides; after the other one, only
        # the usual time has to pass.
        work, is_first = self.operations, self.is_first
        least_latency = np.minimum(self.lat0, self.latency)
        least_gap = np.minimum(self.gap0, self.gap)
        launched_ns = np.where(self.by_launch, work.launched_ns, NEVER) + least_latency
        free_ns = np.where(is_first, NEVER, work.end_ns[work.before] + least_gap)
        late_launch = self.by_launch & (launched_ns >= free_ns)
        latency = np.where(late_launch, self.latency, least_latency)
        gap = np.where(late_launch, least_gap, self.gap)
        over = np.where(late_launch, self.latency - LATENCY_NS, self.gap - GAP_NS)
        # What takes longer needs another reason. First, a dependency that a call asks for: of
        # several, the one that ends last.
        tied, recorded = self._without_launch()
        over[recorded | is_first & ~late_launch] = 0
        after, source = self._asked()
        unexplained = over > 0
        delay = (self.start[after] - work.end_ns[source]).astype(np.float64)
        binds = unexplained[after] & (delay >= 0)
        long_ago = np.flatnonzero(binds & (delay > ASKED_NS))
        binds[long_ago] = self._finds_no_room(after[long_ago], source[long_ago])
        soonest = np.full(len(work), np.inf)
        np.minimum.at(soonest, after[binds], delay[binds])
        binds &= delay == soonest[after]
        explained = np.zeros(len(work), dtype=np.bool_)
        explained[after[binds]] = True
        delay = np.where(binds, delay, np.minimum(DEPENDENCY_NS, delay))
        # Then, what ends on another stream just before. The first kernel of a stream inside a graph
        # always has such a reason, as the graph has one launch for all of its streams.
        inside_graph = is_first & work.is_launched & ~work.starts_call
        left = np.flatnonzero((unexplained | inside_graph) & ~explained)
        found = self._followed(left)
        left, found = left[found != NONE], found[found != NONE]
        explained[left] = True
        after, source = np.concatenate((after, left)), np.concatenate((source, found))
        delay = np.concatenate((delay, (self.start[left] - work.end_ns[found]).astype(np.float64)))
        # With such a reason, the launch and the operation before need no more than is usual.
        latency = np.where(explained, least_latency, latency)
        gap = np.where(explained, least_gap, gap)
        self.point[explained & ~work.starts_call] = NONE
        # Without one, the host may have launched it at that time, in a call that is not recorded.
        tied &= unexplained & ~explained
        point = self._tied(tied, explained, latency)
        gap[tied] = least_gap[tied]
        over[explained | tied] = 0
        gap[is_first] = -np.inf
        # What is left may wait for room: that is no dependency, but it is explained.
        room = self._waits_for_room(over)
        over[room] = 0
        return Starts(
            point=point,
            latency_ns=latency.astype(np.float64),
            gap_ns=gap.astype(np.float64),
            unexplained_ns=np.maximum(over, 0).astype(np.float64),
            waits_for_room=room,
            in_graph=self.operations.is_launched & ~self.operations.starts_call,
            after=after,
            source=source,
            delay_ns=delay,
        )

    def _finds_no_room(self, after: Int64Array, source: Int64Array) -> Mask:
        """Kernels that wait for room after the end of what they depend on, the last to be done.

        Behind an exchange, on a stream of its own, a kernel of a recommender found room 0.4 ms
        later: with a free exchange, the host of its job would otherwise have waited for another 41.
        """
        work, ends_ns = self.operations, self.operations.end_ns[source]
        free_ns = np.where(self.is_first[after], NEVER, work.end_ns[work.before[after]])
        launched_ns = np.where(self.by_launch[after], work.launched_ns[after], NEVER)
        late = self._takes_room[after] & (ends_ns > np.maximum(free_ns, launched_ns))
        late[late] = self._filled(after[late], ends_ns[late])
        return np.asarray(late)

    def _waits_for_room(self, over: Times) -> Mask:
        """Kernels that start late while kernels of other streams run on their GPU."""
        late = (over > 0) & self._takes_room
        late[late] = self._filled(np.flatnonzero(late), (self.start - over)[late])
        return np.asarray(late)

    @cached_property
    def _takes_room(self) -> Mask:
        """Kernels, and copies within a GPU, which are made by kernels."""
        work = self.operations
        is_copy = work.rank.trace.events.named(work.row, patterns.WITHIN_GPU)
        return np.asarray((work.type != KernelType.MEMORY) | is_copy)

    @cached_property
    def _running(self) -> dict[int, Intervals]:
        """When kernels run on each GPU."""
        work, found = self.operations, {}
        for device in np.unique(work.device).tolist():
            own = np.flatnonzero(self._takes_room & (work.device == device))
            found[device] = Intervals.union(self.start[own], work.end_ns[own])
        return found

    def _filled(self, chosen: Int64Array, since_ns: Times) -> Mask:
        """Whether kernels run on the GPU for most of the time from ``since_ns`` to each start."""
        work, found = self.operations, np.zeros(chosen.size, dtype=np.bool_)
        for device in np.unique(work.device[chosen]).tolist():
            until = self._running[device].covered_until
            asked = np.flatnonzero(work.device[chosen] == device)
            start_ns = self.start[chosen[asked]]
            filled_ns = until(start_ns) - until(since_ns[asked])
            found[asked] = filled_ns >= FILLED * (start_ns - since_ns[asked])
        return found

    def _without_launch(self) -> tuple[Mask, Mask]:
        """Operations without a recorded launch: those after one with a launch, and those before.

        The former were launched by a call that the trace lacks, the latter before it starts. Copies
        on a stream without any launch move pages of managed memory, and do not wait for each other.
        """
        work = self.operations
        missing = ~work.is_launched
        edges = np.flatnonzero(np.append(self.is_first, True))
        seen = np.cumsum(work.is_launched)
        before_stream = np.repeat(np.append(0, seen)[edges[:-1]], np.diff(edges))
        has_earlier = seen > before_stream
        launched = np.bincount(work.stream, work.is_launched, minlength=work.streams)
        if launched.any():
            has_earlier |= (launched[work.stream] == 0) & (work.type == KernelType.MEMORY)
        return missing & has_earlier, missing & ~has_earlier

    def _tied(self, tied: Mask, explained: Mask, latency: Float64Array) -> Int64Array:
        """Points of all operations, also of those whose launch is not in the trace."""
        point = self.point.copy()
        order = np.argsort(self.line.time_ns, kind="stable")
        times = self.line.time_ns[order]
        chosen = np.flatnonzero(tied)
        at = np.searchsorted(times, self.start[chosen] - self.lat0, side="right") - 1
        point[chosen] = order[np.maximum(at, 0)]
        alone = np.flatnonzero(self.is_first & ~explained & (point == NONE))
        point[alone] = 0
        chosen = np.concatenate((chosen, alone))
        latency[chosen] = self.start[chosen] - self.line.time_ns[point[chosen]]
        return point

    def _followed(self, chosen: Int64Array) -> Int64Array:
        """Operation of another stream that ended latest just before each start."""
        stream, start = self.operations.stream, self.start

        def is_no_cause(asked: Int64Array, candidates: Int64Array) -> Mask:
            same_stream = stream[candidates] == stream[chosen[asked]]
            return np.asarray(same_stream | (start[candidates] >= start[chosen[asked]]))

        at = start[chosen]
        return self.operations.latest_ended(at - FOLLOWED_NS, at + TOUCHING_NS, is_no_cause)

    def _asked(self) -> tuple[Int64Array, Int64Array]:
        """Dependencies between streams that calls ask for."""
        found = self._recorded_waits()
        after, source = self._inferred_waits() if found is None else found
        known = (after != NONE) & (source != NONE)
        after, source = after[known], source[known]
        asks = self.operations.starts_call[after]  # inside a graph, its own order counts
        after, source = after[asks], source[asks]
        fits = self.operations.end_ns[source] <= self.start[after] + self.operations.slack_ns
        fits &= self.start[source] < self.start[after]  # short ones would wait for each other
        return after[fits], source[fits]

    def _recorded_waits(self) -> tuple[Int64Array, Int64Array] | None:
        """Dependencies that events of the profiler record; None without such events."""
        events, work = self.operations.rank.trace.events, self.operations
        names = events.name.values
        rows = events.rows_of(Kind.SYNC)
        codes = [
            code for code in set(events.name.codes[rows].tolist()) if _RECORDED_WAIT in names[code]
        ]
        rows = rows[np.isin(events.name.codes[rows], codes)]
        if not rows.size:
            return None
        table = self.operations.rank.details(DetailGroup.SYNCHRONISATION).table
        at = table.places_of(rows)
        rows, at = rows[at >= 0], at[at >= 0]
        if not rows.size:
            return None
        calls = events.rows_of(Kind.RUNTIME, Kind.DRIVER)
        calls = calls[events.correlation[calls] >= 0]
        by_id = calls[np.argsort(events.correlation[calls], kind="stable")]
        recorded, waited = (
            np.asarray(table.columns[f"wait_on_{name}"])[at].astype(np.int64)
            for name in ("cuda_event_record_corr_id", "stream")
        )
        asked_ns, known = _time_of(
            by_id, events.correlation, events.start_ns, events.correlation[rows]
        )
        record_ns, also = _time_of(by_id, events.correlation, events.start_ns, recorded)
        if not also.any():
            return None  # ROCm writes such events without the call that recorded
        rows, waited = rows[known & also], waited[known & also]
        asked_ns, record_ns = asked_ns[known & also], record_ns[known & also]
        device, stream = events.device[rows], events.stream[rows]
        after = np.full(rows.size, NONE)
        source = np.full(rows.size, NONE)
        for number, first in enumerate(np.flatnonzero(self.is_first).tolist()):
            of_stream = (int(work.device[first]), int(events.stream[work.row[first]]))
            mine = (device == of_stream[0]) & (stream == of_stream[1])
            after[mine] = work.first_launched(number, asked_ns[mine])
            theirs = (device == of_stream[0]) & (waited == of_stream[1])
            source[theirs] = work.last_launched(number, record_ns[theirs])
        return after, source

    def _inferred_waits(self) -> tuple[Int64Array, Int64Array]:
        """Dependencies of launches that follow a call that makes a stream wait, on its thread."""
        after = self._asked_to_wait
        work = self.operations
        if not after.size:
            return after, after
        at = work.launched_ns[after]
        computing = np.bincount(
            work.stream,
            np.where(work.type == KernelType.COMPUTATION, work.end_ns - work.start_ns, 0),
            minlength=work.streams,
        )
        source = np.full(after.size, NONE)
        launched = np.full(after.size, NEVER - 1)
        ends, own = np.append(work.end_ns, 0), work.stream[after]
        communicates = work.type[after] == KernelType.COMMUNICATION
        for stream in range(work.streams):
            last = work.last_launched(stream, at)
            known = (last != NONE) & (own != stream)
            known &= ~communicates & (ends[last] <= self.start[after] + work.slack_ns)
            if stream == int(np.argmax(computing)):
                known |= communicates & (last != NONE) & (own != stream)
            later = known & (work.asked_ns[last] > launched)
            source[later], launched[later] = last[later], work.asked_ns[last[later]]
        return after, source

    @cached_property
    def _asked_to_wait(self) -> Int64Array:
        """Operations whose launch call follows a call that makes a stream wait."""
        work, calls = self.operations, calls_of(self.operations.rank)
        asks = np.flatnonzero(calls.named(lambda name: _WAIT_EVENT in name) & calls.is_launch_call)
        if not asks.size:
            return asks
        launching = np.flatnonzero(self.line.launch_row >= 0)
        rows = self.line.launch_row[launching]
        line_of_thread = np.full(len(calls.threads), NONE)
        line_of_thread[calls.thread_of(calls.places_of(rows))] = self.line.line[launching]
        line_of_ask, asked_ns = line_of_thread[calls.thread_of(asks)], calls.start_ns[asks]
        chosen = [rows[:0]]
        for number in range(int(self.line.line.max()) + 1):
            own = self.line.line[launching] == number
            asked = np.sort(asked_ns[line_of_ask == number])
            before = np.searchsorted(asked, self.line.time_ns[launching][own])
            chosen.append(rows[own][np.diff(before, prepend=0) > 0])
        starting = np.flatnonzero(work.starts_call)
        return np.asarray(starting[np.isin(work.call[starting], np.concatenate(chosen))])


def _time_of(
    rows: Int64Array, ids: Int64Array, start_ns: Int64Array, wanted: Int64Array
) -> tuple[Int64Array, Mask]:
    """Start of the call with each wanted correlation id, and whether there is one."""
    own = ids[rows]
    at = np.minimum(np.searchsorted(own, wanted), max(own.size - 1, 0))
    if not own.size:
        return np.zeros(wanted.size, dtype=np.int64), np.zeros(wanted.size, dtype=np.bool_)
    return start_ns[rows[at]], np.asarray(own[at] == wanted)
