"""The step that each event belongs to."""

from __future__ import annotations

import numpy as np

from hta_widgets.arrays import Int64Array
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import GPU_SIDE, Kind, KindSet
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.model.steps import StepMarks
from hta_widgets.trace.ranks.rank import Rank

NO_ITERATION = -1

_LAUNCHED = KindSet(set(GPU_SIDE) - {Kind.GPU_ANNOTATION})


@asked_once
def steps_of_events(rank: Rank) -> Int64Array:
    """Number of the step of each event, by row; -1 for none.

    CPU events, and ranges that the profiler projected onto the GPU, belong to the latest step whose
    mark is open when they start. Work on the GPU belongs to the step of its launch call, on any
    stream.
    """
    return _found(rank, rank.steps)


def iterations(rank: Rank) -> Int64Array:
    """The same for ProfilerSteps only, as HTA counts them, whatever else marks steps."""
    is_same = rank.steps.source == "ProfilerStep"
    return steps_of_events(rank) if is_same else _found(rank, rank.profiler_steps)


def _found(rank: Rank, steps: StepMarks) -> Int64Array:
    events, launch = rank.trace.events, rank.launches
    on_gpu = _LAUNCHED.among(events.kind)
    asked = np.where(on_gpu & (launch >= 0), launch, np.arange(len(events)))
    found = _open_at(steps, events.start_ns[asked])
    found[on_gpu & (launch < 0)] = NO_ITERATION
    return found


def iterations_at(rank: Rank, times: Times) -> Int64Array:
    """Number of the latest ProfilerStep whose mark is open at each time; -1 for none."""
    return _open_at(rank.profiler_steps, times)


def _open_at(steps: StepMarks, times: Times) -> Int64Array:
    last = np.searchsorted(steps.start_ns, times, side="right") - 1
    ends = np.append(steps.end_ns, np.iinfo(np.int64).min)
    return np.where(times < ends[last], np.append(steps.number, NO_ITERATION)[last], NO_ITERATION)
