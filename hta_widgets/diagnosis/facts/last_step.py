"""The last ProfilerStep of a rank, which is left out of the analysis."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hta_widgets.analyses.budget.device_steps import DeviceSteps
from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.rank import Rank

_MAY_COMPUTE = (KernelType.COMPUTATION, KernelType.CUDA_GRAPH)


class LastStep(NamedTuple):
    """A step that is left out because it comes last: the recording may end before it does.

    Attributes
    ----------
    number : int
    length_ns : int
        From the end of the step before to the end of its last recorded kernel that computes, as the
        lengths of the others are: at least what it took.
    is_complete : bool
        Whether that is all it took: its mark has an end, and all kernels that were launched in it
        have run.
    """

    number: int
    length_ns: int
    is_complete: bool


def last_step(rank: Rank, steps: DeviceSteps) -> LastStep | None:
    """The last step of a rank, None where it is analysed or nothing that it computes is recorded.

    Parameters
    ----------
    rank : Rank
    steps : DeviceSteps
        Those that are analysed.
    """
    marks, numbers = rank.steps, steps.window.steps
    if NO_STEP in numbers or not len(marks):
        return None
    place = int(np.argmax(marks.start_ns))
    number = int(marks.number[place])
    if number in numbers:
        return None
    launched_ns = rank.trace.events.start_ns[steps.work.launch]
    own = (steps.work.launch >= 0) & (launched_ns >= marks.start_ns[place])
    own &= (launched_ns < marks.end_ns[place]) & np.isin(steps.work.type, _MAY_COMPUTE)
    if not own.any():
        return None
    length_ns = int(steps.work.end_ns[own].max() - steps.edges[-1])
    return LastStep(number, length_ns, is_complete=not rank.health.lost.at_end)
