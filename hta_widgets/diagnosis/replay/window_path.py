"""The critical path of what a mark covers on one rank, without waiting for other ranks.

It leads to the end of the mark on the host, or of the last operation launched in it, whichever is
later. The end of the mark is an extra operation of no length, on a stream of its own::

    host      |--- mark ------ launch ------------|
    stream                      `===== kernel =====|====|
    the end                                       |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from hta_widgets.analyses.clocks.alignment import Alignment
from hta_widgets.analyses.time.calls import Calls, calls_of
from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.diagnosis.replay.critical_path import CriticalPath
from hta_widgets.diagnosis.replay.meetings import Meetings
from hta_widgets.diagnosis.replay.operations import NONE
from hta_widgets.diagnosis.replay.rank_part import PackedPart, rank_part
from hta_widgets.diagnosis.replay.recorded_job import RecordedJob, recorded_job
from hta_widgets.diagnosis.replay.replay import Replay
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.rank import Rank


class Mark(NamedTuple):
    """A stretch of the recording, on the clock of its rank."""

    first: int
    last: int
    """Rows of the events that it starts and ends with."""
    start_ns: int
    end_ns: int
    on_gpu: bool = False
    """Whether it is on a GPU, and says nothing about launches."""


@dataclass(frozen=True, eq=False)
class WindowPath:
    """The critical path of what a mark covers."""

    mark: Mark
    path: CriticalPath
    is_sound: bool
    """Whether the replay reproduces the recorded times."""

    @property
    def job(self) -> RecordedJob:
        """The rank as a job of its own."""
        return self.path.job

    @property
    def end_of_mark(self) -> int:
        """The operation that stands for the end of the mark."""
        return int(self.job.stream.size - 1)

    @property
    def row(self) -> Int64Array:
        """Row of each operation; the mark's last event for the end of the mark."""
        row = self.job.parts[0].column("row")
        return np.append(row[self.job.operation[:-1]], self.mark.last)

    @property
    def point_row(self) -> Int64Array:
        """Row of the call at each point, -1 for an origin."""
        return self.job.parts[0].point_row


def window_path(rank: Rank, mark: Mark) -> WindowPath | None:
    """The critical path of what a mark covers; None if no GPU work takes part in it."""
    job = rank.remember(_alone)
    if job is None:
        return None
    members = _launched_in(rank, job, mark)
    point = NONE if mark.on_gpu else _last_point(rank, job, mark)
    if point == NONE and not members.any():
        return None
    replay = Replay(_with_end(job, mark, members, point))
    return WindowPath(mark, replay.critical_path(), replay.is_sound)


def _alone(rank: Rank) -> RecordedJob | None:
    """A rank as a job of its own, on its clock; None without operations."""
    part = PackedPart.of(rank_part(rank))
    if not part.has_operations:
        return None
    nothing = np.zeros(0, dtype=np.int64)
    clock = Alignment.of_offsets(np.zeros(1, dtype=np.int64))
    met = Meetings(nothing, nothing, nothing, nothing)
    number = rank.trace.rank
    return recorded_job({number: part}, {number: clock}, met, (NO_STEP,), (number,))


def _launched_in(rank: Rank, job: RecordedJob, mark: Mark) -> Mask:
    """Operations launched during the mark, or started in it if their launch is not recorded."""
    events, row = rank.trace.events, job.parts[0].column("row")[job.operation]
    launch = np.where(mark.on_gpu, NONE, rank.launches[row])
    asked_ns = events.start_ns[np.where(launch >= 0, launch, row)]
    return np.asarray((asked_ns >= mark.start_ns) & (asked_ns < mark.end_ns))


def thread_of_event(calls: Calls, row: int) -> int:
    """Number of the thread of any event on the host, call or not; -1 for none."""
    of = (int(calls.events.pid[row]), int(calls.events.tid[row]))
    found = [number for number, each in enumerate(calls.threads) if (each.pid, each.tid) == of]
    return found[0] if found else NONE


def _last_point(rank: Rank, job: RecordedJob, mark: Mark) -> int:
    """The last point before the end of the mark, on the line of its thread; -1 for none."""
    calls, part = calls_of(rank), job.parts[0]
    line = part.column("line")
    before, rows = np.flatnonzero(line.time_ns <= mark.end_ns), part.point_row
    thread = np.where(rows >= 0, calls.thread_of(calls.places_of(rows)), NONE)
    number = thread_of_event(calls, mark.last)
    own = np.isin(line.line, line.line[thread == number])[before]
    before = before[own] if number != NONE and own.any() else before
    return int(before[np.argmax(line.time_ns[before])]) if before.size else NONE


def _with_end(job: RecordedJob, mark: Mark, members: Mask, point: int) -> RecordedJob:
    """The job with the mark as its only step."""
    ends = np.flatnonzero(members)
    ends = ends[np.lexsort((job.end_ns[ends], job.stream[ends]))]
    ends = ends[np.diff(job.stream[ends], append=NONE) != 0]
    count = job.stream.size
    launch = max(point, 0)  # the end counts only if there is a point before it
    latency_ns = max(float(mark.end_ns - job.point_ns[launch]), 0.0)
    weights = job.weights.changed(
        duration=np.append(job.weights.duration, 0.0),
        latency=np.append(job.weights.latency, latency_ns),
        gap=np.append(job.weights.gap, 0.0),
    )
    last = ends if point == NONE else np.append(ends, count)
    return replace(
        job,
        weights=weights,
        stream=np.append(job.stream, job.stream.max() + 1),
        operation_rank=np.append(job.operation_rank, 0),
        operation=np.append(job.operation, NONE),
        end_ns=np.append(job.end_ns, job.point_ns[launch] + latency_ns),
        type=np.append(job.type, np.int8(KernelType.OTHER)),
        step=np.append(np.where(members, 0, NONE), 0),
        launch=np.append(job.launch, launch),
        waits_for_room=np.append(job.waits_for_room, [False]),
        in_graph=np.append(job.in_graph, [False]),
        is_finish=np.append(job.is_finish, [False]),
        last=last,
        last_step=np.zeros(last.size, dtype=np.int64),
        steps=(NO_STEP,),
        first_ns=np.array([float(mark.start_ns)]),
    )
