"""GPU and CPU time of user annotations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.idle_owners.sums import idle_by_call
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.call_sums import SubForest, cpu_times, launched_work, sums_at
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.rows import Columns, joined_table, largest_first, of_largest_sum
from hta_widgets.analyses.time.selection import EVERYTHING, TimeSelection, place_of
from hta_widgets.arrays import Int8Array, Int64Array, Mask
from hta_widgets.errors import check_choice
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Intervals, Times
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import counted, duration, percent
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.events import Kind, TextColumn
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

On: TypeAlias = Literal["gpu", "cpu"]

TIMES: Final = {"gpu": "gpu_ns", "cpu": "cpu_sum_ns"}
"""Column of the time of annotations on the GPU and on the CPU."""

NO_ANNOTATIONS: Final = (
    "no user annotations were recorded (torch.profiler.record_function, or NVTX ranges)"
)

_NAME_WIDTH: Final = 60
NOTHING = -1

SOURCES: Final = ("", "launch", "handover", "gpu")
"""How the annotation of a piece of work was found, by code: not at all, on the thread of its launch
call, on the thread of the ProfilerSteps at that time, or among the annotations on its stream."""

_NONE, _LAUNCH, _HANDOVER, _GPU = range(len(SOURCES))


class AnnotationRows(NamedTuple):
    """Rows of one rank, and the GPU time that lies in none of them."""

    columns: Columns
    """Columns of `GpuAnnotations.annotations`."""
    totals: tuple[int, int, int]
    """GPU time of all work, of work launched outside annotations, and of work whose launch is
    unknown."""


def annotation_rows(rank: Rank, selection: TimeSelection | None) -> AnnotationRows:
    """The user annotations of a rank in some of its time."""
    sums = _by_name(rank, selection)
    names = rank.trace.events.name.values
    holds = np.any([column != 0 for column in sums.values()], axis=0)
    kept = np.flatnonzero(holds)
    columns: Columns = {
        "rank": np.full(kept.size, rank.trace.rank),
        "annotation": TextColumn.of(names[code] for code in kept.tolist()),
        **{name: column[kept] for name, column in sums.items()},
    }
    return AnnotationRows(columns, _totals(rank, selection))


def _annotations(rank: Rank) -> SubForest:
    calls = calls_of(rank)
    return SubForest.of(calls, calls.kind == Kind.ANNOTATION)


def _totals(rank: Rank, selection: TimeSelection | None) -> tuple[int, int, int]:
    work, place = launched_work(rank, selection)
    unrecorded = place == NO_PARENT
    outside = (rank.remember(_annotations).at(place) == NO_PARENT) & ~unrecorded
    ns = work.duration_ns
    return int(ns.sum()), int(ns[outside].sum()), int(ns[unrecorded].sum())


def _by_name(rank: Rank, selection: TimeSelection | None) -> dict[str, Times]:
    """Columns by code of the name."""
    tree, size = rank.remember(_annotations), len(rank.trace.events.name.values)
    cpu, outermost = cpu_times(rank, tree, selection), tree.same_name == NO_PARENT
    work, place = launched_work(rank, selection)
    owner, idle = tree.at(place), idle_by_call(rank, selection)
    counted = (selection or EVERYTHING).counts(work).astype(np.int64)
    own_ns = tree.own(owner, work.duration_ns)
    of_call = {
        "calls": cpu.calls,
        "cpu_sum_ns": np.where(outermost, cpu.inside_ns, 0),
        "gpu_work": tree.totals(tree.own(owner, counted)),
        "gpu_ns": tree.totals(own_ns),
        "gpu_self_ns": own_ns,
        "gpu_span_ns": np.where(outermost, _spans_ns(tree, work, owner), 0),
        "idle_ns": tree.totals(tree.own(tree.at(idle.place), idle.ns)),
    }
    sums = {name: sums_at(tree.name, column, size) for name, column in of_call.items()}
    ranges, range_ns = _recorded_ranges(rank, size, selection)
    return {
        **{name: sums[name] for name in ("calls", "cpu_sum_ns", "gpu_work", "gpu_ns")},
        "gpu_busy_ns": _busy_ns(tree, work, owner, size),
        **{name: sums[name] for name in ("gpu_span_ns", "gpu_self_ns", "idle_ns")},
        "recorded_ranges": ranges,
        "recorded_range_ns": range_ns,
    }


def _spans_ns(tree: SubForest, work: GpuWork, owner: Int64Array) -> Times:
    """From the first start to the last end of the work launched in each call."""
    by_owner = grouped(owner)
    position = owner[by_owner.first]
    start = by_owner.reduce(np.minimum, work.start_ns)
    end = by_owner.reduce(np.maximum, work.end_ns)
    first = np.searchsorted(position, np.arange(tree.size))
    last = np.searchsorted(position, tree.last)
    filled = np.flatnonzero(last > first)
    span = np.zeros(tree.size, dtype=np.int64)
    if filled.size:
        edges = np.stack([first[filled], last[filled]], axis=1).ravel()
        starts = np.minimum.reduceat(np.append(start, start[-1:]), edges)[::2]
        ends = np.maximum.reduceat(np.append(end, end[-1:]), edges)[::2]
        span[filled] = ends - starts
    return span


def _busy_ns(tree: SubForest, work: GpuWork, owner: Int64Array, size: int) -> Times:
    """Time in which any work launched in annotations of a name runs, summed over devices."""
    pieces: list[Int64Array] = [np.zeros(0, dtype=np.int64)]
    codes: list[NDArray[Any]] = [np.zeros(0, dtype=np.int64)]
    piece = np.flatnonzero(owner != NO_PARENT)
    around = owner[piece]
    while piece.size:
        outermost = tree.same_name[around] == NO_PARENT
        pieces.append(piece[outermost])
        codes.append(tree.name[around[outermost]])
        around = tree.parent[around]
        piece, around = piece[around != NO_PARENT], around[around != NO_PARENT]
    every, code = np.concatenate(pieces), np.concatenate(codes)
    busy = np.zeros(size, dtype=np.int64)
    for rows in grouped(code, work.device[every]).parts:
        of_name = every[rows]
        busy[code[rows[0]]] += Intervals.union(work.start_ns[of_name], work.end_ns[of_name]).length
    return busy


def _recorded_ranges(rank: Rank, size: int, selection: TimeSelection | None) -> tuple[Times, Times]:
    """Number and length of the ranges on the GPU that the profiler recorded, by name."""
    events, rows = rank.trace.events, rank.remember(_rows_of_ranges)
    start, length_ns = events.start_ns[rows], events.duration_ns[rows]
    is_counted = np.ones(rows.size, dtype=np.int64)
    if selection is not None:
        on_device = events.pid[rows]  # Kineto writes them without a device, in its process
        for device in np.unique(on_device).tolist():
            own = on_device == device
            time = selection.time(rank, device)
            end = start[own] + length_ns[own]
            is_counted[own] = time.covers(start[own])
            length_ns[own] = time.covered_until(end) - time.covered_until(start[own])
    codes = events.name.codes[rows]
    return sums_at(codes, is_counted, size), sums_at(codes, length_ns, size)


def _rows_of_ranges(rank: Rank) -> Int64Array:
    """Rows of the annotations that the profiler recorded on the GPU, without marks of steps."""
    events = rank.trace.events
    rows = events.rows_of(Kind.GPU_ANNOTATION)
    return rows[~rank.names_of_marks[events.name.codes[rows]]]


@dataclass(frozen=True, kw_only=True, eq=False)
class GpuAnnotations(Result):
    """CPU and GPU time of the user annotations of each rank.

    All times are int64 ns. On each rank, the sum of ``gpu_self_ns``, ``outside_annotations_ns`` and
    ``launch_not_recorded_ns`` is ``gpu_ns`` of the rank.

    Attributes
    ----------
    annotations : DataFrame
        One row per rank and name, longest first: ``rank``, ``annotation``, ``calls``,
        ``cpu_sum_ns`` (durations of the calls, without those inside another of the same name),
        ``gpu_work`` (pieces of work launched in them, on their threads), ``gpu_ns`` (their
        durations), ``gpu_busy_ns`` (time in which any of them runs, summed over devices),
        ``gpu_span_ns`` (from the first start to the last end of the work of each call, idle time
        included), ``gpu_self_ns`` (the part of ``gpu_ns`` that lies in no annotation inside this
        one), ``idle_ns`` (time in which a GPU waits for what runs in them, including the step that
        is left out), ``recorded_ranges``, ``recorded_range_ns`` (number and sum of durations of the
        ranges on the GPU as the profiler writes them, one per stream, including the step that is
        left out). ProfilerSteps are not listed.
    ranks : DataFrame
        One row per rank: ``rank``, ``gpu_ns`` (durations of all GPU work that is counted),
        ``outside_annotations_ns``, ``launch_not_recorded_ns``.
    """

    annotations: pd.DataFrame
    ranks: pd.DataFrame


def gpu_annotations(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    on: On = "gpu",
    steps: Iterable[int] | None = None,
    window_ns: Sequence[int] | None = None,
) -> GpuAnnotations:
    """Sum up what runs in user annotations.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks when not given.
    on : {"gpu", "cpu"}
        Whose time rows are sorted by, and the finding is about.
    steps : iterable of int, optional
        Only these ProfilerSteps; all that are analysed when not given or empty.
    window_ns : pair of int, optional
        Only the time between these two, in ns since the first event of all ranks.
    """
    check_choice("on", on, TIMES)
    chosen = select_ranks(job, ranks)
    selection = TimeSelection.of(job, chosen, steps=steps, window_ns=window_ns)
    by_rank = job.reduce(annotation_rows, chosen, selection)
    table = largest_first(joined_table([rows.columns for rows in by_rank.values()]), TIMES[on])
    totals = pd.DataFrame(
        [(rank, *rows.totals) for rank, rows in by_rank.items()],
        columns=("rank", "gpu_ns", "outside_annotations_ns", "launch_not_recorded_ns"),
        dtype="int64",
    )
    return GpuAnnotations(
        annotations=table,
        ranks=totals,
        finding=_finding(table, totals, on, place_of(selection)),
        notices=(
            *job.notices_for(chosen, Recorded.KERNELS),
            *([NO_ANNOTATIONS] if table.empty else ()),
        ),
    )


def _finding(table: pd.DataFrame, totals: pd.DataFrame, on: On, place: str) -> str:
    """Sentence on the annotation with the most time."""
    if table.empty:
        return f"No user annotations were recorded {place}."
    of_name = table[of_largest_sum(table["annotation"], table[TIMES[on]])]
    most_ns = int(of_name[TIMES[on]].sum())
    if not most_ns:
        return ""
    name = short_name(str(of_name["annotation"].iloc[0]), _NAME_WIDTH)
    calls = int(of_name["calls"].sum())
    called = f"{name} ({counted(calls, 'call')})" if calls else name
    if on == "cpu":
        return f"The longest user annotation is {called}: {duration(most_ns)} on the CPU."
    whole_ns = int(totals["gpu_ns"].sum())
    outside_ns = int(totals["outside_annotations_ns"].sum())
    share = percent(100 * outside_ns / whole_ns)
    rest = f"; {share} is launched outside user annotations" if outside_ns else ""
    return (
        f"Of {duration(whole_ns)} of GPU time, {duration(most_ns)} "
        f"({percent(100 * most_ns / whole_ns)}) is launched in {called}{rest}."
    )


class Ranges(NamedTuple):
    """Ranges of one thread by start, the longest first."""

    rows: Int64Array
    start_ns: Times
    end_ns: Times
    around: Int64Array
    """For each range, position of the last earlier range that is open when it starts, or -1."""

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
        """Position of the most recently started range that is open at each time, -1 for none."""
        return self._open(np.searchsorted(self.start_ns, times, side="right") - 1, times)

    def next_open(self, positions: Int64Array, times: Times) -> Int64Array:
        """For each position, the range around it that is open at its time, -1 for none."""
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


class AnnotatedWork(NamedTuple):
    """The analysed work of a rank, by start."""

    work: GpuWork
    annotation: Int64Array
    """Code of the name of the innermost annotation, -1 for none."""
    source: Int8Array
    """Position in `SOURCES`."""
    inside: Int64Array
    """Pairs of a piece of work (by position) and the name of an annotation around it, each once.
    Shape (pairs, 2)."""


@asked_once
def annotated_work(rank: Rank) -> AnnotatedWork:
    """The user annotation that each piece of analysed GPU work was launched in.

    It is the innermost one that is open on the launching thread when the launch call starts. If
    none is, as on the threads of autograd, it is the innermost one that is open on the thread of
    the ProfilerSteps. Work whose launch is not in the trace belongs to the shortest annotation that
    the profiler wrote on its stream and that contains the midpoint of the work.
    """
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
    """Which annotation claims each piece of work, while sources are tried one after the other."""

    def __init__(self, rank: Rank) -> None:
        self.events = rank.trace.events
        self.work = rank.gpu_work
        self.found = np.full(len(self.work), NOTHING)
        self.source = np.full(len(self.work), _NONE, dtype=np.int8)
        self.pairs = [np.zeros((0, 2), dtype=np.int64)]

    def by_launch(self, rows: Int64Array, asked: Int64Array, how: int) -> None:
        """Assign work to the annotations of a thread that are open when its launch call starts."""
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
        """Assign work of unknown launch to the annotations that were recorded on its stream."""
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
