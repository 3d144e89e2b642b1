"""One module a rule: from what is known to a finding, or to none.

A rule may read what the rules before it found (`Context.found`, `Context.removed`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.finding import Finding
from hta_widgets.diagnosis.rules import (
    allocator_retries,
    autotuning,
    blocking_sync,
    cause_not_found,
    expert_imbalance,
    exposed_communication,
    gpu_throttling,
    host_pause,
    input_starvation,
    launch_bound,
    missing_rank,
    no_tensor_cores,
    pipeline_bubble,
    profiler_overhead,
    slow_gpu,
    slow_host_copies,
    slow_link,
    stage_imbalance,
    unfused_elementwise,
    warm_up,
    workload_imbalance,
)

Rule = Callable[[Context], Finding | None]

FIRST_RULES: Final[tuple[Rule, ...]] = (autotuning.autotuning, warm_up.warm_up)
"""What they find in some steps, the others are not asked about these steps."""

HOST_RULES: Final[tuple[Rule, ...]] = (
    input_starvation.input_starvation,
    allocator_retries.allocator_retries,
    profiler_overhead.profiler_overhead,
    blocking_sync.blocking_sync,
    launch_bound.launch_bound,
    host_pause.host_pause,
    slow_host_copies.slow_host_copies,
)

DEVICE_RULES: Final[tuple[Rule, ...]] = (
    expert_imbalance.expert_imbalance,
    slow_gpu.slow_gpu,
    gpu_throttling.gpu_throttling,
    workload_imbalance.workload_imbalance,
    stage_imbalance.stage_imbalance,
    slow_link.slow_link,
    pipeline_bubble.pipeline_bubble,
    exposed_communication.exposed_communication,
    no_tensor_cores.no_tensor_cores,
    unfused_elementwise.unfused_elementwise,
    cause_not_found.cause_not_found,
    missing_rank.missing_rank,
)

RULES: Final[tuple[Rule, ...]] = (*HOST_RULES, *DEVICE_RULES)
"""In the order in which they are asked."""
