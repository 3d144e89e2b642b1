"""The lanes of a rank's GPU: the budget of its steps, its phases, and its streams."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.budget.classes import CLASS_OF
from hta_widgets.analyses.budget.device_steps import GAPS, DeviceSteps, device_steps
from hta_widgets.analyses.communication.partition import PARTS, RankSplit, waiting_until
from hta_widgets.analyses.communication.recorded import owned_by_first
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.modules import PHASES, phases
from hta_widgets.analyses.time.window import lead_in_end
from hta_widgets.analyses.timeline.classes import CODE, HIDDEN, LEAD_IN, PHASE_CLASSES
from hta_widgets.analyses.timeline.tracks import NO_ROW, Segments
from hta_widgets.arrays import Int8Array, Int64Array
from hta_widgets.grouping import opens_run
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

COMPUTES: Final = (KernelType.COMPUTATION, KernelType.OTHER, KernelType.CUDA_GRAPH)
"""Types of work whose phase and module are shown."""


def budget_segments(rank: Rank, split: RankSplit, lane: int) -> list[Segments]:
    """What the device of the budget does, and why it is idle; empty without GPU work.

    Between the edges of the steps, every instant has one class, so that the classes of a step add
    up to its budget. Outside the steps, only what the device does is known, and how long it runs
    work launched before the recording. Idle time has the row of the CPU call that it belongs to.
    """
    steps = device_steps(rank, split)
    if steps is None:
        return []
    before = Intervals.union([], [])
    parts = []
    for name, cover in zip(PARTS[:-1], steps.busy.covers, strict=True):
        code = CODE[CLASS_OF[name]]
        parts.append(Segments.covering(lane, code, cover - before))
        before = cover
    codes = np.array([CODE[CLASS_OF[name]] for name in GAPS], dtype=np.int8)
    idle = steps.gaps.segments
    rows = np.append(calls_of(rank).forest.rows, np.int32(NO_ROW))[idle.owner]
    code_of_idle = codes[steps.gaps.kind]
    parts.append(Segments.of(lane, code_of_idle, idle.start_ns, idle.end_ns, rows))
    parts.append(Segments.covering(lane, CODE[HIDDEN], _hidden(steps)))
    free_ns = lead_in_end(rank, steps.device)
    if free_ns is not None:
        lead_in = Intervals.union([min(steps.window.start_ns, free_ns)], [free_ns])
        parts.append(Segments.covering(lane, CODE[LEAD_IN], lead_in - before))
    return parts


def _hidden(steps: DeviceSteps) -> Intervals:
    """Communication while the device computes or copies."""
    work = steps.work
    chosen = np.flatnonzero(work.type == KernelType.COMMUNICATION)
    communicates = Intervals.union(work.start_ns[chosen], work.end_ns[chosen])
    return communicates & steps.busy.covers[PARTS.index("memory")]


def streams_of(rank: Rank) -> list[tuple[int, int]]:
    """Device and stream of all GPU work, ascending."""
    pairs: set[tuple[int, int]] = set()
    for device in rank.gpu_work.devices:
        work = rank.all_work(device)
        pairs |= {(device, stream) for stream in np.unique(work.stream).tolist()}
    return sorted(pairs)


def stream_segments(rank: Rank, split: RankSplit, first_lane: int) -> list[Segments]:
    """All work of each stream in a lane of its own, in the order of `streams_of`.

    Communication is divided into waiting and transfer. If work of one stream overlaps,
    as inside CUDA graphs, each instant belongs to what started first.
    """
    lane = {pair: first_lane + place for place, pair in enumerate(streams_of(rank))}
    parts = []
    for device in rank.gpu_work.devices:
        work = rank.all_work(device)
        for places in work.streams.parts:
            of_stream = work.take(places)
            pair = device, int(of_stream.stream[0])
            parts += _of_stream(of_stream, split, lane[pair])
    return parts


def _of_stream(work: GpuWork, split: RankSplit, lane: int) -> list[Segments]:
    start, end = owned_by_first(work.start_ns, work.end_ns)
    code = np.full(len(work), CODE["compute"], dtype=np.int8)
    code[work.type == KernelType.MEMORY] = CODE["copies"]
    communicates = np.flatnonzero(work.type == KernelType.COMMUNICATION)
    until, is_split, _ = waiting_until(work.rows[communicates], work.start_ns[communicates], split)
    code[communicates] = np.where(is_split, CODE["transfer"], CODE["communication"])
    begun = start.copy()
    begun[communicates] = np.clip(until, start[communicates], end[communicates])
    waits = communicates[begun[communicates] > start[communicates]]
    return [
        Segments.of(lane, code, begun, end, work.rows),
        Segments.of(lane, CODE["waiting"], start[waits], begun[waits], work.rows[waits]),
    ]


def phase_segments(rank: Rank, steps: DeviceSteps, lane: int) -> Segments:
    """Runs of computing kernels of one phase, from the start of the first to the end of the last.

    A kernel has the phase of the call that launched it.
    """
    work = steps.work
    chosen = np.flatnonzero(np.isin(work.type, COMPUTES) & (work.launch >= 0))
    phase = phases(rank)[calls_of(rank).places_of(work.launch[chosen])]
    known = phase < len(PHASE_CLASSES)
    chosen, phase = chosen[known], phase[known]
    runs = runs_of(work.start_ns[chosen], work.end_ns[chosen], phase)
    codes: Int8Array = np.array([CODE[PHASES[each]] for each in range(len(PHASE_CLASSES))])
    return Segments.of(lane, codes[phase[runs.first]], runs.start_ns, runs.end_ns)


class Runs(NamedTuple):
    """Runs of neighbours with equal properties, in order of start."""

    first: Int64Array
    """Position of the first member of each run."""
    start_ns: Times
    """Start of the first member."""
    end_ns: Times
    """End of the last member, or the start of the next run if that is earlier."""


def runs_of(start_ns: Times, end_ns: Times, *properties: NDArray[Any]) -> Runs:
    """Merge neighbours whose properties are equal.

    Examples
    --------
    >>> runs_of(np.array([0, 4, 8]), np.array([3, 9, 11]), np.array([5, 5, 6])).end_ns.tolist()
    [8, 11]
    """
    if not start_ns.size:
        return Runs(start_ns, start_ns, end_ns)
    first = np.flatnonzero(opens_run(*properties))
    begun_ns = start_ns[first]
    ended_ns = np.maximum.reduceat(end_ns, first)
    ended_ns[:-1] = np.minimum(ended_ns[:-1], begun_ns[1:])
    return Runs(first, begun_ns, np.maximum(ended_ns, begun_ns))
