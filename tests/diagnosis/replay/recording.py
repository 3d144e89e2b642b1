"""What the replay's brute force reads of a job: calls and operations as plain objects.

The product's loaders, clocks and matches of collectives are the input; nothing else of it is used.
All times are whole ns on the job's aligned clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hta_widgets.analyses.clocks.aligned import job_clocks
from hta_widgets.analyses.clocks.alignment import CONTRADICTORY
from hta_widgets.analyses.time.window import NO_STEP, window_of
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.model.events import LAUNCH_CALLS, Kind
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.rank import Rank


@dataclass(frozen=True, eq=False)
class Call:
    """A call of the CUDA or HIP runtime or driver."""

    rank: int
    row: int
    name: str
    start: int
    end: int
    thread: tuple[int, int]
    is_driver: bool
    correlation: int

    @property
    def duration(self) -> int:
        return self.end - self.start

    def around(self, other: Call) -> bool:
        """Whether the other call lies in this one, in the same thread."""
        return self.thread == other.thread and self.start <= other.start and other.end <= self.end


@dataclass(frozen=True, eq=False)
class Operation:
    """One GPU operation; `launch` is the call that launches it, if that is recorded."""

    rank: int
    row: int
    name: str
    type: KernelType
    stream: tuple[int, int]
    start: int
    end: int
    launch: Call | None

    @property
    def duration(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class SyncRow:
    """A row of ``cuda_sync``: the call that it belongs to, and what that waits for."""

    name: str
    call: Call
    stream: tuple[int, int]
    wait_on_stream: tuple[int, int]
    recorded_by: Call | None
    """The call that recorded the event that is waited for."""


@dataclass(frozen=True)
class RankRecording:
    """One rank; operations by (device, stream, start), calls by start."""

    rank: int
    calls: list[Call]
    operations: list[Operation]
    syncs: list[SyncRow]
    resolution_ns: int
    first_mark: int | None
    """Start of the first analysed ProfilerStep."""

    edges: dict[int, tuple[int, int]]
    """Start and end of each analysed step by its number, -1 for the whole without marks."""

    device: int

    @cached_property
    def launched_at(self) -> dict[Operation, float]:
        """When each operation was launched; where that is not recorded, with the one before it."""
        found: dict[Operation, float] = {}
        last: dict[tuple[int, int], float] = {}
        for each in self.operations:
            before = last.get(each.stream, -math.inf)
            found[each] = last[each.stream] = before if each.launch is None else each.launch.start
        return found


@dataclass(frozen=True)
class JobRecording:
    ranks: dict[int, RankRecording]
    collectives: list[list[tuple[int, int]]]
    """(rank, row) of the members of each collective that the product matches and that meets."""

    contradictory: set[int] = field(default_factory=set)
    """Ranks whose clock states contradict each other."""


def read(job: Job, ranks: Iterable[int] | None = None) -> JobRecording:
    """Read some ranks of a job, those without GPU work left out."""
    clocks = job_clocks(job)
    chosen = [rank for rank in job.ranks if ranks is None or rank in {*ranks}]

    def aligned(rank, times):
        if len(job.ranks) == 1:
            return [int(time) for time in times]
        places = np.full(len(times), job.ranks.index(rank), dtype=np.int64)
        return clocks.alignment.aligned(np.array(times, dtype=np.int64), places).tolist()

    recorded = {
        rank: _read_rank(job.rank(rank), rank, aligned)
        for rank in chosen
        if len(job.rank(rank).gpu_work)
    }
    matches = clocks.matches
    collectives = []
    for number in range(len(matches)):
        if matches.meets[number]:
            members = matches.rows[matches.edges[number] : matches.edges[number + 1]]
            keys = [
                (job.ranks[matches.kernels.place[each]], int(matches.kernels.row[each]))
                for each in members.tolist()
            ]
            collectives.append([key for key in keys if key[0] in recorded])
    states = zip(clocks.ranks, clocks.states, strict=True)
    return JobRecording(
        recorded, collectives, {rank for rank, state in states if state == CONTRADICTORY}
    )


def _read_rank(rank: Rank, number: int, aligned) -> RankRecording:
    events = rank.trace.events
    names = events.name.values
    starts = aligned(number, events.start_ns.tolist())
    ends = aligned(number, events.end_ns.tolist())

    def call(row):
        return Call(
            rank=number,
            row=row,
            name=names[events.name.codes[row]],
            start=starts[row],
            end=ends[row],
            thread=(int(events.pid[row]), int(events.tid[row])),
            is_driver=events.kind[row] == Kind.DRIVER,
            correlation=int(events.correlation[row]),
        )

    calls = {row: call(row) for row in events.rows_of(*LAUNCH_CALLS).tolist()}
    work = rank.gpu_work
    operations = [
        Operation(
            rank=number,
            row=row,
            name=names[events.name.codes[row]],
            type=KernelType(kind),
            stream=(int(events.device[row]), int(events.stream[row])),
            start=starts[row],
            end=ends[row],
            launch=calls.get(launch),
        )
        for row, kind, launch in zip(
            work.rows.tolist(), work.type.tolist(), work.launch.tolist(), strict=True
        )
    ]
    operations.sort(key=lambda each: (each.stream, each.start, each.row))
    window, device = window_of(rank), rank.gpu_work.main_device
    edges = aligned(number, window.step_edges(rank, device).tolist())
    steps = window.steps.tolist()
    return RankRecording(
        rank=number,
        calls=[*calls.values()],
        operations=operations,
        syncs=_sync_rows(rank, calls),
        resolution_ns=rank.trace.resolution_ns,
        first_mark=None if steps == [NO_STEP] else aligned(number, [window.start_ns])[0],
        edges={step: (edges[at], edges[at + 1]) for at, step in enumerate(steps)},
        device=device,
    )


def _sync_rows(rank: Rank, calls: dict[int, Call]) -> list[SyncRow]:
    events = rank.trace.events
    rows = events.rows_of(Kind.SYNC).tolist()
    if not rows:
        return []
    table = rank.details(DetailGroup.SYNCHRONISATION).table
    at = {row: place for place, row in enumerate(table.rows.tolist())}

    def detail(name, row):
        column = table.columns.get(name)
        return int(column[at[row]]) if column is not None and row in at else -1

    by_correlation: dict[int, Call] = {}
    for each in sorted(calls.values(), key=lambda each: (each.start, -each.end)):
        by_correlation.setdefault(each.correlation, each)
    found = []
    for row in rows:
        waiting = calls.get(int(rank.launches[row]))
        if waiting is None:
            continue
        device = int(events.device[row])
        recorded_by = detail("wait_on_cuda_event_record_corr_id", row)
        found.append(
            SyncRow(
                name=events.name.values[events.name.codes[row]],
                call=waiting,
                stream=(device, int(events.stream[row])),
                wait_on_stream=(device, detail("wait_on_stream", row)),
                recorded_by=by_correlation.get(recorded_by) if recorded_by >= 0 else None,
            )
        )
    return found
