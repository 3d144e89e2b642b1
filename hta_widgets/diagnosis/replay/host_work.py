"""What the host does between two points of its line, where that has a cause of its own.

The time of each such interval that is not waiting is divided. Each instant belongs to the first
class of `HOST_WORK` that covers it; the rest is launching and all else that the program does.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hta_widgets.analyses.budget.device_steps import (
    GAP,
    HostGaps,
    first_batches,
    first_uses,
    host_gaps,
    loading_calls,
)
from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.calls import Calls, calls_of
from hta_widgets.analyses.time.window import NO_STEP, Window, window_of
from hta_widgets.arrays import Float64Array, Int64Array, Mask
from hta_widgets.diagnosis.replay.host_line import HostLine
from hta_widgets.diagnosis.replay.operations import Operations
from hta_widgets.grouping import distinct
from hta_widgets.intervals import Intervals
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.kernels import KernelType

HOST_WORK: Final = (
    *("profiler", "loading", "allocating", "initialising", "compiling"),
    *("scheduling", "stalling"),
)
"""What a host does other than launching."""

NEITHER: Final = len(HOST_WORK)
"""Row of what is not launching either: time before the analysed steps, none of which is known to be
needed, and the rest of an interval with a pause, in which the GPU may be busy at first."""

STRETCH_NS: Final = 1_000_000
"""A longer interval with a pause in it is compared with the same interval of other steps."""


def host_work(
    operations: Operations, line: HostLine, edges: Int64Array, gaps: HostGaps | None
) -> Float64Array:
    """Time (ns) of each class of `HOST_WORK`, and of `NEITHER`, before each point.

    Shape (classes + 1, points); the sum over classes is at most ``line.own_ns``. `edges` are the
    boundaries of the steps on the main device, and `gaps` its idle time between them, if already
    known.
    """
    rank = operations.rank
    found = np.zeros((NEITHER + 1, line.time_ns.size))
    device = rank.gpu_work.main_device
    if device is None or not operations.is_launched.any():
        return found
    window = window_of(rank)
    first_ns = int(edges[0]) if NO_STEP in window.steps else min(window.start_ns, int(edges[0]))
    gaps = gaps or host_gaps(rank, device, int(edges[0]), int(edges[-1]))
    own_ns = np.floor(line.own_ns).astype(np.int64)
    until_ns = np.roll(line.time_ns, 1) + own_ns
    until_ns[line.is_origin] = line.time_ns[line.is_origin]
    from_ns = until_ns - own_ns
    found[NEITHER] = np.clip(first_ns - from_ns, 0, own_ns)
    covered, pausing = Intervals.union([], []), _idle(gaps, "gap_step") | _pausing(gaps)
    for place, intervals in enumerate(_intervals(operations, gaps)):
        grown = covered | intervals.clip(first_ns, int(edges[-1]))
        both = grown.covered_until(until_ns) - grown.covered_until(from_ns)
        before = covered.covered_until(until_ns) - covered.covered_until(from_ns)
        found[place] = both - before
        covered = grown
    found[HOST_WORK.index("stalling")] += _unusual(window, line, found)
    behind = _communicating(operations) - covered
    hidden = behind.covered_until(until_ns) - behind.covered_until(from_ns)
    hidden = np.minimum(hidden, own_ns - found.sum(axis=0)) * (hidden > STRETCH_NS)
    found[HOST_WORK.index("stalling")] += np.maximum(hidden, 0)
    paused = pausing.covered_until(until_ns) > pausing.covered_until(from_ns)
    paused |= hidden > 0
    found[NEITHER] += paused * np.maximum(own_ns - found.sum(axis=0), 0)
    return found


def _intervals(operations: Operations, gaps: HostGaps) -> list[Intervals]:
    """Time of each class of `HOST_WORK`, on the threads that launch work."""
    calls = calls_of(operations.rank)
    launching = distinct(operations.call[operations.is_launched])
    numbers = distinct(calls.thread_of(calls.places_of(launching))).tolist()
    on_line = np.zeros(calls.kind.size, dtype=np.bool_)
    for number in numbers:
        on_line[calls.threads[number].first : calls.threads[number].last] = True

    def inside(chosen: Mask) -> Intervals:
        places = np.flatnonzero(chosen & on_line)
        rows = calls.forest.rows[places]
        start = calls.events.start_ns[rows]
        return Intervals.union(start, start + calls.events.duration_ns[rows])

    of_device = calls.is_launch_call
    first, workers_start = first_uses(operations.rank), first_batches(operations.rank)
    return [
        _profiler(calls, numbers) | _idle(gaps, "gap_profiler"),
        inside(loading_calls(operations.rank)) | _idle(gaps, "gap_loader"),
        inside(calls.named(patterns.ALLOCATING.search) & of_device & ~first),
        inside(calls.named(patterns.INITIALISING.search) & of_device | workers_start)
        | _idle(gaps, "gap_init"),
        inside(calls.named(patterns.COMPILING.search)),
        _idle(gaps, "gap_step"),
        _pausing(gaps),
    ]


def _idle(gaps: HostGaps, name: str) -> Intervals:
    """Idle time of a kind, such as ``gap_step``, in which a server prepares its next step."""
    segments = gaps.of_kind(name)
    return Intervals.union(segments.start_ns, segments.end_ns)


def _pausing(gaps: HostGaps) -> Intervals:
    """Idle time in which the host launches nothing for long, whether or not it is known why."""
    chosen = (gaps.kind == GAP["gap_pause"]) | gaps.unattributed
    segments = gaps.segments.take(np.flatnonzero(chosen))
    return Intervals.union(segments.start_ns, segments.end_ns)


def _communicating(operations: Operations) -> Intervals:
    """Time in which a GPU only communicates, which can hide a pause of its host.

    Eight hosts that paused for 450 of 600 ms each looked launch-bound: except on the last rank to
    arrive, the GPUs were never idle meanwhile.
    """
    meets = operations.type == KernelType.COMMUNICATION
    others = Intervals.union(operations.start_ns[~meets], operations.end_ns[~meets])
    return Intervals.union(operations.start_ns[meets], operations.end_ns[meets]) - others


def _profiler(calls: Calls, numbers: list[int]) -> Intervals:
    """Overhead of the profiler, also on threads that make no calls, which holds up all threads."""
    events = calls.events
    rows = events.rows_of(Kind.OVERHEAD)
    names = events.name.values
    codes = set(events.name.codes[rows].tolist())
    own = [code for code in codes if not patterns.LOADS_CODE.search(names[code])]
    rows = rows[np.isin(events.name.codes[rows], own)]
    others = {(each.pid, each.tid) for each in calls.threads}
    others -= {(calls.threads[number].pid, calls.threads[number].tid) for number in numbers}
    ids = zip(events.pid[rows].tolist(), events.tid[rows].tolist(), strict=True)
    rows = rows[np.array([each not in others for each in ids], dtype=np.bool_)]
    return Intervals.union(events.start_ns[rows], events.start_ns[rows] + events.duration_ns[rows])


def _unusual(marks: Window, line: HostLine, found: Float64Array) -> Float64Array:
    """How much longer a long interval with a pause takes than the same one in other steps."""
    more = np.zeros(line.time_ns.size)
    if marks.steps.size < 2:  # noqa: PLR2004
        return more
    step = np.searchsorted(marks.step_start_ns, line.time_ns, side="right") - 1
    bounds = np.flatnonzero(np.diff(step, prepend=-1) | np.diff(line.line, prepend=-1))
    sizes = np.diff(np.append(bounds, step.size))
    ordinal = np.arange(step.size) - np.repeat(bounds, sizes)
    pauses = found[HOST_WORK.index("stalling")]
    for point in np.flatnonzero((pauses > 0) & (line.own_ns > STRETCH_NS)).tolist():
        alike = (line.line[bounds] == line.line[point]) & (sizes > ordinal[point])
        alike &= (step[bounds] >= 0) & (step[bounds] != step[point])
        others = line.own_ns[bounds[alike] + ordinal[point]]
        if others.size and step[point] >= 0:
            excess = line.own_ns[point] - np.median(others) - found[:, point].sum()
            more[point] = max(float(excess), 0.0)
    return more
