"""Time of a GPU, measured in two ways: over the span of its work, and over the analysed steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.time.window import begin_on, window_of
from hta_widgets.intervals import Intervals
from hta_widgets.quantities import duration, percent
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

NOTEWORTHY_POINTS: Final = 2
"""Percentage points by which the two idle shares must differ to be reported."""


class GpuTime(NamedTuple):
    """Time of one GPU, or of several together.

    The analysed steps start when the CPU starts them, before the first GPU operation, and end with
    the CPU or their last GPU operation. Work of the step that is left out counts as busy time here.
    """

    span_ns: int
    """Time from the first start to the last end of GPU work."""
    busy_ns: int
    """Part of the span with any work running."""
    steps_ns: int
    """Time from the start to the end of the steps, without a lead-in (`begin_on`); 0 without
    ProfilerSteps."""
    steps_busy_ns: int
    """Part of the steps with any work running."""
    steps_compute_ns: int
    """Part of the steps with a COMPUTATION kernel running."""


def gpu_times(rank: Rank) -> dict[int, GpuTime]:
    """Time of each device of a rank, by device."""
    devices = rank.gpu_work.by_device()
    return {device: _gpu_time(rank, device, work) for device, work in devices.items()}


def other_steps(times: Iterable[GpuTime]) -> GpuTime | None:
    """Add up GPUs, if the idle share of their steps differs from that of their GPU spans.

    None if the shares differ by at most `NOTEWORTHY_POINTS`, or if a GPU with work has no steps.
    """
    working = [each for each in times if each.span_ns]
    if not working or not all(each.steps_ns for each in working):
        return None
    total = GpuTime(*map(sum, zip(*working, strict=True)))
    difference = total.busy_ns / total.span_ns - total.steps_busy_ns / total.steps_ns
    return total if 100 * abs(difference) > NOTEWORTHY_POINTS else None


def span_in_words(gpus: int, *, is_selected: bool) -> str:
    """What `GpuTime.span_ns` covers: the GPU span, or all of the selected time."""
    if is_selected:
        return "the selected time"
    return "the GPU span" if gpus == 1 else "their GPU spans"


def over_steps(times: Iterable[GpuTime]) -> str:
    """Sentence about `other_steps`, with a leading space; empty if there are none."""
    working = [each for each in times if each.span_ns]
    total = other_steps(working)
    if total is None:
        return ""
    longer, idle_ns = total.steps_ns > total.span_ns, total.steps_ns - total.steps_busy_ns
    return (
        f" Over the analysed time, which {'lasts longer' if longer else 'is shorter'}, "
        f"{'the GPU is' if len(working) == 1 else 'the GPUs are'} idle "
        f"{percent(100 * idle_ns / total.steps_ns)} ({duration(idle_ns)} of "
        f"{duration(total.steps_ns)}) and computing "
        f"{percent(100 * total.steps_compute_ns / total.steps_ns)}."
    )


def _gpu_time(rank: Rank, device: int, work: GpuWork) -> GpuTime:
    if not (len(rank.steps) and len(rank.gpu_work)):
        return GpuTime(work.span_ns, work.busy.length, 0, 0, 0)
    start_ns, end_ns = begin_on(rank, device), window_of(rank).end_ns
    left_out = rank.left_out_work.take(np.flatnonzero(rank.left_out_work.device == device))
    computes = left_out.take(np.flatnonzero(left_out.type == KernelType.COMPUTATION))
    computing = work.busy_by_type[KernelType.COMPUTATION]
    return GpuTime(
        span_ns=work.span_ns,
        busy_ns=work.busy.length,
        steps_ns=end_ns - start_ns,
        steps_busy_ns=_time_within(start_ns, end_ns, work.busy, left_out.busy),
        steps_compute_ns=_time_within(start_ns, end_ns, computing, computes.busy),
    )


def _time_within(start_ns: int, end_ns: int, covered: Intervals, left_out: Intervals) -> int:
    """Time (ns) of the steps that is covered, or in which left-out work runs."""
    more = left_out.clip(start_ns, end_ns)
    first, last = (int(each) for each in covered.covered_until(np.array([start_ns, end_ns])))
    both = covered.covered_until(more.ends) - covered.covered_until(more.starts)
    return last - first + more.length - int(both.sum())
