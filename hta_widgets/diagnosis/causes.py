"""All causes that a diagnosis looks for, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hta_widgets.diagnosis.cause import Cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.finding import Finding
from hta_widgets.diagnosis.rules.allocator_retries import allocator_retries
from hta_widgets.diagnosis.rules.autotuning import autotuning
from hta_widgets.diagnosis.rules.blocking_sync import blocking_sync
from hta_widgets.diagnosis.rules.cause_not_found import (
    communication_without_cause,
    copies_without_cause,
    idle_without_cause,
)
from hta_widgets.diagnosis.rules.expert_imbalance import expert_imbalance
from hta_widgets.diagnosis.rules.exposed_communication import exposed_communication
from hta_widgets.diagnosis.rules.gpu_throttling import gpu_throttling
from hta_widgets.diagnosis.rules.host_pause import host_pause
from hta_widgets.diagnosis.rules.input_starvation import input_starvation
from hta_widgets.diagnosis.rules.launch_bound import launch_bound
from hta_widgets.diagnosis.rules.layout_transposes import layout_transposes
from hta_widgets.diagnosis.rules.missing_rank import missing_rank
from hta_widgets.diagnosis.rules.no_tensor_cores import no_tensor_cores
from hta_widgets.diagnosis.rules.pipeline_bubble import pipeline_bubble
from hta_widgets.diagnosis.rules.prefill_stall import prefill_stall
from hta_widgets.diagnosis.rules.preprocessing import preprocessing
from hta_widgets.diagnosis.rules.profiler_overhead import profiler_overhead
from hta_widgets.diagnosis.rules.slow_gpu import slow_gpu
from hta_widgets.diagnosis.rules.slow_host_copies import slow_host_copies
from hta_widgets.diagnosis.rules.slow_link import slow_link
from hta_widgets.diagnosis.rules.slow_shape import slow_shape
from hta_widgets.diagnosis.rules.stage_imbalance import stage_imbalance
from hta_widgets.diagnosis.rules.step_gap import step_gap
from hta_widgets.diagnosis.rules.unfused_elementwise import unfused_elementwise
from hta_widgets.diagnosis.rules.warm_up import warm_up
from hta_widgets.diagnosis.rules.workload_imbalance import workload_imbalance

Rule = Callable[[Context], Finding | None]

FIRST_CAUSES: Final = (autotuning, warm_up)
"""Steps in which they find something are hidden from the other causes."""

OTHER_CAUSES: Final = (
    input_starvation,
    preprocessing,
    allocator_retries,
    profiler_overhead,
    prefill_stall,
    step_gap,
    host_pause,
    launch_bound,
    blocking_sync,
    slow_host_copies,
    expert_imbalance,
    slow_gpu,
    gpu_throttling,
    workload_imbalance,
    stage_imbalance,
    slow_link,
    pipeline_bubble,
    exposed_communication,
    no_tensor_cores,
    slow_shape,
    layout_transposes,
    unfused_elementwise,
)
"""In the order in which they are checked."""

ALL_CAUSES: Final[tuple[Cause, ...]] = (*FIRST_CAUSES, *OTHER_CAUSES, missing_rank)

RULES: Final[tuple[Rule, ...]] = (
    *OTHER_CAUSES,
    communication_without_cause,
    idle_without_cause,
    copies_without_cause,
    missing_rank,
)
"""A loss without a known cause is reported as such, whether or not ranks are missing."""

SLOW_HOST_RULES: Final[tuple[Rule, ...]] = (step_gap, launch_bound, host_pause, idle_without_cause)
"""Not applied if waits are not recorded: a waiting host would look like a slow one."""
