"""The analysed time of a rank: its steps, and when each device is done with earlier work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.arrays import Int8Array, Int64Array, Mask
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.model.events import GPU_WORK, LAUNCH_CALLS
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.model.steps import analysed_steps
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import NEVER, Rank

NO_STEP = -1
MAY_COMPUTE: Final = (KernelType.COMPUTATION, KernelType.CUDA_GRAPH)
"""Kernels that compute, and graphs recorded as a whole, which may."""

WAIT_NS: Final = 1_000_000
"""If a kernel starts this long after its launch call returned, it waited for something: a free GPU
starts it within a few µs."""

LEAST_SEEN: Final = 0.5
"""Share of the lead-in for which a launch must wait: real ones wait for 94 % of it or more. After
19.6 s in which a process made its CUDA context, its first kernel started 4 ms after its launch."""

WARM: Final = 2
"""Number of the first analysed step from which a call that blocks waits for the GPU and initialises
nothing: a pageable copy in step 16 took 45.7 ms, waiting for what step 15 had launched."""

OTHERS: Final = 0.01
"""Share of the wait for which recorded work may run before it, on other streams, which are free."""

AGAIN: Final = 0.5
"""Share of the wait for which no later work may wait on an idle device: on a shared device, four
launches waited 2.2 ms each, and the first was taken for a wait for earlier work."""


LATE_NS: Final = 10_000_000
"""How long after its GPU a host must be recorded for the time before to be left out."""


@dataclass(frozen=True, eq=False)
class Window:
    """The analysed time: from the first analysed ProfilerStep to the end of the last.

    It ends with the analysed GPU work if that is later. Without steps: from the first start
    to the last end of calls and GPU work.
    """

    start_ns: int
    end_ns: int
    steps: Int64Array
    """Numbers of the analysed ProfilerSteps, in order of start; `NO_STEP` alone without any."""
    step_start_ns: Times
    """Start of the mark of each step on the CPU."""
    step_length_ns: Times
    """Length of each mark, or of all marks with the same number; without steps, of the window."""

    @classmethod
    def of(cls, rank: Rank) -> Window:
        """Find the window of a rank."""
        marks = rank.steps
        last = rank.settings.include_last_profiler_step
        numbers = analysed_steps(marks, include_last_profiler_step=last)
        if not numbers:
            return cls._of_all(rank)
        chosen = np.flatnonzero(np.isin(marks.number, numbers))
        if not last and len(marks.distinct) > 1:  # a number may repeat
            chosen = chosen[marks.start_ns[chosen] < marks.start_ns.max()]
        steps, first, which = np.unique(
            marks.number[chosen], return_index=True, return_inverse=True
        )
        length_ns = np.zeros(steps.size, dtype=np.int64)
        np.add.at(length_ns, which, (marks.end_ns - marks.start_ns)[chosen])
        order = np.argsort(first)
        work_end = rank.gpu_work.end_ns.max(initial=marks.start_ns.min())
        return cls(
            start_ns=int(marks.start_ns[chosen].min()),
            end_ns=int(max(marks.end_ns[chosen].max(), work_end)),
            steps=steps[order],
            step_start_ns=marks.start_ns[chosen][first[order]],
            step_length_ns=length_ns[order],
        )

    @classmethod
    def _of_all(cls, rank: Rank) -> Window:
        """Without steps, everything; but nothing before the host is recorded.

        The GPU may finish earlier work when the recording begins, seconds before the first call.
        """
        events, calls = rank.trace.events, calls_of(rank).forest.rows
        work = events.rows_of(*GPU_WORK)
        if calls.size:
            host_ns = events.start_ns[calls].min()
            early = work[events.start_ns[work] < host_ns]
            is_early = (events.ends_of(early) < host_ns) & (rank.launches[early] < 0)
            if is_early.all() and host_ns - events.start_ns[early].min(initial=host_ns) >= LATE_NS:
                work = work[events.start_ns[work] >= host_ns]
        rows = np.concatenate((calls, work))
        start = events.start_ns[rows]
        first = int(start.min()) if rows.size else 0
        end = int((start + events.duration_ns[rows]).max(initial=first))
        return cls(first, end, np.array([NO_STEP]), np.array([first]), np.array([end - first]))

    def step_of(self, rank: Rank, work: GpuWork) -> Int64Array:
        """Position of the step in which the launch call of each piece of work starts.

        Work whose launch is not in the trace belongs to the step in which it starts itself. Work
        launched before the first step belongs to the first step.
        """
        return np.maximum(self._asked_in(rank, work), 0)

    def is_of_a_step(self, rank: Rank, work: GpuWork) -> Mask:
        """Which work is not known to have been launched before the first step."""
        return (work.launch < 0) | (self._asked_in(rank, work) >= 0)

    def _asked_in(self, rank: Rank, work: GpuWork) -> Int64Array:
        """Position of the step in which each piece of work is launched, -1 before the first."""
        starts = rank.trace.events.start_ns
        asked_ns = np.where(work.launch >= 0, starts[work.launch], work.start_ns)
        return np.searchsorted(self.step_start_ns, asked_ns, side="right") - 1

    def step_edges(self, rank: Rank, device: int) -> Times:
        """Boundaries of the steps on a device: step ``k`` ends with its last computing kernel.

        Work belongs to the step in which its launch call starts, or to none if that is before the
        first mark; if no launch is recorded, to the step in which it starts itself. The first step
        starts with its mark, or when the computation launched before it is done, recorded or not
        (`lead_in_end`); every other step starts where the previous one ends. A step that computes
        nothing ends with its last work of any kind, and one without work ends where it starts. A
        CUDA graph recorded as a whole may compute, and counts like a computing kernel.
        `may_end_step` says what else a step may end with.

        Without steps: from the first start to the last end of GPU work on the device, apart
        from work that waits for work from before the recording.

        One more than there are steps, ascending, between ``start_ns`` and ``end_ns``.
        """
        return rank.remember(_step_edges, device)


def _step_edges(rank: Rank, device: int) -> Times:
    window, recorded = window_of(rank), rank.all_work(device)
    free_ns = begin_on(rank, device)
    if NO_STEP in window.steps:
        lasting = recorded.take(np.flatnonzero(recorded.duration_ns))
        first_ns = max(int(lasting.start_ns.min(initial=window.end_ns)), free_ns)
        return np.array([first_ns, int(lasting.end_ns.max(initial=first_ns))])
    work, known = rank.gpu_work.by_device()[device], has_launches(rank, device)
    counts = window.is_of_a_step(rank, work) & ((work.launch >= 0) | (not known))
    launched = np.flatnonzero(counts)
    step = window.step_of(rank, work)[launched]
    ends = work.end_ns[launched]
    computes = may_end_step(rank, work.type[launched], ends, step)
    last = np.full(window.steps.size, window.start_ns)
    np.maximum.at(last, step[computes], ends[computes])
    rest = last[step] == window.start_ns
    np.maximum.at(last, step[rest], ends[rest])
    first_ns = max(_free_from(rank, window, recorded) if known else window.start_ns, free_ns)
    return np.maximum.accumulate(np.concatenate(([first_ns], last)))


def may_end_step(rank: Rank, types: Int8Array, ends_ns: Times, step: Int64Array) -> Mask:
    """Which work, given types, ends and steps, a step may end with: work that computes.

    The last step of a server may also end with other work: ranks that gather their logits, or the
    copy of its tokens. In other steps this comes before the work of the next step, but a single
    recorded step would lack it. So may one that computes only in the first half of its mark end
    with what the host waits for in it.
    """
    window, marks = window_of(rank), rank.steps
    found = np.isin(types, MAY_COMPUTE)
    if marks.source == "server" and window.step_start_ns[-1] == marks.start_ns.max():
        found |= step == window.steps.size - 1
    elif window.steps.size == 1:
        start_ns, length_ns = window.step_start_ns[0], window.step_length_ns[0]
        if 2 * (ends_ns[found].max(initial=start_ns) - start_ns) < length_ns:
            events = rank.trace.events
            calls = events.rows_of(*LAUNCH_CALLS)
            calls = calls[events.named(calls, patterns.BLOCKING)]
            waits_ns = events.start_ns[calls], events.start_ns[calls] + events.duration_ns[calls]
            in_mark = Intervals.union(*waits_ns).clip(start_ns, start_ns + length_ns)
            found |= in_mark.covers(ends_ns)
    return found


def has_launches(rank: Rank, device: int) -> bool:
    """Whether any launch of the work of a device is recorded."""
    return any(bool((each.launch >= 0).any()) for each in rank.analysed_and_left_out(device))


def _free_from(rank: Rank, window: Window, recorded: GpuWork) -> int:
    """When the device is free for the first step, which excludes computation launched before it."""
    launched_ns = rank.trace.events.start_ns[recorded.launch]
    of_steps = (recorded.launch >= 0) & (launched_ns >= window.start_ns)
    computes = np.isin(recorded.type, MAY_COMPUTE)
    own = np.flatnonzero(of_steps & computes)
    first_ns = recorded.start_ns[own].min(initial=window.end_ns)
    # streams that prepare the next batch run while another one still works on the previous step
    busy_ns = np.bincount(recorded.stream[own], recorded.duration_ns[own], minlength=1)
    of_main = recorded.stream == busy_ns.argmax()
    first_of_main_ns = recorded.start_ns[own[of_main[own]]].min(initial=window.end_ns)
    until_ns = np.where(of_main, first_of_main_ns, first_ns)
    earlier = ~of_steps & computes & (recorded.start_ns < until_ns)
    return int(recorded.end_ns[earlier].max(initial=window.start_ns))


def window_of(rank: Rank) -> Window:
    """The window of a rank."""
    return rank.remember(Window.of)


def numbered_steps(rank: Rank) -> tuple[int, ...]:
    """Numbers of the analysed ProfilerSteps of a rank; empty without any."""
    return tuple(each for each in window_of(rank).steps.tolist() if each != NO_STEP)


def begin_on(rank: Rank, device: int) -> int:
    """When the analysed time of a device starts: not before it is done with earlier work.

    A server is recorded while its GPU computes an earlier batch, which is not in the file: that
    time is neither idle nor busy.
    """
    free_ns, start_ns = lead_in_end(rank, device), window_of(rank).start_ns
    return start_ns if free_ns is None else max(start_ns, free_ns)


@asked_once
def lead_in_end(rank: Rank, device: int) -> int | None:
    """When a device is done with what was launched before the recording; None if not known.

    A server is recorded while a batch runs whose kernels the recorder never shows: the first launch
    returns at once, and its kernel starts 463 ms later, on a GPU that looks idle::

        recording    |
        launch         []                         []
        stream         (launched before)====kernel====|  ====
                     |----- lead-in ----|

    The first work of a stream shows it if three things hold: it waits for most of that time; hardly
    any recorded work runs before; and the recorder lost no kernel launched before, for which it may
    wait. If later work waits in the same way with nothing before it, so may the first.
    """
    work = rank.all_work(device)
    lasting = np.flatnonzero(work.duration_ns)
    first = lasting[grouped(work.stream[lasting]).first]
    first = first[work.launch[first] >= 0]
    events, launch = rank.trace.events, work.launch[first]
    returned_ns = events.start_ns[launch] + events.duration_ns[launch]
    if window_of(rank).steps[0] >= WARM:  # a copy that blocks waits inside its call
        blocks = returned_ns > work.start_ns[first]
        returned_ns = np.where(blocks, events.start_ns[launch], returned_ns)
    waited_ns = work.start_ns[first] - returned_ns
    lost_ns = min((each.start_ns for each in rank.health.lost.stretches), default=NEVER)
    least_ns = LEAST_SEEN * (work.start_ns[first] - events.start_ns[0])
    waits = (waited_ns >= np.maximum(WAIT_NS, least_ns)) & (events.start_ns[launch] < lost_ns)
    if not waits.any():  # usual
        return None
    before_ns = Intervals.union(work.start_ns, work.end_ns).covered_until(work.start_ns[first])
    waits &= (before_ns <= OTHERS * waited_ns) & (
        _waits_again(rank, work, first) < AGAIN * waited_ns
    )
    held = first[waits]
    return int(work.start_ns[held].max()) if held.size else None


def _waits_again(rank: Rank, work: GpuWork, first: Int64Array) -> int:
    """Longest wait of any work but the first of a stream, while its device is idle."""
    lasting = np.flatnonzero(work.duration_ns)
    lasting = lasting[np.argsort(work.start_ns[lasting], kind="stable")]
    start_ns, until_ns = work.start_ns[lasting], np.maximum.accumulate(work.end_ns[lasting])
    events, launch = rank.trace.events, work.launch[lasting]
    free_ns = events.start_ns[launch] + events.duration_ns[launch]
    before = np.searchsorted(start_ns, start_ns) - 1
    free_ns = np.maximum(free_ns, until_ns[before])
    later = (before >= 0) & (launch >= 0) & ~np.isin(lasting, first)
    return int((start_ns - free_ns)[later].max(initial=0))


def before_host_ns(rank: Rank) -> int:
    """How long a GPU was recorded before its host, without steps: time that is left out."""
    window = window_of(rank)
    if NO_STEP not in window.steps:
        return 0
    return max(window.start_ns - int(rank.gpu_work.start_ns.min(initial=window.start_ns)), 0)


def lead_in_ns(rank: Rank) -> int:
    """How long a rank's device is first busy with what was launched before the recording."""
    device = rank.gpu_work.main_device
    free_ns = None if device is None else lead_in_end(rank, device)
    return 0 if free_ns is None else max(free_ns - window_of(rank).start_ns, 0)
