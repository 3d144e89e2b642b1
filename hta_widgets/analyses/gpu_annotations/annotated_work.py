"""The user annotation that each piece of GPU work was launched in, ProfilerSteps included."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hta_widgets.arrays import Int8Array, Int64Array, Mask
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

NOTHING = -1


SOURCES: Final = ("", "launch", "handover", "gpu")
"""How the annotation of a piece of work was found, by code: not at all, by the thread of its launch
call, by the thread of the ProfilerSteps at that time, or by the annotations on its stream."""


class Ranges(NamedTuple):
    """Ranges of one thread by start, the longest first."""

    rows: Int64Array
    start_ns: Times
    end_ns: Times
    around: Int64Array
    """Position of the last range before each that is open when it starts, -1 for none."""

    @classmethod
    def of(cls, rows: Int64Array, start_ns: Times, end_ns: Times) -> Ranges:
        """Sort ranges."""
        order = np.lexsort((rows, -end_ns, start_ns))
        start, end = start_ns[order], end_ns[order]
        around = np.arange(order.size) - 1
        ended = np.arange(1, order.size)
        while (ended := ended[_is_over(around[ended], end, start[ended])]).size:
            around[ended] = around[around[ended]]
        return cls(rows[order], start, end, around)

    def innermost(self, times: Times) -> Int64Array:
        """Position of the last started range that is open at each time, -1 for none."""
        return self._open(np.searchsorted(self.start_ns, times, side="right") - 1, times)

    def next_open(self, positions: Int64Array, times: Times) -> Int64Array:
        """Position of the range before each that is open at its time, -1 for none."""
        return self._open(np.append(self.around, NOTHING)[positions], times)

    def _open(self, found: Int64Array, times: Times) -> Int64Array:
        over = np.flatnonzero(_is_over(found, self.end_ns, times))
        while over.size:
            found[over] = self.around[found[over]]
            over = over[_is_over(found[over], self.end_ns, times[over])]
        return found


def _is_over(found: Int64Array, end_ns: Times, times: Times) -> Mask:
    if not end_ns.size:
        return np.zeros(found.size, dtype=np.bool_)
    return np.asarray((found != NOTHING) & (end_ns[found] <= times))


_NONE, _LAUNCH, _HANDOVER, _GPU = range(len(SOURCES))


class AnnotatedWork(NamedTuple):
    """The analysed work of a rank, by start."""

    work: GpuWork
    annotation: Int64Array
    """Code of the name of the innermost annotation, -1 for none."""
    source: Int8Array
    """Position in `SOURCES`."""
    inside: Int64Array
    """Pieces of work (by position) and the names of all annotations around them, each once. Shape
    (pairs, 2)."""


def annotated_work(rank: Rank) -> AnnotatedWork:
    """The user annotation that each piece of analysed GPU work was launched in.

    It is the innermost one that is open on the launching thread when the launch call starts; if
    none is, as on the threads of autograd, the innermost one that is open on the thread of the
    ProfilerSteps. Work whose launch is not in the trace belongs to the shortest annotation that the
    profiler wrote on its stream and that holds the middle of it.
    """
    return rank.remember(_annotated_work)


def _annotated_work(rank: Rank) -> AnnotatedWork:
    events, work = rank.trace.events, rank.gpu_work
    claims = _Claims(rank)
    rows = events.rows_of(Kind.ANNOTATION)
    rows = rows[rank.analysed[rows]]
    launched = np.flatnonzero(work.launch >= 0)
    call = work.launch[launched]
    of_thread = _by_thread(events.pid, events.tid, rows)
    for (pid, tid), own in of_thread.items():
        here = launched[(events.pid[call] == pid) & (events.tid[call] == tid)]
        claims.by_launch(own, here, _LAUNCH)
    main = of_thread.get(_thread_of_steps(rank) or (NOTHING, NOTHING))
    if main is not None:
        claims.by_launch(main, launched[claims.found[launched] == NOTHING], _HANDOVER)
    claims.by_stream()
    every = np.concatenate(claims.pairs)
    inside = every[grouped(every[:, 0], every[:, 1]).first]
    return AnnotatedWork(work, claims.found, claims.source, inside)


def _by_thread(
    pid: Int64Array, tid: Int64Array, rows: Int64Array
) -> dict[tuple[int, int], Int64Array]:
    threads = set(zip(pid[rows].tolist(), tid[rows].tolist(), strict=True))
    return {each: rows[(pid[rows] == each[0]) & (tid[rows] == each[1])] for each in sorted(threads)}


def _thread_of_steps(rank: Rank) -> tuple[int, int] | None:
    rows = rank.steps.rows
    if not rows.size:
        return None
    return int(rank.trace.events.pid[rows[0]]), int(rank.trace.events.tid[rows[0]])


class _Claims:
    """Which annotation has each piece of work, while they are asked one after the other."""

    def __init__(self, rank: Rank) -> None:
        self.events = rank.trace.events
        self.work = rank.gpu_work
        self.found = np.full(len(self.work), NOTHING)
        self.source = np.full(len(self.work), _NONE, dtype=np.int8)
        self.pairs = [np.zeros((0, 2), dtype=np.int64)]

    def by_launch(self, rows: Int64Array, asked: Int64Array, how: int) -> None:
        """Give work to the annotations of a thread that are open when its launch call starts."""
        events = self.events
        start_ns = events.start_ns[rows]
        ranges = Ranges.of(rows, start_ns, start_ns + events.duration_ns[rows])
        times = events.start_ns[self.work.launch[asked]]
        position = ranges.innermost(times)
        codes = events.name.codes[ranges.rows].astype(np.int64)
        held = position != NOTHING
        self.found[asked[held]] = codes[position[held]]
        self.source[asked[held]] = how
        while held.any():
            asked, times, position = asked[held], times[held], position[held]
            self.pairs.append(np.stack([asked, codes[position]], axis=1))
            position = ranges.next_open(position, times)
            held = position != NOTHING

    def by_stream(self) -> None:
        """Give work of unknown launch to the annotations that were recorded on its stream."""
        events, work = self.events, self.work
        rows = events.rows_of(Kind.GPU_ANNOTATION)
        rows = rows[np.argsort(-events.duration_ns[rows], kind="stable")]
        middle = work.start_ns + work.duration_ns // 2
        unknown = np.flatnonzero(work.launch < 0)
        unknown = unknown[np.argsort(middle[unknown], kind="stable")]
        pid, tid = events.pid[work.rows[unknown]], events.tid[work.rows[unknown]]
        for of_stream in grouped(pid, tid).parts:
            own = unknown[of_stream]
            same = (events.pid[rows] == pid[of_stream[0]]) & (events.tid[rows] == tid[of_stream[0]])
            there = rows[same]
            first = np.searchsorted(middle[own], events.start_ns[there])
            last = np.searchsorted(middle[own], events.start_ns[there] + events.duration_ns[there])
            codes = events.name.codes[there].tolist()
            for code, begin, end in zip(codes, first.tolist(), last.tolist(), strict=True):
                held = own[begin:end]
                self.found[held], self.source[held] = code, _GPU
                self.pairs.append(np.stack([held, np.full(held.size, code)], axis=1))
