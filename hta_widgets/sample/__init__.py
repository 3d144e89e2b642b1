"""A synthetic training job with four planted bottlenecks.

`write_sample` simulates a vision transformer trained with data parallelism on H100 GPUs and
writes one PyTorch-profiler trace per rank, as Kineto does. These are the bottlenecks (numbers for
the default arguments; ``docs/sample-job.md`` explains where to see each of them):

A straggler
    Every kernel of the last rank takes 25 % longer (`STRAGGLER_SLOWDOWN`); the other ranks wait
    for it inside their all-reduces.
A starved data loader
    In every second step, the next batch comes 6 ms late on all ranks (`STARVED_LOADER_NS`), and
    the GPUs idle.
Exposed communication
    The all-reduce of the last bucket starts when backward has ended: nothing overlaps its 2 ms
    (`transfer_ns`), not even on the straggler.
Launch-bound optimizer
    AdamW is not fused: it launches hundreds of kernels of about 2 us each, with launch calls
    of about 5 us.
"""

from __future__ import annotations

from hta_widgets.sample.job import write_sample
from hta_widgets.sample.recorder import Recording
from hta_widgets.sample.training import (
    FIRST_STEP,
    STARVED_EVERY,
    STARVED_LOADER_NS,
    STRAGGLER_SLOWDOWN,
    SampleJob,
    is_starved,
    transfer_ns,
)

__all__ = [
    "FIRST_STEP",
    "STARVED_EVERY",
    "STARVED_LOADER_NS",
    "STRAGGLER_SLOWDOWN",
    "Recording",
    "SampleJob",
    "is_starved",
    "transfer_ns",
    "write_sample",
]
