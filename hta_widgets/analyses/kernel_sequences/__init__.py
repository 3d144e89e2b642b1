"""Which sequences of kernels an operator launches, and how often: candidates for fusion."""

from hta_widgets.analyses.kernel_sequences.analysis import (
    NO_PATTERN,
    KernelSequences,
    kernel_sequences,
    pattern_of_events,
)
from hta_widgets.analyses.kernel_sequences.launching_calls import operators_by_gpu_time

__all__ = [
    "NO_PATTERN",
    "KernelSequences",
    "kernel_sequences",
    "operators_by_gpu_time",
    "pattern_of_events",
]
