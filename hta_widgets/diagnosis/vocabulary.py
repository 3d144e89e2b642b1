"""The causes that a diagnosis can name; it names no others."""

from __future__ import annotations

from typing import Final, Literal, get_args

Cause = Literal[
    "slow_gpu",
    "gpu_throttling",
    "input_starvation",
    "launch_bound",
    "exposed_communication",
    "slow_link",
    "workload_imbalance",
    "pipeline_bubble",
    "stage_imbalance",
    "expert_imbalance",
    "blocking_sync",
    "host_pause",
    "allocator_retries",
    "autotuning",
    "warm_up",
    "unfused_elementwise",
    "no_tensor_cores",
    "slow_host_copies",
    "profiler_overhead",
    "missing_rank",
]

CAUSES: Final[tuple[Cause, ...]] = get_args(Cause)

Confidence = Literal["measured", "inconclusive"]

Status = Literal["findings", "healthy", "cannot_tell", "no_gpu_work"]
"""What a diagnosis comes to."""

Workload = Literal["training", "cpu_only", "other"]
"""What kind of work was recorded, as far as it shows."""
