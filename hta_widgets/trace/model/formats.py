"""The formats that traces come in, and what some of them do not hold."""

from __future__ import annotations

from enum import Enum


class Recorded(Enum):
    """What a profiler may record; the value names it in a sentence."""

    KERNELS = "kernels with names, streams and launches"
    OPERATORS = "operators"
    PROFILER_STEPS = "ProfilerSteps"
    COUNTERS = "CUPTI counters"


class TraceFormat(Enum):
    """A format; the value names one source of it in a sentence."""

    KINETO = "a PyTorch-profiler trace"
    NSYS = "an Nsight Systems export"
    NSYS_RECIPE = "a folder of the Nsight Systems overlap recipe"
    CUPTI_CSV = "a folder of CUPTI tables"

    @property
    def lacks(self) -> frozenset[Recorded]:
        """What no trace of this format holds of its own; NVTX ranges may make up for it."""
        return _LACKS[self]


_LACKS = {
    TraceFormat.KINETO: frozenset[Recorded](),
    TraceFormat.NSYS: frozenset(set(Recorded) - {Recorded.KERNELS}),
    TraceFormat.NSYS_RECIPE: frozenset(Recorded),
    TraceFormat.CUPTI_CSV: frozenset(set(Recorded) - {Recorded.KERNELS}),
}
