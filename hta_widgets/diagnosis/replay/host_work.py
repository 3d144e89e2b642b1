"""What the host does between two points of its line, as far as that has a cause of its own.

The time of each distance that is not waiting is divided: each instant belongs to the first class of
`HOST_WORK` that covers it, the rest to launching and everything else that the program does.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hta_widgets.analyses.budget.device_steps import (
    GAP,
    HostGaps,
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
"""What a host does beside launching."""

NEITHER: Final = len(HOST_WORK)
"""Row of what is no launching either: the time before the analysed steps, of which nothing is known
to be needed, and the rest of a distance with a pause in it. While the host pauses, the GPU may be
busy at first: 8 pauses of 2 ms with 200 µs of work in each looked launch-bound, too."""

STRETCH_NS: Final = 1_000_000
"""A distance that is longer and has a pause in it is compared with that of the other steps."""


def host_work(
    operations: Operations, line: HostLine, edges: Int64Array, gaps: HostGaps | None
) -> Float64Array:
    """Time (ns) of each of `HOST_WORK` before each point, and of what is launching `NEITHER`.

    Of each class and then each point; together no more than ``line.own_ns``. `edges` are the bounds
    of the steps on the main device, and `gaps` its idle time between them, if that is known
    already.
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
    covered, pausing = Intervals.union([], []), _scheduling(gaps) | _pausing(gaps)
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
    """Time of each of `HOST_WORK`, on the threads that launch work."""
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

    def idle(name: str) -> Intervals:
        segments = gaps.of_kind(name)
        return Intervals.union(segments.start_ns, segments.end_ns)

    of_device = calls.is_launch_call
    first = first_uses(operations.rank)
    return [
        _profiler(calls, numbers) | idle("gap_profiler"),
        inside(loading_calls(operations.rank)) | idle("gap_loader"),
        inside(calls.named(patterns.ALLOCATING.search) & of_device & ~first),
        inside(calls.named(patterns.INITIALISING.search) & of_device) | idle("gap_init"),
        inside(calls.named(patterns.COMPILING.search)),
        _scheduling(gaps),
        _pausing(gaps),
    ]


def _scheduling(gaps: HostGaps) -> Intervals:
    """Idle time between two steps of a server, in which its loop prepares the next one."""
    segments = gaps.of_kind("gap_step")
    return Intervals.union(segments.start_ns, segments.end_ns)


def _pausing(gaps: HostGaps) -> Intervals:
    """Idle time in which the host launches nothing for long, whether anything tells why or not."""
    chosen = (gaps.kind == GAP["gap_pause"]) | gaps.unattributed
    segments = gaps.segments.take(np.flatnonzero(chosen))
    return Intervals.union(segments.start_ns, segments.end_ns)


def _communicating(operations: Operations) -> Intervals:
    """Time in which a GPU communicates and does nothing else, behind which its host may pause.

    Eight hosts that paused for 450 of 600 ms each looked launch-bound: but for the last one to
    come, their GPUs were never idle meanwhile.
    """
    meets = operations.type == KernelType.COMMUNICATION
    others = Intervals.union(operations.start_ns[~meets], operations.end_ns[~meets])
    return Intervals.union(operations.start_ns[meets], operations.end_ns[meets]) - others


def _profiler(calls: Calls, numbers: list[int]) -> Intervals:
    """Overhead of the profiler; of threads that call nothing, which hold up all."""
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
    """What a long distance with a pause in it takes more than the same one of the other steps."""
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
