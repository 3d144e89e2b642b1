"""Calls in which the host waits for the GPU, and the operations that they wait for.

A call that waits returns a little after the last of these has ended::

    host      [ launch ] [ launch ]  [ cudaStreamSynchronize          ]
    stream               |== kernel ==||===== kernel =====|       return
                                                          |-----------|

Waits that no CUDA call shows (locks, sockets, the queue of a data loader) are the host's own time.
The exception is a silence that ends with the operation launched last, for which the host polls.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.budget.idle_gaps import runs_at
from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.window import NO_STEP, window_of
from hta_widgets.arrays import Float64Array, Int8Array, Int64Array, IntArray, Mask
from hta_widgets.diagnosis.replay.operations import NONE, Operations
from hta_widgets.grouping import are_among, distinct, grouped
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.health.unrecorded_waits import polled_waits
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.model.training import trains

SHORT_COPY_NS: Final = 15_000
"""A call that takes no longer did not wait for the asynchronous copy that it launched."""

LONG_CALL_NS: Final = 50_000
"""A launch call that takes longer was held up, if enough work is in flight; a copy whose call takes
longer is staged through pinned memory."""

EARLY_NS: Final = 10_000
EARLY_SHARE: Final = 0.2
"""How much earlier than the end of its copy a call may return: the smaller of this time and this
share of the copy."""

EARLY_SHARE_STAGED: Final = 0.5
"""The share for calls longer than `LONG_CALL_NS`: they stage a pageable copy, and return when the
last part is staged, 3 to 40 µs before the end."""

CLOCKS_NS: Final = 10_000
"""How long a call may return before the end of what the trace says it waits for, as the clocks of
host and GPU are a little apart: 16 waits of 10 ms on an H100 ended 2 µs early."""

FULL_QUEUE: Final = 500
"""Operations in flight from which a launch may wait for a free place in the queue."""

SOON_NS: Final = 100_000
"""A call that synchronises this shortly before an allocator call is part of its cost: the caching
allocator waits for all streams before it gives blocks back."""

LONG_LOAD_NS: Final = 1_000_000
"""A call that loads code waited for the GPU if it takes longer and ends within `SOON_NS` after the
GPU, as ``cudaOccupancyMaxActiveBlocksPerMultiprocessor`` did with a lead of 43 ms."""

FEWEST: Final = 3
OWN_NS: Final = 4_000
"""Time of a waiting call without its wait, if there are too few calls to measure it."""

RETURN_NS: Final = 3_000
"""Time from the end of the operation to the return of the call, if there are too few."""

_USUAL_PERCENT: Final = 10

_WITHOUT_HOST = re.compile(rf"{patterns.WITHIN_GPU.pattern}|PtoP")
_OWN_COPY = re.compile(r"Memcpy")
_FREE = re.compile(r"Free(?!Async)|HostUnregister")
_OF_POOL = re.compile(r"(?:Malloc|Free|Alloc)(?:FromPool)?Async")
"""Calls that work in the order of a stream, and wait for nothing."""
_STREAM = re.compile(r"StreamSynchronize")
_LOADS = re.compile(rf"{patterns.INITIALISING.pattern}|Occupancy|FuncSetAttribute")
"""With lazy loading, the first such call for a kernel loads it, which may wait for the device."""


class Wait(IntEnum):
    """What a call waits for."""

    COPY_TO_DEVICE = 0
    COPY = 1
    STREAM = 2
    EVENT = 3
    DEVICE = 4
    FREE = 5
    QUEUE = 6
    POLLED = 7
    LOADED = 8


SYNCHRONISING: Final = (Wait.STREAM, Wait.EVENT, Wait.DEVICE)


class WaitingCalls(NamedTuple):
    """Calls that may wait, ordered by end, and what each waits for."""

    row: IntArray
    """Row in the events of the rank."""
    start_ns: Times
    end_ns: Times
    kind: Int8Array
    """Kind of each call, a value of `Wait`."""
    own_ns: Float64Array
    """Time of each call without its wait."""
    to_allocate: Mask
    """Whether each frees memory, or synchronises just before a call of the allocator."""
    drains: Mask
    """Whether work other than copies of the host runs when each starts: without it, the host loses
    no lead."""
    is_needed: Mask
    """Whether the wait has to stay: next comes a graph, or the next step of a server, whose input
    depends on what the call returned; or the call ends before the analysed steps, or loads code."""
    waited: Mask
    """Whether each call ended with an operation."""
    of: Int64Array
    """Position of the call that awaits each operation, ascending."""
    operation: Int64Array
    """The awaited operations."""
    return_ns: Float64Array
    """Least time from the end of each awaited operation to the end of the call."""


def waiting_calls(rank_operations: Operations) -> WaitingCalls:
    """The calls of a rank that may wait for its GPU, on the threads that launch work."""
    return _with_polled(_Candidates(rank_operations).judged(), rank_operations)


def _with_polled(found: WaitingCalls, operations: Operations) -> WaitingCalls:
    """Add the waits that no call shows, as waits of the call that launched what they wait for.

    What the host does next depends on them, so no edit takes them away.
    """
    rank = operations.rank
    polled = polled_waits(rank.trace.events, rank.silences)
    place = np.full(rank.trace.events.start_ns.size, NONE)
    place[operations.row] = np.arange(len(operations))
    operation = place[polled.work]
    kept = np.flatnonzero(operation != NONE)
    if not kept.size or rank.health.waits.matter:
        return found
    operation, end_ns = operation[kept], polled.end_ns[kept]
    count, is_true = kept.size, np.ones(kept.size, dtype=np.bool_)
    added = WaitingCalls(
        row=operations.call[operation],
        start_ns=polled.begin_ns[kept],
        end_ns=end_ns,
        kind=np.full(count, Wait.POLLED, dtype=np.int8),
        own_ns=np.zeros(count),
        to_allocate=~is_true,
        drains=~is_true,
        is_needed=is_true,
        waited=is_true,
        of=found.row.size + np.arange(count),
        operation=operation,
        return_ns=(end_ns - operations.end_ns[operation]).astype(np.float64),
    )
    names = WaitingCalls._fields
    both = WaitingCalls._make(
        np.concatenate((getattr(found, name), getattr(added, name))) for name in names
    )
    order = np.argsort(both.end_ns, kind="stable")
    of = np.argsort(order, kind="stable")[both.of]
    by_call = np.argsort(of, kind="stable")
    of_calls = [getattr(both, name)[order] for name in names[:-3]]
    pairs = (of, both.operation, both.return_ns)
    return WaitingCalls._make([*of_calls, *(each[by_call] for each in pairs)])


class _Candidates:
    """Calls of the runtime or driver that may wait, in order of time."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        rank = operations.rank
        calls, events = calls_of(rank), rank.trace.events
        self.names = events.name.values
        launching = distinct(operations.call[operations.is_launched])
        self.launches = launching
        places = calls.places_of(launching)
        threads = distinct(calls.thread_of(places))
        own_threads = np.zeros(calls.kind.size, dtype=np.bool_)
        for number in threads.tolist():
            own_threads[calls.threads[number].first : calls.threads[number].last] = True
        parent = np.append(calls.kind, np.int8(-1))[calls.forest.parent]
        repeats = (calls.kind == Kind.DRIVER) & (parent == Kind.RUNTIME)
        is_launch = np.zeros(calls.kind.size, dtype=np.bool_)
        is_launch[places] = True
        length_ns = events.duration_ns[calls.forest.rows]
        blocks = calls.named(patterns.BLOCKING.search) | calls.named(_FREE.search)
        blocks |= calls.named(_LOADS.search) & (length_ns > LONG_LOAD_NS)
        copies = is_launch & calls.named(_OWN_COPY.search)
        long_ones = is_launch & (length_ns > LONG_CALL_NS)
        chosen = calls.is_launch_call & own_threads & ~repeats & (blocks | copies | long_ones)
        rows = calls.forest.rows[np.flatnonzero(chosen)]
        ends = events.start_ns[rows] + events.duration_ns[rows]
        self.row = rows[np.argsort(ends, kind="stable")]
        self.start_ns = events.start_ns[self.row]
        self.length_ns = events.duration_ns[self.row]
        self.end_ns = self.start_ns + self.length_ns
        self.name = events.name.codes[self.row].astype(np.int64)
        self.limit_ns = self.end_ns + operations.slack_ns
        self.usual_launch_ns = np.median(events.duration_ns[launching]) if launching.size else 0.0
        self.kind = np.full(self.row.size, NONE, dtype=np.int8)
        self.pairs: list[tuple[Int64Array, Int64Array]] = []

    def judged(self) -> WaitingCalls:
        """Decide for each candidate what it waits for."""
        self._copies()
        self._full_queues()
        self._events()
        self._streams()
        self._devices()
        return self._timed()

    def _named(self, pattern: re.Pattern[str]) -> Mask:
        fits = {code: bool(pattern.search(self.names[code])) for code in set(self.name.tolist())}
        return np.array([fits[code] for code in self.name.tolist()], dtype=np.bool_)

    def _await(
        self, calls: Int64Array, operations: Int64Array, early_ns: int | IntArray = 0
    ) -> None:
        """Add pairs of calls and operations that end in time, or up to ``early_ns`` later."""
        ends = np.append(self.operations.end_ns, 0)[operations]
        fits = (operations != NONE) & (ends <= self.limit_ns[calls] + early_ns)
        self.pairs.append((calls[fits], operations[fits]))

    def _copies(self) -> None:
        """Find calls that wait for the copy that they launch."""
        work = self.operations
        own = np.full(work.rank.trace.events.start_ns.size, NONE)
        of_copies = np.flatnonzero(work.is_launched & (work.type == KernelType.MEMORY))
        own[work.call[of_copies]] = of_copies
        copy = own[self.row]
        calls = np.flatnonzero(self._named(_OWN_COPY) & (copy != NONE))
        is_async = self._named(re.compile("Async"))[calls]
        calls = calls[(self.length_ns[calls] > SHORT_COPY_NS) | ~is_async]
        copy_ns = work.end_ns[copy[calls]] - work.start_ns[copy[calls]]
        early_ns = np.where(
            self.length_ns[calls] > LONG_CALL_NS,
            EARLY_SHARE_STAGED * copy_ns,
            np.minimum(EARLY_NS, EARLY_SHARE * copy_ns),
        )
        ends = work.end_ns[copy[calls]]
        calls = calls[self.end_ns[calls] >= ends - early_ns]
        texts = [self.names[work.name[copy[call]]] for call in calls.tolist()]
        of_host, to_device = (
            np.array([bool(pattern.search(text)) is says for text in texts], dtype=np.bool_)
            for pattern, says in ((_WITHOUT_HOST, False), (patterns.HOST_TO_DEVICE, True))
        )
        calls, to_device = calls[of_host], to_device[of_host]
        self.kind[calls] = np.where(to_device, Wait.COPY_TO_DEVICE, Wait.COPY)
        self.pairs.append((calls, copy[calls]))

    def _left(self, pattern: re.Pattern[str]) -> Int64Array:
        is_async_copy = self._named(_OWN_COPY) & ~self._named(patterns.BLOCKING)
        return np.flatnonzero(self._named(pattern) & (self.kind == NONE) & ~is_async_copy)

    def _full_queues(self) -> None:
        """Find launch calls that take long while many operations are in flight."""
        work = self.operations
        is_launch = are_among(self.row, self.launches) & ~self._named(_OWN_COPY)
        calls = np.flatnonzero(is_launch & (self.kind == NONE))
        # includes those from before the recording: on two H100, 1,138 held up launches in 0.3 s
        begun, done = np.sort(work.asked_ns), np.sort(work.end_ns)
        at = self.start_ns[calls]
        in_flight = np.searchsorted(begun, at) - np.searchsorted(done, at, side="right")
        calls = calls[(in_flight >= FULL_QUEUE) & (self.length_ns[calls] > LONG_CALL_NS)]
        found = self._ended_inside(calls)
        calls, found = calls[found != NONE], found[found != NONE]
        self.kind[calls] = Wait.QUEUE
        self.pairs.append((calls, found))

    def _ended_inside(self, calls: Int64Array) -> Int64Array:
        """The last operation to end inside each call, of those launched before it."""
        work = self.operations

        def launched_later(asked: Int64Array, candidates: Int64Array) -> Mask:
            return np.asarray(work.asked_ns[candidates] >= self.start_ns[calls[asked]])

        return work.latest_ended(self.start_ns[calls] + 1, self.limit_ns[calls], launched_later)

    def _events(self) -> None:
        """A wait for an event is for the operation that ends last inside the call.

        It need not be the last one launched: reading a loss one step late waits for the previous
        step.
        """
        calls = self._left(patterns.WAITS_FOR_EVENT)
        self.kind[calls] = Wait.EVENT
        self._await(calls, self._ended_inside(calls))

    def _streams(self) -> None:
        """A call waits for the stream that the trace names, or the last one launched to."""
        work = self.operations
        calls = np.sort(np.concatenate((self._left(_STREAM), self._left(_OWN_COPY))))
        self.kind[calls] = Wait.STREAM
        if not calls.size or not len(work):
            return
        at = self.start_ns[calls]
        recorded = self._recorded_streams(calls)
        last = np.stack([work.last_launched(stream, at) for stream in range(work.streams)])
        ends = np.append(work.end_ns, np.iinfo(np.int64).max)[last]
        columns = np.arange(calls.size)
        chosen = np.where(
            recorded != NONE, last[np.maximum(recorded, 0), columns], work.last_of_all(at)
        )
        early_ns = np.where(recorded != NONE, CLOCKS_NS, 0)
        contradicts = np.append(work.end_ns, 0)[chosen] > self.limit_ns[calls] + early_ns
        fitting = np.where((last != NONE) & (ends <= self.limit_ns[calls]), ends, -1)
        best = fitting.argmax(axis=0)
        other = np.where(fitting[best, columns] >= 0, last[best, columns], NONE)
        self._await(calls, np.where(contradicts, other, chosen), early_ns)

    def _recorded_streams(self, calls: Int64Array) -> Int64Array:
        """Number of the stream that the trace says each call waits for, -1 if it names none."""
        work, events = self.operations, self.operations.rank.trace.events
        rows = events.rows_of(Kind.SYNC)
        if not rows.size:
            return np.full(calls.size, NONE)
        by_call = {
            int(events.correlation[row]): (int(events.device[row]), int(events.stream[row]))
            for row in rows.tolist()
            if events.stream[row] >= 0
        }
        ids = zip(work.device.tolist(), events.stream[work.row].tolist(), strict=True)
        streams = dict(zip(ids, work.stream.tolist(), strict=True))
        # exports of Nsight Systems name a device other than that of the work
        by_id = {stream: number for (_, stream), number in streams.items()}
        wanted = events.correlation[self.row[calls]].tolist()
        named = [by_call.get(each, (NONE, NONE)) for each in wanted]
        return np.array([streams.get(each, by_id.get(each[1], NONE)) for each in named])

    def _devices(self) -> None:
        """A call waits for all streams; one that frees memory, only if none is still busy after it.

        One that loads code, only if also the last stream ends shortly before the call.
        """
        work = self.operations
        by_kind = {Wait.FREE: _FREE, Wait.LOADED: _LOADS, Wait.DEVICE: patterns.BLOCKING}
        for kind, pattern in by_kind.items():
            calls = self._left(pattern)
            self.kind[calls] = kind
            if not calls.size or not len(work):
                continue
            at = self.start_ns[calls]
            last = np.stack([work.last_launched(stream, at) for stream in range(work.streams)])
            ends = np.append(work.end_ns, 0)[last]
            none = (ends > self.limit_ns[calls]).any(axis=0) & (kind != Wait.DEVICE)
            if kind == Wait.LOADED:
                latest = ends.max(axis=0)
                none |= (latest <= at) | (self.end_ns[calls] - latest > SOON_NS)
            for of_stream in last:
                self._await(calls, np.where(none, NONE, of_stream))

    def _allocates(self, kept: Int64Array) -> Mask:
        calls = calls_of(self.operations.rank)
        chosen = calls.named(patterns.ALLOCATING.search) & ~calls.named(_OF_POOL.search)
        chosen &= calls.is_launch_call
        begun = np.sort(calls.start_ns[np.flatnonzero(chosen)])
        synchronises = np.isin(self.kind[kept], SYNCHRONISING)
        ends = self.end_ns[kept]
        following = np.append(begun, np.iinfo(np.int64).max)[np.searchsorted(begun, ends)]
        soon = synchronises & (following - ends <= SOON_NS)
        return np.asarray(soon | (self.kind[kept] == Wait.FREE))

    def _is_needed(self, kept: Int64Array) -> Mask:
        events = self.operations.rank.trace.events
        starts = events.start_ns[self.launches]
        order = np.argsort(starts, kind="stable")
        following = np.searchsorted(starts[order], self.end_ns[kept])
        is_graph = events.named(self.launches[order], patterns.GRAPH_LAUNCH)
        needed = np.append(is_graph, False)[following]
        marks_ns = self.operations.rank.server_steps.start_ns
        if marks_ns.size and not trains(events):
            # between two steps it reads the tokens from which the next step computes
            next_ns = np.append(starts[order], 0)[following]
            mark = np.searchsorted(marks_ns, self.start_ns[kept], side="right")
            needed = mark < np.searchsorted(marks_ns, next_ns, side="right")
        window = window_of(self.operations.rank)
        is_before = (self.end_ns[kept] < window.start_ns) & (NO_STEP not in window.steps)
        return np.asarray(needed | is_before | (self.kind[kept] == Wait.LOADED))

    def _timed(self) -> WaitingCalls:
        """Measure how long each call takes without its wait, and how soon it returns after it."""
        calls = np.concatenate([np.zeros(0, dtype=np.int64), *(each for each, _ in self.pairs)])
        found = np.concatenate([np.zeros(0, dtype=np.int64), *(each for _, each in self.pairs)])
        count, work = self.row.size, self.operations
        latest = np.full(count, np.iinfo(np.int64).min)
        np.maximum.at(latest, calls, work.end_ns[found])
        is_known = latest > np.iinfo(np.int64).min
        is_own_copy = np.isin(self.kind, (Wait.COPY, Wait.COPY_TO_DEVICE))
        waited = (latest > self.start_ns) | (is_own_copy & is_known)
        after_ns = (self.end_ns - np.where(is_known, latest, 0)).astype(np.float64)
        own_ns, usual_ns = np.full(count, float(OWN_NS)), np.full(count, float(RETURN_NS))
        # what the calls of a left-out step wait for is not among the operations
        prompts = ~waited & work.rank.analysed[self.row]
        for rows in grouped(self.name).parts:
            prompt, late = rows[prompts[rows]], rows[waited[rows]]
            if prompt.size >= FEWEST:
                own_ns[rows] = np.percentile(self.length_ns[prompt], _USUAL_PERCENT)
            if late.size:
                usual_ns[rows] = np.percentile(after_ns[late], _USUAL_PERCENT)
        own_ns[self.kind == Wait.QUEUE] = self.usual_launch_ns
        least_ns = np.where(waited, after_ns, np.minimum(usual_ns, after_ns))
        kept = distinct(calls)  # the others are not known to have waited for anything
        place = np.full(count, NONE)
        place[kept] = np.arange(kept.size)
        order = np.lexsort((found, place[calls]))
        calls, found = calls[order], found[order]
        return WaitingCalls(
            row=self.row[kept],
            start_ns=self.start_ns[kept],
            end_ns=self.end_ns[kept],
            kind=self.kind[kept],
            own_ns=np.minimum(own_ns, self.length_ns)[kept],
            to_allocate=self._allocates(kept),
            drains=runs_at(work.rank, work.row, self.start_ns[kept]),
            is_needed=self._is_needed(kept),
            waited=waited[kept],
            of=place[calls],
            operation=found,
            return_ns=least_ns[calls],
        )
