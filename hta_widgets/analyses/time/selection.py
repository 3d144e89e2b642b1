"""The selected time of a job: some of its steps, a window, or what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar, cast

import numpy as np

from hta_widgets.analyses.clocks.aligned import common_offsets_ns
from hta_widgets.analyses.time.gpu_time import GpuTime, gpu_times
from hta_widgets.analyses.time.window import begin_on, numbered_steps, window_of
from hta_widgets.arrays import Mask
from hta_widgets.errors import ParameterError, UnknownStepError, whole_numbers
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

Answer = TypeVar("Answer")

WindowNs = tuple[int, int]

_MOST_NS: Final = 2**62
ANY_TIME: Final = Intervals.union([-_MOST_NS], [_MOST_NS])


class TimeSelection(NamedTuple):
    """The selected time of each rank.

    Step ``k`` of a device lasts from the end of the previous step to the end of the last computing
    kernel launched in it (`Window.step_edges`), so that what counts in each step adds up to what
    counts in all. A window also holds the lead-in before the first step and the tail after the last
    one, which is all of the analysed time (`Window`).
    All recorded work is cut at the edges of the selected time, as if the trace were cut there: what
    crosses an edge counts with its part inside.
    """

    steps: tuple[int, ...]
    """Numbers of ProfilerSteps; all analysed ones if empty."""
    windows_ns: tuple[tuple[int, WindowNs], ...]
    """Window of each rank of the job on its own clock; empty for all of the time."""

    @classmethod
    def of(
        cls,
        job: Job,
        ranks: Iterable[int],
        *,
        steps: Iterable[int] | None = None,
        window_ns: Sequence[int] | None = None,
    ) -> TimeSelection | None:
        """Check the selection; None if it is everything.

        Parameters
        ----------
        ranks : iterable of int
            One of them must have each step.
        steps : iterable of int, optional
            All if not given or empty.
        window_ns : pair of int, optional
            Start and end (ns) since the first event of all ranks, on the common clock.

        Raises
        ------
        UnknownStepError
            If none of the ranks has one of the steps.
        ParameterError
            If the window has no length.
        """
        numbers = tuple(sorted(map(int, whole_numbers("steps", steps))))
        window = checked_window(window_ns)
        if numbers:
            _check_steps(numbers, job.reduce(numbered_steps, ranks).values())
        if not numbers and window is None:
            return None
        return cls(numbers, _own_windows(job, window))

    def window_of(self, rank: Rank) -> WindowNs | None:
        """The window on the rank's own clock."""
        return dict(self.windows_ns).get(rank.trace.rank)

    def time(self, rank: Rank, device: int) -> Intervals:
        """The time of a device that counts."""
        if device not in rank.gpu_work.devices:
            return Intervals.union([], [])
        whole = window_of(rank)
        counted = Intervals.union([begin_on(rank, device)], [whole.end_ns])
        if self.steps:
            edges = whole.step_edges(rank, device)
            chosen = np.isin(whole.steps, self.steps)
            counted = Intervals.union(edges[:-1][chosen], edges[1:][chosen])
        window = self.window_of(rank)
        return counted if window is None else counted.clip(*window)

    def counts(self, work: GpuWork) -> Mask:
        """Which pieces of work count: each once, however many parts of it are here."""
        counted = np.ones(len(work), dtype=np.bool_)
        if self.steps:
            _, first = np.unique(work.rows, return_index=True)
            counted[:] = False
            counted[first] = True
        return counted

    def holds(self, rank: Rank, asked_ns: Times) -> Mask:
        """Whether what the host asks for at these times (own clock) counts, by step and window."""
        return self.asked_time(rank).covers(asked_ns)

    def asked_time(self, rank: Rank) -> Intervals:
        """When the host asks for what counts; on the host, a step is the time of its mark."""
        asked = ANY_TIME if not self.steps else self._asked_in_steps(rank)
        window = self.window_of(rank)
        return asked if window is None else asked.clip(*window)

    def _asked_in_steps(self, rank: Rank) -> Intervals:
        """When the host asks for the work of the steps; the first and last are open-ended."""
        whole = window_of(rank)
        edges = np.concatenate((ANY_TIME.starts, whole.step_start_ns[1:], ANY_TIME.ends))
        chosen = np.isin(whole.steps, self.steps)
        return Intervals.union(edges[:-1][chosen], edges[1:][chosen])


EVERYTHING: Final = TimeSelection((), ())
"""The time of all analysed steps."""


def place_of(selection: TimeSelection | None) -> str:
    """Where nothing was found, in words."""
    return "on the selected ranks" + ("" if selection is None else " in the selected time")


def remember(
    rank: Rank,
    function: Callable[[Rank, TimeSelection | None], Answer],
    selection: TimeSelection | None,
) -> Answer:
    """Result of a function of a rank and a selection, kept for the last selection only.

    Results for all of the time stay with the rank.
    """
    if selection is None:
        return rank.remember(function, None)
    answers = rank.remember(_last_answers)
    if function not in answers or answers[function][0] != selection:
        answers[function] = selection, function(rank, selection)
    return cast("Answer", answers[function][1])


def _last_answers(_: Rank) -> dict[Callable[..., object], tuple[TimeSelection, object]]:
    return {}


def selected_work(rank: Rank, selection: TimeSelection | None) -> dict[int, GpuWork]:
    """Work of each device, cut at the edges of the selection; all analysed work without one."""
    return rank.gpu_work.by_device() if selection is None else remember(rank, _cut_work, selection)


def _cut_work(rank: Rank, selection: TimeSelection | None) -> dict[int, GpuWork]:
    by_device = rank.gpu_work.by_device()
    if selection is None:
        return by_device
    return {
        device: _cut_work_of(rank, device, selection.time(rank, device)) for device in by_device
    }


def _cut_work_of(rank: Rank, device: int, counted: Intervals) -> GpuWork:
    near = [_near(each, counted) for each in rank.analysed_and_left_out(device)]
    return _cut(GpuWork.joined(near), counted)


def _near(work: GpuWork, counted: Intervals) -> GpuWork:
    """Work that may be inside, in the same order: only a little in a short window."""
    if not len(counted):
        return work.take(np.zeros(0, dtype=np.int64))
    begins = work.start_ns < counted.ends[-1]
    return work.take(np.flatnonzero(begins & (work.end_ns >= counted.starts[0])))


def selected_times(rank: Rank, selection: TimeSelection | None) -> dict[int, GpuTime]:
    """Time of each device; with a selection, its span is all of the time that counts."""
    if selection is None:
        return rank.remember(gpu_times)
    return {
        device: _time_of(selection.time(rank, device), work, has_steps=len(rank.steps) > 0)
        for device, work in selected_work(rank, selection).items()
    }


def _time_of(counted: Intervals, work: GpuWork, *, has_steps: bool) -> GpuTime:
    busy_ns = work.busy.length
    if not has_steps:
        return GpuTime(counted.length, busy_ns, 0, 0, 0)
    computing_ns = work.busy_by_type[KernelType.COMPUTATION].length
    return GpuTime(counted.length, busy_ns, counted.length, busy_ns, computing_ns)


def _cut(work: GpuWork, counted: Intervals) -> GpuWork:
    """The parts of each piece of work that are inside; work of no duration counts at its start."""
    first = np.searchsorted(counted.ends, work.start_ns, side="right")
    reached_ns = np.maximum(work.end_ns, work.start_ns + 1)
    parts = np.maximum(np.searchsorted(counted.starts, reached_ns, side="left") - first, 0)
    if parts.max(initial=0) > 1:
        piece = np.repeat(np.arange(len(work)), parts)
        part = np.arange(piece.size) - np.repeat(np.cumsum(parts) - parts, parts)
        interval = first[piece] + part
    else:
        piece = np.flatnonzero(parts)
        interval = first[piece]
    cut = work.take(piece)
    start_ns = np.maximum(cut.start_ns, counted.starts[interval])
    return cut.timed(start_ns, np.minimum(cut.end_ns, counted.ends[interval]) - start_ns)


def checked_window(window_ns: Sequence[int] | None) -> WindowNs | None:
    """Check that a window has a length."""
    if window_ns is None:
        return None
    try:
        start, end = (int(edge) for edge in window_ns)
    except (TypeError, ValueError):
        start, end = 0, 0
    if end <= start:
        msg = f"window_ns must be (start, end) with start < end, got {window_ns}"
        raise ParameterError(msg)
    return start, end


def _own_windows(job: Job, window_ns: WindowNs | None) -> tuple[tuple[int, WindowNs], ...]:
    if window_ns is None:
        return ()
    start, end = window_ns
    offsets_ns = common_offsets_ns(job)
    return tuple((rank, (start - ns, end - ns)) for rank, ns in offsets_ns.items())


def _check_steps(asked: tuple[int, ...], known: Iterable[tuple[int, ...]]) -> None:
    steps = set[int]().union(*known)
    if not steps >= set(asked):
        raise UnknownStepError.from_steps(asked, steps)
