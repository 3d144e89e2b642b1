"""All ranks of a job as one set of points and operations on one clock, with their weights.

Three recurrences say when everything happens, given how long each takes::

    point        H[p] = H[p - 1] + own[p]
                 H[p] = max(H[p - 1] + own[p], E[awaited] + return)      the end of a waiting call
    operation    E[i] = duration[i] + max(E[i - 1] + gap[i],             its stream
                                          H[launch] + latency[i],        its launch
                                          E[source] + delay)             what it depends on
    meeting      M[c] = max of E over the arrivals of its members

A communication kernel that meets others is two operations: an arrival, which takes no time, and a
finish, ``E = max(E[arrival], M[c] + transfer)``. Without changes, this gives the recorded times: of
all that something waits for, the last gets the recorded time, and the others no more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.clocks.alignment import Alignment
from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.arrays import Float64Array, Int8Array, Int32Array, Int64Array, Mask
from hta_widgets.diagnosis.replay.meetings import Meetings
from hta_widgets.diagnosis.replay.operations import NONE
from hta_widgets.diagnosis.replay.rank_part import PackedPart
from hta_widgets.grouping import counted_up, grouped
from hta_widgets.trace.model.kernels import KernelType

SHORT_COPY_NS: Final = 20_000

ALONE: Final = -2
"""Series of communication whose partners are not recorded."""


@dataclass(frozen=True, eq=False)
class Weights:
    """How long everything takes (ns, float64), which is what a question changes."""

    own: Float64Array
    """Host time before each point."""
    host_work: Float64Array
    """Part of ``own`` in each class of `HOST_WORK` and in `NEITHER`; the rest is launching. Shape
    (classes + 1, `host_points`)."""
    duration: Float64Array
    """Duration of each operation; 0 for an arrival and a finish."""
    latency: Float64Array
    gap: Float64Array
    """Latency and gap before each operation, see `Starts`."""
    delay: Float64Array
    """Delay of each dependency."""
    returning: Float64Array
    """Time from the end of each awaited operation to the end of the wait; -inf if nothing waits."""
    transfer: Float64Array
    """Time of each member of a meeting from the last arrival to its end."""
    earliest: Float64Array
    """Time before which each meeting cannot happen; -inf if only its members decide."""

    def changed(self, **columns: Float64Array) -> Weights:
        """The same with other columns."""
        return replace(self, **columns)


@dataclass(frozen=True, eq=False)
class RecordedJob:
    """Points, operations and meetings of all ranks, as recorded."""

    ranks: tuple[int, ...]
    parts: tuple[PackedPart, ...]
    weights: Weights
    line: Int32Array
    """Line of each point, by number; lines of one rank follow each other."""
    point_rank: Int32Array
    """Position of the rank of each point."""
    point_ns: Float64Array
    """Recorded time of each point."""
    host_points: Int64Array
    """The few points before which the host does anything other than launching, ascending."""
    ends_wait: Mask
    """Whether each point is the end of a call that may wait."""
    stream: Int32Array
    """Stream of each operation, by number; operations of a stream follow each other."""
    operation_rank: Int32Array
    operation: Int32Array
    """Position of each operation's rank, and of the operation in the part of this rank."""
    end_ns: Float64Array
    """Recorded end of each operation; for an arrival, the start of its kernel."""
    type: Int8Array
    """Type of each operation, a value of `KernelType`."""
    step: Int32Array
    """Position in `steps` of the step that launched each operation, -1 for none of these."""
    waits_for_room: Mask
    in_graph: Mask
    """Whether each operation waits for room, and is in a graph; see `Starts`."""
    launch: Int32Array
    """Point that each operation starts after, -1 for none."""
    is_finish: Mask
    after: Int64Array
    source: Int64Array
    """Operation that waits, and operation it waits for, of each dependency."""
    waiter: Int64Array
    awaited: Int64Array
    """Point and operation of each wait."""
    wait_kind: Int8Array
    """Value of `Wait` for each wait."""
    waits_to_allocate: Mask
    """Whether the allocator is the reason for each wait."""
    drains: Mask
    """Whether work other than copies of the host runs when the call of each wait starts."""
    is_needed: Mask
    """Whether what follows each wait depends on it, or it ends before the analysed steps."""
    arrival: Int64Array
    finish: Int64Array
    meeting: Int64Array
    """Operations of each member, and number of its meeting."""
    series: Int64Array
    """Series of each member, see `Meetings`; `ALONE` without a recorded partner."""
    last: Int64Array
    last_step: Int64Array
    """Operations that a step may end with, and the position of this step in `steps`."""
    steps: tuple[int, ...]
    """Numbers of the steps that all ranks have."""
    first_ns: Float64Array
    """Start of the first step of each rank; infinite for ranks whose steps do not count."""

    @cached_property
    def origins(self) -> Int64Array:
        """Points that start a line."""
        return np.flatnonzero(np.diff(self.line, prepend=NONE))

    @property
    def meetings(self) -> int:
        """Number of meetings."""
        return int(self.weights.earliest.size)

    @cached_property
    def is_alone(self) -> Mask:
        """Whether the partners of each member are not recorded."""
        return np.asarray(self.series == ALONE)

    @property
    def member_kernels(self) -> list[tuple[int, int]]:
        """Rank and row of the kernel of each member."""
        place = self.operation_rank[self.arrival]
        rows = self.of_parts("row")
        found = zip(place.tolist(), self.operation[self.arrival].tolist(), strict=True)
        return [(self.ranks[at], int(rows[at][each])) for at, each in found]

    def of_parts(self, name: str) -> list[NDArray[Any]]:
        """A column of the part of each rank."""
        return [part.column(name) for part in self.parts]

    @cached_property
    def recorded_duration(self) -> Float64Array:
        """Recorded duration of each operation; for a finish, the duration of its kernel."""
        found = self.weights.duration.copy()
        found[self.finish] = self.end_ns[self.finish] - self.end_ns[self.arrival]
        return found

    @cached_property
    def is_computing(self) -> Mask:
        """Kernels that compute, and graphs, which may."""
        return np.isin(self.type, (KernelType.COMPUTATION, KernelType.CUDA_GRAPH))

    @cached_property
    def alike(self) -> list[Int64Array]:
        """Computing kernels of the steps: a matrix for each number of ranks that run them.

        A row holds the n-th kernel of one name in one step, on each of these ranks.
        """
        _, code = self.names
        chosen = np.flatnonzero(self.is_computing & (self.step >= 0))
        step, name = self.step[chosen], code[chosen]
        of_rank = grouped(self.operation_rank[chosen], step, name)
        ordinal = np.empty(chosen.size, dtype=np.int64)
        ordinal[of_rank.order] = counted_up(np.zeros_like(of_rank.sizes), of_rank.sizes)
        found = grouped(step, name, ordinal)
        first, sizes, of_rows = found.edges[:-1], found.sizes, chosen[found.order]
        return [
            of_rows[first[sizes == size][:, np.newaxis] + np.arange(size)]
            for size in np.unique(sizes).tolist()
        ]

    @cached_property
    def is_host_copy(self) -> Mask:
        """Copies between host and device in the steps that are too long for single numbers."""
        names, code = self.names
        of_host = (patterns.HOST_TO_DEVICE, patterns.DEVICE_TO_HOST)
        fits = [any(pattern.search(name) for pattern in of_host) for name in names]
        chosen = np.array([*fits, False], dtype=np.bool_)[code] & (self.type == KernelType.MEMORY)
        return np.asarray(chosen & (self.weights.duration > SHORT_COPY_NS) & (self.step >= 0))

    @cached_property
    def names(self) -> tuple[tuple[str, ...], Int32Array]:
        """Names of all operations, and the position among these of each operation's name."""
        known: dict[str, int] = {}
        codes = [
            np.array(
                [known.setdefault(name, len(known)) for name in part.part.names], dtype=np.int32
            )
            for part in self.parts
        ]
        found = np.empty(self.stream.size, dtype=np.int32)
        for place, (name, code) in enumerate(zip(self.of_parts("name"), codes, strict=True)):
            own = np.flatnonzero(self.operation_rank == place)
            found[own] = code[name[self.operation[own]]]
        return tuple(known), found


def recorded_job(
    parts: Mapping[int, PackedPart],
    clocks: Mapping[int, Alignment],
    met: Meetings,
    steps: Sequence[int],
    ranks: Collection[int],
) -> RecordedJob:
    """Put the parts of all ranks on one clock.

    The alignment of each rank holds its clock only. `NO_STEP` alone counts everything analysed as
    one step. Only steps of ``ranks`` count; the other ranks are waited for.
    """
    return _Joining(parts, clocks, met, steps, ranks).joined()


class _Joining:
    def __init__(
        self,
        parts: Mapping[int, PackedPart],
        clocks: Mapping[int, Alignment],
        met: Meetings,
        steps: Sequence[int],
        ranks: Collection[int],
    ) -> None:
        self.ranks, self.parts = tuple(parts), tuple(parts.values())
        self.clocks = [clocks[rank] for rank in self.ranks]
        self.met, self.steps = met, tuple(steps)
        self.counts = [rank in ranks for rank in self.ranks]
        self.point_base = _bases([each.size for each in self._columns("line.time_ns")])
        self.part_base = _bases([each.size for each in self._columns("row")])
        self.doubled, self.number = self._members()
        total = int(self.part_base[-1])
        extra = np.zeros(total, dtype=np.int64)
        extra[self.doubled] = 1
        self.copies = 1 + extra
        self.at = np.cumsum(self.copies) - self.copies
        """Position of each operation of the parts; for one that meets, of its arrival."""
        self.end_at = self.at + extra
        """Position of its end: the operation itself, or its finish."""

    def _members(self) -> tuple[Int64Array, Int64Array]:
        """Operations (of all parts) that meet, and the number of their meeting.

        Communication without a recorded partner meets no others, but is a member too.
        """
        found, numbers, series = [], [], []
        count = int(self.met.number.max(initial=-1)) + 1
        for rank, part, base in zip(self.ranks, self.parts, self.part_base.tolist(), strict=False):
            own, row = np.flatnonzero(self.met.rank == rank), part.column("row")
            order = np.argsort(row, kind="stable")
            at = np.minimum(np.searchsorted(row[order], self.met.row[own]), row.size - 1)
            known = row[order[at]] == self.met.row[own] if row.size else own < 0
            members = order[at[known]]
            communicates = part.column("type") == KernelType.COMMUNICATION
            alone = np.setdiff1d(np.flatnonzero(communicates), members)
            found += [members + base, alone + base]
            numbers += [self.met.number[own[known]], count + np.arange(alone.size)]
            series += [self.met.series[own[known]], np.full(alone.size, ALONE)]
            count += alone.size
        doubled, number = np.concatenate(found), np.concatenate(numbers)
        order = np.argsort(doubled, kind="stable")
        number = np.unique(number, return_inverse=True)[1]
        self.series = np.concatenate(series)[order]
        return doubled[order], number[order].astype(np.int64)

    def joined(self) -> RecordedJob:
        """Everything on the common clock."""
        parts, columns, in_whole = self.parts, self._columns, self._in_whole
        of_operations, numbers = self._of_operations, self._numbers
        start, end = (self._common(columns(each)) for each in ("start_ns", "end_ns"))
        arrival, finish = self.at[self.doubled], self.end_at[self.doubled]
        end_ns = np.repeat(end, self.copies)
        end_ns[arrival] = start[self.doubled]
        is_finish = np.zeros(end_ns.size, dtype=np.bool_)
        is_finish[finish] = True
        launch = numbers(_shifted(columns("starts.point"), self.point_base))
        launch[finish] = NONE
        streams = _bases([int(each.max(initial=-1)) + 1 for each in columns("stream")])
        lines = _bases([int(each.max()) + 1 for each in columns("line.line")])
        sizes = np.diff(self.part_base).tolist()
        wait_of = in_whole("waits.of", self._wait_bases)
        last, last_step = self._lasts()
        host_work = self._scaled("host_work")
        host_points = np.flatnonzero(host_work.any(axis=0))
        return RecordedJob(
            ranks=self.ranks,
            parts=parts,
            weights=self._weights(start, end, host_work[:, host_points]),
            # points of the host
            line=in_whole("line.line", lines).astype(np.int32),
            point_rank=np.repeat(np.arange(len(parts), dtype=np.int32), np.diff(self.point_base)),
            point_ns=self._common(columns("line.time_ns")),
            host_points=host_points,
            ends_wait=np.concatenate(columns("line.wait")) >= 0,
            # operations of the GPU
            stream=numbers(_shifted(columns("stream"), streams)),
            operation_rank=numbers([np.full(each, at) for at, each in enumerate(sizes)]),
            operation=numbers([np.arange(each) for each in sizes]),
            end_ns=end_ns,
            type=of_operations(columns("type")),
            step=numbers([self._positions(part)[part.column("step")] for part in parts]),
            waits_for_room=of_operations(columns("starts.waits_for_room")),
            in_graph=of_operations(columns("starts.in_graph")),
            launch=launch,
            is_finish=is_finish,
            # dependencies
            after=self.at[in_whole("starts.after", self.part_base)],
            source=self.end_at[in_whole("starts.source", self.part_base)],
            # waits
            waiter=self._waiters()[wait_of],
            awaited=self.end_at[in_whole("waits.operation", self.part_base)],
            wait_kind=np.concatenate(columns("waits.kind"))[wait_of],
            waits_to_allocate=np.concatenate(columns("waits.to_allocate"))[wait_of],
            drains=np.concatenate(columns("waits.drains"))[wait_of],
            is_needed=np.concatenate(columns("waits.is_needed"))[wait_of],
            # members of meetings
            arrival=arrival,
            finish=finish,
            meeting=self.number,
            series=self.series,
            # ends of steps
            last=last,
            last_step=last_step,
            steps=self.steps,
            first_ns=np.where(
                self.counts,
                self._common([np.array([each.part.first_ns]) for each in parts]),
                np.inf,
            ),
        )

    def _weights(self, start: Float64Array, end: Float64Array, host_work: Float64Array) -> Weights:
        """How long everything takes, given when the operations of the parts start and end.

        A kernel that meets others takes no time itself: its meeting has a transfer.
        """
        duration = np.repeat(end - start, self.copies)
        gap = np.repeat(self._scaled("starts.gap_ns"), self.copies)
        arrival, finish = self.at[self.doubled], self.end_at[self.doubled]
        duration[arrival] = duration[finish] = gap[finish] = 0
        last_arrival = np.full(int(self.number.max(initial=-1)) + 1, -np.inf)
        np.maximum.at(last_arrival, self.number, start[self.doubled])
        return Weights(
            own=self._scaled("line.own_ns"),
            host_work=host_work,
            duration=duration,
            latency=np.repeat(self._scaled("starts.latency_ns"), self.copies),
            gap=gap,
            delay=self._scaled("starts.delay_ns"),
            returning=self._scaled("waits.return_ns"),
            transfer=end[self.doubled] - last_arrival[self.number],
            earliest=np.full(last_arrival.size, -np.inf),
        )

    def _scaled(self, path: str) -> Float64Array:
        """Lengths of all parts, by the common clock, from which those of the ranks drift."""
        scale = [1 + float(clock.drift[0]) for clock in self.clocks]
        pairs = zip(self._columns(path), scale, strict=True)
        pieces = [each if by == 1 else each * by for each, by in pairs]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=-1)

    def _in_whole(self, path: str, bases: Int64Array) -> Int64Array:
        """Positions in the parts as positions in the whole."""
        return np.concatenate(_shifted(self._columns(path), bases))

    def _of_operations(self, pieces: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Values for all operations from those of the parts; twice for one that meets others."""
        return np.repeat(np.concatenate(pieces), self.copies)

    def _numbers(self, pieces: Sequence[NDArray[Any]]) -> Int32Array:
        return self._of_operations([each.astype(np.int32) for each in pieces])

    def _columns(self, name: str) -> list[NDArray[Any]]:
        return [part.column(name) for part in self.parts]

    def _common(self, times: Sequence[Int64Array]) -> Float64Array:
        """Times of each part on the common clock, not rounded, so that lengths keep proportion."""
        found = []
        for own, clock in zip(times, self.clocks, strict=True):
            moved = own + clock.offset_ns[0]
            found.append(moved + (moved - clock.pivot_ns[0]) * clock.drift[0])
        return np.concatenate(found).astype(np.float64)

    @property
    def _wait_bases(self) -> Int64Array:
        return _bases([each.size for each in self._columns("waits.row")])

    def _waiters(self) -> Int64Array:
        """Point of each waiting call."""
        found = np.zeros(int(self._wait_bases[-1]), dtype=np.int64)
        waits = self._columns("line.wait")
        for wait, first, base in zip(waits, self.point_base, self._wait_bases, strict=False):
            ends = np.flatnonzero(wait >= 0)
            found[base + wait[ends]] = first + ends
        return found

    def _positions(self, part: PackedPart) -> Int64Array:
        """Position in `steps` of each step of a part; -1 for other steps, and for no step."""
        numbers = part.column("steps")
        if NO_STEP in self.steps:
            return np.append(np.zeros(numbers.size, dtype=np.int64), NONE)
        of = {number: place for place, number in enumerate(self.steps)}
        return np.array([*(of.get(number, NONE) for number in numbers.tolist()), NONE])

    def _lasts(self) -> tuple[Int64Array, Int64Array]:
        """Operations that each of `steps` may end with."""
        found, steps = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        for part, base, counts in zip(
            self.parts, self.part_base.tolist(), self.counts, strict=False
        ):
            if not counts:
                continue
            of_last = self._positions(part)[part.column("last_of")]
            found.append(self.end_at[part.column("last")[of_last != NONE] + base])
            steps.append(of_last[of_last != NONE])
        last, step = np.concatenate(found), np.concatenate(steps)
        order = np.argsort(step, kind="stable")
        return last[order], step[order]


def _bases(sizes: Sequence[int]) -> Int64Array:
    return np.concatenate(([0], np.cumsum(np.array(sizes, dtype=np.int64))))


def _shifted(pieces: Sequence[Int64Array], bases: Int64Array) -> list[Int64Array]:
    """Positions in each part as positions in the whole; -1 stays -1."""
    return [
        np.where(each == NONE, NONE, each + base)
        for each, base in zip(pieces, bases.tolist(), strict=False)
    ]
