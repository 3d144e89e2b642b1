"""Find kernels and operators that are not in the trace because the recorder lost them.

PyTorch silently drops kernels at the start of a recording, and whenever a CUPTI buffer is full. The
lost work looks like idle time, for which a diagnosis would find a cause::

    host   launch 1   launch 2   launch 3        launch 4
    GPU        kernel 1 ==|                          |== kernel 4
                          |------- hole -------------|
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.arrays import Int32Array, Int64Array, Mask
from hta_widgets.grouping import are_among
from hta_widgets.intervals import Times
from hta_widgets.trace.model.captures import capture_marks
from hta_widgets.trace.model.events import GPU_WORK, LAUNCH_CALLS, Events, Kind, KindSet
from hta_widgets.trace.model.nesting import places_of
from hta_widgets.trace.model.steps import StepMarks

LAUNCHES_A_KERNEL: Final = re.compile(r"Launch(Cooperative)?Kernel|ModuleLaunchKernel")
"""Calls that always make GPU work; a graph may be empty, and filling 0 bytes is no work."""

REPLAYS_A_GRAPH: Final = re.compile(r"GraphLaunch")

GIVING_WORK: Final = 0.5
"""Share of graph replays that must have work before the others count as having lost theirs, as with
roctracer once its buffer is full."""

IN_FLIGHT: Final = 2
"""Number of replays at the end of a recording that may not have run yet."""

MOST_REPLAYS_LOST: Final = 0.05
"""Share of the replays above which their loss is reported."""

MOST_UNFINISHED: Final = 0.1
"""Share of the launches above which work that had not run when the recording ended is reported. Of
a model on the third GPU, 923 of 1,556 launches had none: the profiler had waited for the first."""

_WAITS_FOR_GPU: Final = re.compile(r"(Device|Thread|Ctx|Stream)Synchronize")
MOST_LOST: Final = 0.01
"""Share of the launches of a step, or of its time in holes, above which the step is not counted. A
smaller loss costs less than the cheapest finding (3 %)."""

APART: Final = 0.05
"""Lost launches further apart than this share of the time with launches are two stretches."""

BROKEN_LINKS: Final = 0.5
"""If work without an id is at least this share of the launches without work, the ids were lost, and
not the work."""


INSIDE: Final = 0.9
"""Share of the launches between the first and the last operator that operators make, if the
recording has all operators there."""

OUTSIDE: Final = 0.05
"""Share of launches before the first operator or after the last above which operators are lost."""

FEWEST_LAUNCHES: Final = 20
"""Fewest launches to judge by: other libraries may well make a few."""

_OPERATORS: Final = KindSet((Kind.CPU_OP, Kind.PYTHON))


class Stretch(NamedTuple):
    """Time (ns since the trace's origin) from the first to the last of a run of lost launches."""

    start_ns: int
    end_ns: int
    launches: int


@dataclass(frozen=True, kw_only=True)
class LostWork:
    """Launches without work, other than those that are captured into a graph."""

    launches: int = 0
    """Calls that launch one kernel each, or replay a graph if most replays have work."""
    lost: int = 0
    """Launches whose work is not in the trace, although work launched after them is."""
    lost_kernels: int = 0
    """Lost launches of a kernel."""
    at_end: int = 0
    """Launches after the last one with work: the recording ended before their work ran, or the file
    was cut."""
    stretches: tuple[Stretch, ...] = ()
    """Where the lost launches are."""
    hole_ns: int = 0
    """Idle time of the GPU in which lost work may have run."""
    steps: tuple[int, ...] = ()
    """Numbers of the ProfilerSteps that lack more than `MOST_LOST` of their work."""
    percent: float = 0.0
    """Share (%) of the launches that are lost, or of the time with GPU work that holes take,
    whichever is larger."""
    replays: int = 0
    lost_replays: int = 0
    """Launches that replay a graph, and those of them without work."""
    waited_for: bool = False
    """Whether the host waited for the GPU although no launch has work: it ran, and the recorder
    could not see it."""

    @property
    def lacks_replays(self) -> bool:
        """Whether enough replays have lost their work to report it."""
        return self.lost_replays > max(IN_FLIGHT, MOST_REPLAYS_LOST * self.replays)

    @property
    def lacks_end(self) -> bool:
        """Whether the recording ended long before the GPU was done."""
        return self.at_end > MOST_UNFINISHED * self.launches

    @property
    def is_all(self) -> bool:
        """Whether no launch has any work."""
        return 0 < self.lost == self.launches

    @property
    def matters(self) -> bool:
        """Whether enough is lost to mislead findings on the whole recording."""
        return self.percent > 100 * MOST_LOST


def lost_work(
    events: Events, launches: Int32Array, parents: Int32Array, steps: StepMarks
) -> LostWork:
    """Find the launches of kernels whose work is not in the trace.

    `launches` and `parents` are the rows of each event's launch, and of the call around it; -1 for
    none.
    """
    calls, known = _kernel_launches(events, parents)
    work = events.rows_of(*GPU_WORK)
    linked = work[launches[work] >= 0]
    if not work.size:
        is_measured = events.rows_of(Kind.PROFILER_RANGE).size  # kernels have counters, not times
        return LostWork() if is_measured else _all_lost(events, calls[~known])
    if known.all() or not linked.size:
        return LostWork(launches=calls.size)
    lost_ns = events.start_ns[calls[~known]]
    linked = linked[np.argsort(events.start_ns[launches[linked]], kind="stable")]
    done = _Done.of(events, linked, launches)
    is_last = lost_ns >= done.launched_ns[-1]
    inside_ns = lost_ns[~is_last]
    without_id = np.count_nonzero(events.correlation[work] <= 0)
    if without_id >= BROKEN_LINKS * lost_ns.size:
        return LostWork(launches=calls.size)
    holes = _Holes.of(inside_ns, done)
    replays = events.named(calls, REPLAYS_A_GRAPH)
    span_ns = int(done.end_ns[-1] - done.next_ns[0])
    shares = (inside_ns.size / calls.size, holes.length_ns.sum() / max(span_ns, 1))
    return LostWork(
        launches=calls.size,
        lost=inside_ns.size,
        lost_kernels=int(np.count_nonzero(~replays[~known][~is_last])),
        at_end=int(np.count_nonzero(is_last)),
        stretches=_stretches(inside_ns, events.start_ns[calls]),
        hole_ns=int(holes.length_ns.sum()),
        steps=_touched(steps, events.start_ns[calls], lost_ns, holes),
        percent=100 * float(max(shares)),
        replays=int(np.count_nonzero(replays)),
        lost_replays=int(np.count_nonzero(replays & ~known)),
    )


def _all_lost(events: Events, calls: Int64Array) -> LostWork:
    """A recording with launches but no work: it ended too soon, or could not see the GPU."""
    every = events.rows_of(*LAUNCH_CALLS)
    waits_ns = events.start_ns[every[events.named(every, _WAITS_FOR_GPU)]]
    kernels = int(np.count_nonzero(~events.named(calls, REPLAYS_A_GRAPH)))
    return LostWork(
        launches=calls.size,
        lost=calls.size,
        lost_kernels=kernels,
        replays=calls.size - kernels,
        lost_replays=calls.size - kernels,
        percent=100.0 if calls.size else 0.0,
        waited_for=bool((waits_ns > events.start_ns[calls[:1]]).any()),
    )


class _Done(NamedTuple):
    """Work in launch order: its launch times, and the ends before and the starts after each."""

    launched_ns: Times
    end_ns: Times
    """Latest end of the work launched up to then."""
    next_ns: Times
    """Earliest start of the work launched from then on."""

    @classmethod
    def of(cls, events: Events, work: Int64Array, launches: Int32Array) -> _Done:
        start_ns = events.start_ns[work]
        return cls(
            launched_ns=events.start_ns[launches[work]],
            end_ns=np.maximum.accumulate(start_ns + events.duration_ns[work]),
            next_ns=np.minimum.accumulate(start_ns[::-1])[::-1],
        )


class _Holes(NamedTuple):
    """Idle time between work that was launched before and after some lost launches."""

    lost_ns: Times
    next_ns: Times
    """Time of the first lost launch, and of the first one after it with work."""
    length_ns: Times

    @classmethod
    def of(cls, lost_ns: Times, done: _Done) -> _Holes:
        place = np.searchsorted(done.launched_ns, lost_ns, side="right")
        place, first = np.unique(place, return_index=True)
        lost_ns = lost_ns[first]
        free_ns = np.where(place > 0, done.end_ns[place - 1], lost_ns)
        length_ns = done.next_ns[place] - np.maximum(free_ns, lost_ns)
        return cls(lost_ns, done.launched_ns[place], np.maximum(length_ns, 0))


def _kernel_launches(events: Events, parents: Int32Array) -> tuple[Int64Array, Mask]:
    """Rows of the calls that launch a kernel or graph, by start; whether the trace has its work.

    A call without an id may have launched any kernel. A driver call inside a runtime call is the
    same launch, whichever of their ids the kernel has.
    """
    calls = events.rows_of(*LAUNCH_CALLS)
    of_graphs = events.named(calls, REPLAYS_A_GRAPH)
    chosen = of_graphs | events.named(calls, LAUNCHES_A_KERNEL)
    calls, of_graphs = calls[chosen], of_graphs[chosen]
    ids = events.correlation[calls]
    work = events.rows_of(*GPU_WORK)
    known = are_among(ids, events.correlation[work]) | (ids <= 0)
    if of_graphs.any() and known[of_graphs].mean() < GIVING_WORK:
        calls, known, ids = calls[~of_graphs], known[~of_graphs], ids[~of_graphs]
    if known.all():
        return calls, known
    around = places_of(calls, len(events) + 1)[parents[calls]]
    is_inside = around >= 0
    np.logical_or.at(known, around[is_inside], known[is_inside])
    known |= _captured(events, calls)
    return calls[~is_inside], known[~is_inside]


def _captured(events: Events, calls: Int64Array) -> Mask:
    """Mask of the calls between the begin and the end of a capture, which go into a graph."""
    begins, ends = capture_marks(events)
    found = np.zeros(calls.size, dtype=np.bool_)
    for thread in {*zip(events.pid[begins].tolist(), events.tid[begins].tolist(), strict=True)}:
        begin_ns, end_ns, own_ns = (
            np.where(
                (events.pid[rows] == thread[0]) & (events.tid[rows] == thread[1]),
                events.start_ns[rows],
                -1,
            )
            for rows in (begins, ends, calls)
        )
        begun = np.searchsorted(begin_ns[begin_ns >= 0], own_ns)
        ended = np.searchsorted(end_ns[end_ns >= 0], own_ns)
        found |= (own_ns >= 0) & (begun > ended)
    return found


def _stretches(lost_ns: Times, launch_ns: Times) -> tuple[Stretch, ...]:
    """Runs of lost launches."""
    if not lost_ns.size:
        return ()
    apart = np.diff(lost_ns) > APART * (launch_ns[-1] - launch_ns[0])
    edges = [0, *(np.flatnonzero(apart) + 1).tolist(), lost_ns.size]
    return tuple(
        Stretch(int(lost_ns[first]), int(lost_ns[last - 1]), last - first)
        for first, last in pairwise(edges)
    )


def _touched(steps: StepMarks, launch_ns: Times, lost_ns: Times, holes: _Holes) -> tuple[int, ...]:
    """Numbers of the steps that lack too many kernels, or that holes take too much of.

    A step ends with its last kernel, so a hole between two steps may belong to either.
    """
    if not len(steps):
        return ()
    count = len(steps)
    of_launch, of_lost, first, last = (
        np.searchsorted(steps.start_ns, each, side="right") - 1
        for each in (launch_ns, lost_ns, holes.lost_ns, holes.next_ns)
    )
    launched = np.bincount(of_launch[of_launch >= 0], minlength=count)
    lost = np.bincount(of_lost[of_lost >= 0], minlength=count)
    hole_ns = np.zeros(count + 1)
    np.add.at(hole_ns, np.maximum(first, 0), holes.length_ns)
    np.add.at(hole_ns, last + 1, -holes.length_ns)
    in_holes = np.cumsum(hole_ns)[:-1] > MOST_LOST * (steps.end_ns - steps.start_ns)
    return tuple(sorted({*steps.number[(lost > MOST_LOST * launched) | in_holes].tolist()}))


@dataclass(frozen=True, kw_only=True)
class LostOperators:
    """Kernel launches before the first operator or after the last; 0 if no operators are lost."""

    launches: int = 0
    outside: int = 0


def lost_operators(events: Events, parents: Int32Array) -> LostOperators:
    """Find out whether operators are recorded only for part of the time.

    This happens when a buffer is full, or wraps. Outside that time, launches seem to come from
    nowhere::

        operators                     |----| |----| |----|
        launches    | | |  | | |       | |    | |    | |
                    |--- outside ---|

    The parents are the rows of the calls around each CPU call, -1 for none.
    """
    operators = np.flatnonzero(_OPERATORS.among(events.kind))
    calls = events.rows_of(*LAUNCH_CALLS)
    calls = calls[events.named(calls, LAUNCHES_A_KERNEL)]
    around = parents[calls]
    calls = calls[(around < 0) | ~KindSet(LAUNCH_CALLS).among(events.kind[around])]
    if not operators.size or calls.size < FEWEST_LAUNCHES:
        return LostOperators(launches=calls.size)
    last_ns = int(events.ends_of(operators).max())
    start_ns = events.start_ns[calls]
    between = calls[(start_ns >= events.start_ns[operators[0]]) & (start_ns <= last_ns)]
    around = parents[between]
    inside = np.count_nonzero((around >= 0) & _OPERATORS.among(events.kind[around]))
    outside = calls.size - between.size
    is_lost = outside > OUTSIDE * calls.size and inside > INSIDE * between.size
    return LostOperators(launches=calls.size, outside=outside if is_lost else 0)
