"""The causes that can be planted: what each changes in a healthy job, and who is to blame.

The seed chooses variants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from hta_widgets.errors import ParameterError
from tests.simulator.communication import Network
from tests.simulator.decoder import Decoder
from tests.simulator.plan import LateBatches, Layout, Pause, Plan, Throttling

EVERY_SECOND_STEP, IN_PROCESS, OTHER_RANKS = 1, 2, 3
"""Variants by the seed: when batches are late, who prepares them, whether one rank or all."""
FEWEST_FOR_TWO_PIPELINES = 4


def everybody(plan: Plan) -> tuple[int, ...]:
    """Return all ranks."""
    return tuple(range(plan.ranks))


def culprit(plan: Plan) -> tuple[int, ...]:
    """Return the one rank to blame."""
    return (plan.culprit,)


def slow_gpu(plan: Plan) -> Plan:
    """Let all kernels of a rank take longer."""
    return replace(plan, gpu_factors={plan.culprit: 1.18 if plan.seed % 2 else 1.35})


def hot_ranks(plan: Plan) -> tuple[int, ...]:
    """Return the GPUs that are too hot: one, or all of them."""
    return everybody(plan) if _variant(plan) == OTHER_RANKS else culprit(plan)


def gpu_throttling(plan: Plan) -> Plan:
    """Let GPUs lower their clocks in the middle of the recording."""
    first = max(1, plan.steps // 2)
    return replace(plan, throttling=Throttling(hot_ranks(plan), first, 1.6))


def starved_ranks(plan: Plan) -> tuple[int, ...]:
    """Return the ranks whose batches are late: all, or one of them."""
    return culprit(plan) if _variant(plan) == OTHER_RANKS else everybody(plan)


def input_starvation(plan: Plan) -> Plan:
    """Let all batches be late or every second, prepare them in the process, or starve one rank."""
    every = 2 if _variant(plan) == EVERY_SECOND_STEP else 1
    in_process = _variant(plan) == IN_PROCESS
    late = LateBatches(starved_ranks(plan), 14_000_000, every, in_process)
    return replace(plan, late_batches=late)


def launch_bound(plan: Plan) -> Plan:
    """Launch many short kernels, instead of a few or a graph."""
    if plan.layout == "decode":
        return replace(plan, cuda_graph=False)
    return replace(plan, fused_optimizer=False)


def exposed_communication(plan: Plan) -> Plan:
    """Communicate when there is nothing left to compute."""
    return replace(plan, overlapped=False)


def slow_link(plan: Plan) -> tuple[int, int]:
    """Return the two ranks of the link that is slow."""
    if plan.layout == "pipeline":
        stage = plan.culprit // plan.pipelines % (plan.stages - 1)
        first = stage * plan.pipelines + plan.culprit % plan.pipelines
        return (first, first + plan.pipelines)
    ranks = plan.shards_of(plan.culprit).ranks
    place = ranks.index(plan.culprit) % (len(ranks) - 1)
    return (ranks[place], ranks[place + 1])


def slow_down_link(plan: Plan) -> Plan:
    """Let data take longer between two ranks; in a ring of all ranks, in every second step."""
    factor = 60.0 if plan.layout == "pipeline" else 14.0
    slow = replace(plan.network, link_factors={slow_link(plan): factor})
    if plan.layout in ("pipeline", "experts") or plan.replicas > 1:
        return replace(plan, network=slow)
    steps = tuple(range(1, plan.steps, 2))
    return replace(plan, disturbed_network=slow, disturbed_steps=steps)


def slow_link_ranks(plan: Plan) -> tuple[int, ...]:
    """In a ring, nothing tells which of its links is the slow one."""
    if plan.layout in ("pipeline", "experts"):
        return slow_link(plan)
    return plan.shards_of(plan.culprit).ranks


def workload_imbalance(plan: Plan) -> Plan:
    """Give one rank, or another in each step, a bigger batch."""
    factors = {(plan.culprit, step): 1.45 for step in range(plan.steps)}
    if plan.seed % 2:
        factors = {(step % plan.ranks, step): 1.6 for step in range(plan.steps)}
    return replace(plan, token_factors=factors)


def imbalanced_ranks(plan: Plan) -> tuple[int, ...]:
    """Return the rank to blame, or nobody where it is another one in each step."""
    return () if plan.seed % 2 else culprit(plan)


def pipeline_bubble(plan: Plan) -> Plan:
    """Cut the batch into as few micro-batches as there are stages."""
    return replace(plan, micro_batches=plan.stages)


def stage_imbalance(plan: Plan) -> Plan:
    """Move a layer from a stage to another one."""
    layers = [plan.layers // plan.stages] * plan.stages
    heavy = plan.culprit // plan.pipelines
    layers[heavy] += 1
    layers[heavy - plan.stages // 2] -= 1
    return replace(plan, stage_layers=tuple(layers))


def heavy_stage(plan: Plan) -> tuple[int, ...]:
    """Return the ranks of the stage with too many layers."""
    first = plan.culprit // plan.pipelines * plan.pipelines
    return tuple(range(first, first + plan.pipelines))


def expert_imbalance(plan: Plan) -> Plan:
    """Send the experts of one rank, or of another in each step, 2.2 times their share of tokens."""
    hot = 2.2 / plan.ranks
    other = (1 - hot) / (plan.ranks - 1)
    changes = plan.seed % 2

    def load(step: int) -> tuple[float, ...]:
        busy = (plan.culprit + changes * step) % plan.ranks
        return tuple(hot if rank == busy else other for rank in range(plan.ranks))

    return replace(plan, expert_load={step: load(step) for step in range(plan.steps)})


def blocking_sync(plan: Plan) -> Plan:
    """Read a value of each layer on the host."""
    return replace(plan, synced_layers=True)


def host_pause(plan: Plan) -> Plan:
    """Stop the host of one rank in every second step, or of another in each step."""
    if plan.seed % 2:
        ranks = [(plan.culprit + step) % plan.ranks for step in range(plan.steps)]
        return replace(
            plan,
            pauses=tuple(Pause(rank, step, 24_000_000, 1) for step, rank in enumerate(ranks)),
        )
    steps = range(1, plan.steps, 2)
    return replace(plan, pauses=tuple(Pause(plan.culprit, step, 40_000_000) for step in steps))


def short_of_memory(plan: Plan) -> tuple[int, ...]:
    """Return the ranks whose memory is full: all, or one of them."""
    return everybody(plan) if plan.seed % 2 else culprit(plan)


def allocator_retries(plan: Plan) -> Plan:
    """Let memory run out several times a step."""
    return replace(plan, allocator_retries=dict.fromkeys(short_of_memory(plan), 4))


def autotuning(plan: Plan) -> Plan:
    """Try kernels in every second step, as if the shapes had changed."""
    return replace(plan, autotuned_steps=tuple(range(0, plan.steps, 2)))


def warm_up(plan: Plan) -> Plan:
    """Record the first two steps of a compiled network."""
    return replace(plan, cold_steps=(0, 1))


def unfused_elementwise(plan: Plan) -> Plan:
    """Compute the activation with a kernel for each operation."""
    return replace(plan, decoder=replace(plan.decoder, fused_activation=False))


def no_tensor_cores(plan: Plan) -> Plan:
    """Multiply in float32: all matrices, or those of the head."""
    if plan.seed % 2:
        return replace(plan, decoder=replace(plan.decoder, fp32_head=True))
    return replace(plan, decoder=replace(plan.decoder, fp32_layers=True, fp32_head=True))


def slow_shape(plan: Plan) -> Plan:
    """Make feed-forward blocks wider by one."""
    width = 4 * plan.decoder.hidden + 1
    return replace(plan, decoder=replace(plan.decoder, width=width))


def layout_transposes(plan: Plan) -> Plan:
    """Keep images in the layout that convolutions do not take."""
    return replace(plan, decoder=replace(plan.decoder, images="NCHW"))


def slow_host_copies(plan: Plan) -> Plan:
    """Copy batches from pageable memory, when they are needed."""
    return replace(plan, pageable=True)


def profiler_overhead(plan: Plan) -> Plan:
    """Record Python functions and memory."""
    return replace(plan, recording=replace(plan.recording, stacks=True, memory=True))


def missing_rank(plan: Plan) -> Plan:
    """Slow the GPU of the rank that is not recorded."""
    return replace(plan, gpu_factors={plan.culprit: 1.5})


def with_short_kernels(plan: Plan) -> Plan:
    """Train a network whose kernels are about as short as their launches."""
    if plan.layout == "decode":
        return plan
    return replace(plan, decoder=replace(plan.decoder, hidden=1_024), layers=6, tokens=3_072)


def with_slower_network(plan: Plan) -> Plan:
    """Use a network on which communication is worth hiding."""
    return replace(plan, network=Network(130))


def with_images(plan: Plan) -> Plan:
    """Convolve images beside the text, in the layout that convolutions take."""
    return replace(plan, decoder=replace(plan.decoder, images="NHWC"))


def with_two_stages(plan: Plan) -> Plan:
    """Make several pipelines of two stages instead of a long one, if the seed is odd."""
    if plan.layout != "pipeline" or plan.seed % 2 == 0:
        return plan
    if plan.ranks % 2 or plan.ranks < FEWEST_FOR_TWO_PIPELINES:
        return plan
    return replace(plan, pipelines=plan.ranks // 2, micro_batches=16)


def with_layers_to_move(plan: Plan) -> Plan:
    """Give each stage two layers."""
    plan = with_two_stages(plan)
    micro_batches = min(plan.micro_batches, 6 * plan.stages)
    return replace(plan, layers=2 * plan.stages, micro_batches=max(micro_batches, 16))


def with_host_work(plan: Plan) -> Plan:
    """Let the host compute something between layers."""
    return replace(plan, host_work=True)


def with_host_copies(plan: Plan) -> Plan:
    """Copy big batches from pinned memory, a step ahead."""
    return replace(plan, host_copy_bytes=96 << 20)


def _variant(plan: Plan) -> int:
    return plan.seed % 4


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
    Cause("slow_gpu", slow_gpu, culprit, _ALL),
    Cause("gpu_throttling", gpu_throttling, hot_ranks),
    Cause("input_starvation", input_starvation, starved_ranks, _ALL),
    Cause(
        "launch_bound",
        launch_bound,
        everybody,
        _LAUNCHED,
        with_short_kernels,
    ),
    Cause(
        "exposed_communication",
        exposed_communication,
        everybody,
        _HIDDEN,
        with_slower_network,
    ),
    Cause(
        "slow_link",
        slow_down_link,
        slow_link_ranks,
        _LINKED,
        with_two_stages,
    ),
    Cause("workload_imbalance", workload_imbalance, imbalanced_ranks),
    Cause(
        "pipeline_bubble",
        pipeline_bubble,
        everybody,
        _PIPELINE,
        with_two_stages,
    ),
    Cause(
        "stage_imbalance",
        stage_imbalance,
        heavy_stage,
        _PIPELINE,
        with_layers_to_move,
    ),
    Cause("expert_imbalance", expert_imbalance, imbalanced_ranks, ("experts",)),
    Cause("blocking_sync", blocking_sync, everybody, _ALL, with_host_work),
    Cause("host_pause", host_pause, imbalanced_ranks, _ALL),
    Cause("allocator_retries", allocator_retries, short_of_memory),
    Cause("autotuning", autotuning, everybody),
    Cause("warm_up", warm_up, everybody),
    Cause("unfused_elementwise", unfused_elementwise, everybody),
    Cause("no_tensor_cores", no_tensor_cores, everybody),
    Cause(
        "slow_host_copies",
        slow_host_copies,
        everybody,
        healthy=with_host_copies,
    ),
    Cause(
        "profiler_overhead",
        profiler_overhead,
        everybody,
        healthy=with_short_kernels,
    ),
    Cause("missing_rank", missing_rank, culprit, leaves_out_culprit=True),
    Cause("layout_transposes", layout_transposes, everybody, healthy=with_images),
    Cause("slow_shape", slow_shape, everybody),
)
CAUSES: Final = {cause.name: cause for cause in _CAUSES}
"""By name."""
