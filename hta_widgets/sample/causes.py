"""The causes that can be planted in a job, each with the healthy job that it is planted in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from hta_widgets.errors import ParameterError
from hta_widgets.sample import planting
from hta_widgets.sample.communication import Network
from hta_widgets.sample.decoder import Decoder
from hta_widgets.sample.plan import Layout, Plan

_BY_LAYOUT: Mapping[Layout, Mapping[str, object]] = {
    "data_parallel": {},
    "sharded": {"network": Network(400)},
    "pipeline": {"decoder": Decoder(hidden=4_096, vocabulary=2_048), "tokens": 16_384},
    "experts": {"network": Network(400)},
    "decode": {"layers": 12},
}
"""What the healthy job of each layout has beside the defaults."""


@dataclass(frozen=True)
class Cause:
    """A cause, and how it gets into a job.

    Attributes
    ----------
    plant
        Takes a healthy job and returns the same job with the cause.
    culprits
        The ranks to blame: all of them where everybody does the same; none where it is another
        one in each step.
    layouts
        Where it makes sense, the usual one first.
    healthy
        Changes the healthy job of a layout so that the cause is possible.
    leaves_out_culprit
        Whether nobody recorded the rank to blame, in the healthy job neither.
    """

    name: str
    plant: Callable[[Plan], Plan]
    culprits: Callable[[Plan], tuple[int, ...]]
    layouts: tuple[Layout, ...] = ("data_parallel", "sharded")
    healthy: Callable[[Plan], Plan] | None = None
    leaves_out_culprit: bool = False

    def healthy_plan(self, layout: Layout | None = None, **given: object) -> Plan:
        """Return the healthy job of a layout.

        Raises
        ------
        ParameterError
            If the cause makes no sense in the layout.
        """
        layout = layout or self.layouts[0]
        if layout not in self.layouts:
            msg = f"layout must be one of {', '.join(self.layouts)} for {self.name}, got {layout}"
            raise ParameterError(msg)
        plan = healthy_plan(layout, **given)
        if self.healthy:
            plan = self.healthy(plan)
        if not self.leaves_out_culprit:
            return plan
        recorded = tuple(rank for rank in range(plan.ranks) if rank != plan.culprit)
        return replace(plan, recorded_ranks=recorded)


def healthy_plan(layout: Layout = "data_parallel", **given: object) -> Plan:
    """Return a job of a layout in which nothing is wrong."""
    plan = replace(Plan(layout), **{**_BY_LAYOUT[layout], **given})  # type: ignore[arg-type]
    if layout != "pipeline":
        return plan
    return replace(plan, layers=-(-plan.layers // plan.stages) * plan.stages)


def cause_named(name: str) -> Cause:
    """Return the cause of a name.

    Raises
    ------
    ParameterError
        If there is none.
    """
    if name not in CAUSES:
        msg = f"cause must be one of {', '.join(CAUSES)}, got {name}"
        raise ParameterError(msg)
    return CAUSES[name]


_ALL: tuple[Layout, ...] = ("data_parallel", "sharded", "experts")
_LINKED: tuple[Layout, ...] = ("data_parallel", "pipeline", "experts", "sharded")
_LAUNCHED: tuple[Layout, ...] = ("data_parallel", "decode")
_PIPELINE: tuple[Layout, ...] = ("pipeline",)
_HIDDEN: tuple[Layout, ...] = ("data_parallel", "sharded")
_CAUSES = (
    Cause("slow_gpu", planting.slow_gpu, planting.culprit, _ALL),
    Cause("gpu_throttling", planting.gpu_throttling, planting.hot_ranks),
    Cause("input_starvation", planting.input_starvation, planting.starved_ranks, _ALL),
    Cause(
        "launch_bound",
        planting.launch_bound,
        planting.everybody,
        _LAUNCHED,
        planting.with_short_kernels,
    ),
    Cause(
        "exposed_communication",
        planting.exposed_communication,
        planting.everybody,
        _HIDDEN,
        planting.with_slower_network,
    ),
    Cause(
        "slow_link",
        planting.slow_down_link,
        planting.slow_link_ranks,
        _LINKED,
        planting.with_two_stages,
    ),
    Cause("workload_imbalance", planting.workload_imbalance, planting.imbalanced_ranks),
    Cause(
        "pipeline_bubble",
        planting.pipeline_bubble,
        planting.everybody,
        _PIPELINE,
        planting.with_two_stages,
    ),
    Cause(
        "stage_imbalance",
        planting.stage_imbalance,
        planting.heavy_stage,
        _PIPELINE,
        planting.with_layers_to_move,
    ),
    Cause("expert_imbalance", planting.expert_imbalance, planting.imbalanced_ranks, ("experts",)),
    Cause(
        "blocking_sync", planting.blocking_sync, planting.everybody, _ALL, planting.with_host_work
    ),
    Cause("host_pause", planting.host_pause, planting.imbalanced_ranks, _ALL),
    Cause("allocator_retries", planting.allocator_retries, planting.short_of_memory),
    Cause("autotuning", planting.autotuning, planting.everybody),
    Cause("warm_up", planting.warm_up, planting.everybody),
    Cause("unfused_elementwise", planting.unfused_elementwise, planting.everybody),
    Cause("no_tensor_cores", planting.no_tensor_cores, planting.everybody),
    Cause(
        "slow_host_copies",
        planting.slow_host_copies,
        planting.everybody,
        healthy=planting.with_host_copies,
    ),
    Cause(
        "profiler_overhead",
        planting.profiler_overhead,
        planting.everybody,
        healthy=planting.with_short_kernels,
    ),
    Cause("missing_rank", planting.missing_rank, planting.culprit, leaves_out_culprit=True),
)
CAUSES: Final = {cause.name: cause for cause in _CAUSES}
"""By name."""
