"""Numbers for each step of a rank: what its GPU and its host did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from hta_widgets.analyses.budget.device_steps import (
    GAPS,
    DeviceSteps,
    blocking_calls,
    loading_calls,
)
from hta_widgets.analyses.budget.idle_gaps import overheads
from hta_widgets.analyses.communication.partition import PARTS
from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.calls import Calls, calls_of
from hta_widgets.analyses.time.window import NO_STEP, Window
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.diagnosis.facts.trials import NAME_COLUMNS
from hta_widgets.grouping import distinct
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.ranks.rank import Rank

HOST_COLUMNS: Final = ("host", "in_loader", "in_alloc", "in_profiler", "frees")

HELD_UP_NS: Final = 100_000
HELD_UP: Final = 20
"""A launch call waits for the GPU if it takes this long (ns), and this many times the median."""

SHOWN_COLUMNS: Final = ("start_ns", "end_ns", "period", "cpu", "host", "kernels", *PARTS, *GAPS)
"""Columns that a table of steps shows."""

STEP_COLUMNS: Final = (
    "step",
    *SHOWN_COLUMNS,
    *HOST_COLUMNS[1:],
    *NAME_COLUMNS,
    "starting",
    "within_graphs",
    "unattributed",
    "host_copies",
)
"""Columns that rules work on."""

Columns = dict[str, Int64Array]


def host_columns(rank: Rank, window: Window, edges: Times) -> Mapping[str, Times]:
    """Columns of `HOST_COLUMNS`, a row for each step; times are ns.

    ``in_loader``, ``in_alloc`` and ``in_profiler`` are the time in such calls on threads that
    launch work or mark steps; ``frees`` is the number of calls that free memory. ``host`` is the
    time of the step's mark outside blocking calls, data loading and the profiler.

    Without steps, the edges are the first start and the last end of GPU work.
    """
    calls = calls_of(rank)
    asked = _of_launching_threads(rank, calls)
    loads = loading_calls(rank) & asked
    allocates = calls.named(patterns.ALLOCATING.search) & calls.is_launch_call & asked
    blocks = (
        blocking_calls(rank) | _held_up(calls) | _copies_to_pageable_memory(rank, calls)
    ) & asked
    loading, (profiler, _) = _covered(calls, loads), overheads(rank)
    waiting = loading | profiler | _covered(calls, blocks)
    frees = np.sort(calls.start_ns[allocates & calls.named(patterns.FREEING.search)])
    marks = _Marks(rank, window, edges)
    return {
        "host": marks.of_steps(marks.length_ns - marks.covered_by(waiting)),
        "in_loader": marks.of_steps(marks.covered_by(loading)),
        "in_alloc": marks.of_steps(marks.covered_by(_covered(calls, allocates))),
        "in_profiler": marks.of_steps(marks.covered_by(profiler)),
        "frees": marks.of_steps(marks.counted(frees)),
    }


class _Marks:
    """The marks of steps on the CPU; without steps, one for all of the time with GPU work."""

    def __init__(self, rank: Rank, window: Window, edges: Times) -> None:
        self.steps = window.steps
        if NO_STEP in window.steps:
            self.number = window.steps
            self.start_ns, self.end_ns = edges[:1], edges[-1:]
            return
        marks = rank.steps
        self.number, self.start_ns, self.end_ns = marks.number, marks.start_ns, marks.end_ns

    @property
    def length_ns(self) -> Times:
        return self.end_ns - self.start_ns

    def covered_by(self, covered: Intervals) -> Times:
        return covered.covered_until(self.end_ns) - covered.covered_until(self.start_ns)

    def counted(self, ascending_ns: Times) -> Int64Array:
        first, last = (np.searchsorted(ascending_ns, at) for at in (self.start_ns, self.end_ns))
        return np.asarray(last - first)

    def of_steps(self, of_marks: Int64Array) -> Int64Array:
        """Sum over the marks of each step."""
        sums = np.zeros(self.steps.size, dtype=np.int64)
        counts = np.isin(self.number, self.steps)
        np.add.at(sums, np.searchsorted(self.steps, self.number[counts]), of_marks[counts])
        return sums


def _covered(calls: Calls, chosen: Mask) -> Intervals:
    """Time in some calls; those of CUDA count as long as recorded.

    With rounded times, one may start before the previous call ends. The forest then puts it inside
    that call, and cuts it to next to nothing.
    """
    places = np.flatnonzero(chosen)
    start_ns = calls.start_ns[places]
    end_ns = start_ns + calls.events.duration_ns[calls.forest.rows[places]]
    end_ns = np.where(calls.is_launch_call[places], end_ns, calls.forest.cut_end_ns[places])
    return Intervals.union(start_ns, end_ns)


def _held_up(calls: Calls) -> Mask:
    """Launch calls that wait for a place in the queue of the GPU."""
    launches = calls.named(patterns.GIVES_WORK.search) & calls.is_launch_call
    length_ns = calls.events.duration_ns[calls.forest.rows]
    usual_ns = float(np.median(length_ns[launches])) if launches.any() else 0.0
    return np.asarray(launches & (length_ns > max(HELD_UP_NS, HELD_UP * usual_ns)))


def _copies_to_pageable_memory(rank: Rank, calls: Calls) -> Mask:
    """Calls that return only when the copy is done, though they are asynchronous by name."""
    work = rank.gpu_work
    to_host = work.named(lambda name: "Pageable" in name and patterns.DEVICE_TO_HOST.search(name))
    launch = work.launch[to_host]
    found = np.zeros(calls.kind.size, dtype=np.bool_)
    found[calls.places_of(launch[launch >= 0])] = True
    return found


def _of_launching_threads(rank: Rank, calls: Calls) -> Mask:
    """Calls of the threads that launch work, or that mark steps."""
    launch = distinct(rank.gpu_work.launch)
    launching = distinct(calls.thread_of(calls.places_of(launch[launch >= 0]))).tolist()
    marks = rank.steps.rows
    events = rank.trace.events
    marking = set(zip(events.pid[marks].tolist(), events.tid[marks].tolist(), strict=True))
    chosen = np.zeros(calls.kind.size, dtype=np.bool_)
    for number, thread in enumerate(calls.threads):
        if number in launching or (thread.pid, thread.tid) in marking:
            chosen[thread.first : thread.last] = True
    return chosen


def step_facts(rank: Rank, steps: DeviceSteps | None) -> Columns:
    """`STEP_COLUMNS` except those of kernel names and copies, a row for each analysed step.

    All times are ns. ``cpu`` is the length of the step's mark; see `host_columns` for what the host
    does in it. `PARTS` add up to ``period``, and `GAPS` to ``idle``.
    """
    if steps is None:
        return {name: np.zeros(0, dtype=np.int64) for name in STEP_COLUMNS}
    window, edges = steps.window, steps.edges
    return {
        "step": window.steps.astype(np.int64),
        "start_ns": edges[:-1],
        "end_ns": edges[1:],
        "period": np.diff(edges),
        "cpu": window.step_length_ns,
        **host_columns(rank, window, edges),
        "kernels": _kernels(rank, steps),
        **of_gpu(steps, edges),
    }


def of_gpu(steps: DeviceSteps, edges: Times) -> Columns:
    """What the GPU does, and why it is idle, between some times (ns)."""
    gaps = steps.gaps
    return {
        "starting": gaps.some_in_bins(gaps.starts_short, edges),
        "within_graphs": gaps.some_in_bins(gaps.within_graph, edges),
        "unattributed": gaps.some_in_bins(gaps.unattributed, edges),
        **dict(zip(PARTS, steps.busy.in_bins(edges), strict=True)),
        **dict(zip(GAPS, gaps.in_bins(edges), strict=True)),
    }


def _kernels(rank: Rank, steps: DeviceSteps) -> Int64Array:
    """Number of kernels that each step launches; without recorded launches, that start in it."""
    work, window = rank.gpu_work.by_device()[steps.device], steps.window
    counted = rank.trace.events.kind[work.rows] == Kind.KERNEL
    if (work.launch >= 0).any():
        counted &= (work.launch >= 0) & window.is_of_a_step(rank, work)
    return np.bincount(window.step_of(rank, work)[counted], minlength=window.steps.size)
