"""Small random jobs for a replay, and their times by brute force.

Everything is made in the order in which it happens, so that no circle can arise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hta_widgets.arrays import Float64Array, Int64Array
from hta_widgets.diagnosis.replay.host_work import HOST_WORK, NEITHER
from hta_widgets.diagnosis.replay.recorded_job import ALONE, RecordedJob, Weights
from hta_widgets.diagnosis.replay.waiting_calls import Wait
from hta_widgets.trace.model.kernels import KernelType

NONE = -1


@dataclass(frozen=True)
class Point:
    number: int
    rank: int
    own: float
    awaits: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True)
class Operation:
    stream: tuple[int, int]
    step: int
    number: int = NONE
    duration: float = 0
    launch: int = NONE
    latency: float = 0
    gap: float = 0
    after: tuple[tuple[int, float], ...] = ()
    is_finish: bool = False
    type: int = KernelType.COMPUTATION


@dataclass
class Draft:
    """A job while it is made."""

    rng: np.random.Generator
    ranks: int
    points: list[Point] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    members: list[tuple[int, int, int, float]] = field(default_factory=list)

    def number(self, least: int, most: int) -> int:
        return int(self.rng.integers(least, most + 1))

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def add_point(self, rank: int, awaits: tuple[tuple[int, float], ...] = ()) -> int:
        own = self.number(0, 30) if self.points_of(rank) else 0
        self.points.append(Point(len(self.points), rank, own, awaits))
        return self.points[-1].number

    def points_of(self, rank: int) -> list[Point]:
        return [each for each in self.points if each.rank == rank]

    def operations_of(self, rank: int) -> list[Operation]:
        return [each for each in self.operations if each.stream[0] == rank]

    def add_operation(self, operation: Operation) -> int:
        self.operations.append(replace(operation, number=len(self.operations)))
        return len(self.operations) - 1

    def launch(self, rank: int, step: int) -> None:
        point = self.add_point(rank)
        for _ in range(2 if self.chance(0.1) else 1):
            stream = (rank, self.number(0, 1))
            opens = all(each.stream != stream for each in self.operations)
            others = [each for each in self.operations_of(rank) if each.stream != stream]
            source = others[self.number(0, len(others) - 1)].number if others else NONE
            self.add_operation(
                Operation(
                    stream,
                    step,
                    duration=self.number(1, 40),
                    launch=point if opens or self.chance(0.85) else NONE,
                    latency=self.number(0, 20),
                    gap=self.number(0, 5),
                    after=((source, self.number(0, 5)),) if others and self.chance(0.2) else (),
                    type=self.number(0, 4),
                )
            )

    def wait(self, rank: int) -> None:
        own = self.operations_of(rank)
        chosen = self.rng.choice(len(own), min(len(own), self.number(1, 2)), replace=False)
        self.add_point(rank, tuple((own[at].number, self.number(-2, 5)) for at in chosen))

    def meet(self, ranks: Sequence[int], meeting: int, step: int) -> None:
        for rank in ranks:
            point, stream = self.add_point(rank), (rank, self.number(0, 1))
            kind = KernelType.COMMUNICATION
            latency = self.number(0, 20)
            arrival = self.add_operation(
                Operation(stream, step, launch=point, latency=latency, type=kind)
            )
            finish = self.add_operation(Operation(stream, step, is_finish=True, type=kind))
            self.members.append((arrival, finish, meeting, self.number(0, 20)))


def random_job(seed: int) -> RecordedJob:
    """A job of 1 to 3 ranks, with 3 to 25 launches each and up to 2 collectives."""
    rng = np.random.default_rng(seed)
    draft = Draft(rng, int(rng.integers(1, 4)))
    for rank in range(draft.ranks):
        draft.add_point(rank)
    collectives = draft.number(0, 2)
    for phase in range(collectives + 1):
        for rank in range(draft.ranks):
            for _ in range(draft.number(3, 8)):
                draft.launch(rank, phase)
                if draft.chance(0.25):
                    draft.wait(rank)
        if phase < collectives:
            draft.meet(range(draft.ranks), phase, phase)
    return recorded(draft, [draft.number(0, 100) for _ in range(draft.ranks)])


def recorded(draft: Draft, begins: Sequence[int]) -> RecordedJob:
    """The draft as what was recorded of it."""
    points = sorted(draft.points, key=lambda each: (each.rank, each.number))
    operations = sorted(draft.operations, key=lambda each: (each.stream, each.number))
    point_at = {each.number: place for place, each in enumerate(points)}
    at = {each.number: place for place, each in enumerate(operations)}
    at[NONE] = point_at[NONE] = NONE
    streams = sorted({each.stream for each in operations})
    after = [(at[each.number], at[one], delay) for each in operations for one, delay in each.after]
    waits = [(point_at[each.number], at[one], ns) for each in points for one, ns in each.awaits]
    last = {(each.step, each.stream): at[each.number] for each in operations}
    members = sorted((at[arrival], at[finish], *rest) for arrival, finish, *rest in draft.members)
    own = floats(each.own for each in points)
    kinds = draft.rng.integers(len(HOST_WORK), size=own.size)
    host_work = np.zeros((NEITHER + 1, own.size))
    share = draft.rng.random(own.size) * (draft.rng.random(own.size) < 0.3)
    host_work[kinds, np.arange(own.size)] = np.floor(own * share)
    host_points = np.flatnonzero(host_work.any(axis=0))
    opens: dict[tuple[int, int], int] = {}
    for each in operations:
        opens.setdefault(each.stream, at[each.number])
    weights = Weights(
        own=own,
        host_work=host_work[:, host_points],
        duration=floats(each.duration for each in operations),
        latency=floats(each.latency for each in operations),
        gap=floats(
            -np.inf if opens[each.stream] == at[each.number] else each.gap for each in operations
        ),
        delay=floats(delay for *_, delay in after),
        returning=floats(ns for *_, ns in waits),
        transfer=floats(ns for *_, ns in members),
        earliest=np.full(len({number for _, _, number, _ in members}), -np.inf),
    )
    job = RecordedJob(
        ranks=tuple(range(draft.ranks)),
        parts=(),
        weights=weights,
        line=integers(each.rank for each in points),
        point_rank=integers(each.rank for each in points),
        point_ns=floats(begins[each.rank] for each in points),
        host_points=host_points,
        ends_wait=np.array([bool(each.awaits) for each in points]),
        stream=integers(streams.index(each.stream) for each in operations),
        operation_rank=integers(each.stream[0] for each in operations),
        operation=np.arange(len(operations)),
        end_ns=np.zeros(len(operations)),
        type=np.array([each.type for each in operations], dtype=np.int8),
        step=integers(each.step for each in operations),
        waits_for_room=np.zeros(len(operations), dtype=np.bool_),
        in_graph=np.zeros(len(operations), dtype=np.bool_),
        launch=integers(point_at[each.launch] for each in operations),
        is_finish=np.array([each.is_finish for each in operations]),
        after=integers(one for one, _, _ in after),
        source=integers(one for _, one, _ in after),
        waiter=integers(one for one, _, _ in waits),
        awaited=integers(one for _, one, _ in waits),
        wait_kind=np.full(len(waits), Wait.STREAM, dtype=np.int8),
        waits_to_allocate=np.zeros(len(waits), dtype=np.bool_),
        drains=np.ones(len(waits), dtype=np.bool_),
        is_needed=np.zeros(len(waits), dtype=np.bool_),
        arrival=integers(one for one, *_ in members),
        finish=integers(one for _, one, *_ in members),
        meeting=integers(number for _, _, number, _ in members),
        series=np.full(len(members), ALONE if draft.ranks == 1 else 0),
        last=integers(last[key] for key in sorted(last)),
        last_step=integers(step for step, _ in sorted(last)),
        steps=tuple(sorted({step for step, _ in last})),
        first_ns=floats(begins),
    )
    point_ns, end_ns, _ = by_brute_force(job, job.weights)
    return replace(job, point_ns=point_ns, end_ns=end_ns)


def by_brute_force(
    job: RecordedJob, weights: Weights
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Times of points, ends of operations and meetings: the recurrences until nothing changes."""
    point = np.where(np.diff(job.line, prepend=NONE) != 0, job.point_ns, -np.inf)
    found = point, np.full(job.stream.size, -np.inf), weights.earliest.copy()
    while True:
        before = tuple(each.copy() for each in found)
        _once(job, weights, *found)
        if all(map(np.array_equal, before, found)):
            return found


def _once(
    job: RecordedJob, weights: Weights, point: Float64Array, end: Float64Array, met: Float64Array
) -> None:
    for at in np.flatnonzero(np.diff(job.line) == 0) + 1:
        point[at] = max(point[at], point[at - 1] + weights.own[at])
    for waiter, awaited, ns in zip(job.waiter, job.awaited, weights.returning, strict=True):
        point[waiter] = max(point[waiter], end[awaited] + ns)
    duration = weights.duration
    for at in range(end.size):
        if at and job.stream[at] == job.stream[at - 1]:
            end[at] = max(end[at], end[at - 1] + weights.gap[at] + duration[at])
        if job.launch[at] != NONE:
            end[at] = max(end[at], point[job.launch[at]] + weights.latency[at] + duration[at])
    for at, source, delay in zip(job.after, job.source, weights.delay, strict=True):
        end[at] = max(end[at], end[source] + delay + duration[at])
    for arrival, meeting in zip(job.arrival, job.meeting, strict=True):
        met[meeting] = max(met[meeting], end[arrival])
    for finish, meeting, ns in zip(job.finish, job.meeting, weights.transfer, strict=True):
        end[finish] = max(end[finish], met[meeting] + ns)


def floats(values: Iterable[float]) -> Float64Array:
    return np.array([*values], dtype=np.float64)


def integers(values: Iterable[int]) -> Int64Array:
    return np.array([*values], dtype=np.int64)
