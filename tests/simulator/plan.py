"""What a job does and what the machines that run it are like. The defaults are healthy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from hta_widgets.sample import Recording
from hta_widgets.sample.communication import Communication, Group
from hta_widgets.sample.kernels import GpuWork
from hta_widgets.sample.recorder import Clock
from tests.simulator.communication import Network
from tests.simulator.decoder import Decoder

Layout = Literal["data_parallel", "sharded", "pipeline", "experts", "decode"]
LAYOUTS: Final[tuple[Layout, ...]] = get_args(Layout)


@dataclass(frozen=True)
class PlannedRecording(Recording):
    """What the profiler of a planned job writes."""

    operators: bool = True
    """Operators; without them, kernels have no collective fields either."""
    annotations: bool = True
    """``record_function`` blocks, steps included."""
    steps: bool = True
    """``ProfilerStep#N``."""
    synchronization: bool = False
    """What streams and the CPU wait for (``enable_cuda_sync_events``)."""

    def writes(self, category: str, name: str) -> bool:
        """Whether the profiler writes a CPU event."""
        if category == "user_annotation":
            return self.annotations and (self.steps or not name.startswith("ProfilerStep#"))
        return self.operators


@dataclass(frozen=True)
class Throttling:
    """GPUs that lower their clock: kernels take longer from a step on."""

    ranks: tuple[int, ...]
    first_step: int
    factor: float


@dataclass(frozen=True)
class LateBatches:
    """Batches that the data loader has not ready; ``every`` counts steps."""

    ranks: tuple[int, ...]
    late_ns: int
    every: int = 1
    in_process: bool = False
    """Whether the process prepares them itself, with operators, instead of waiting for workers."""


@dataclass(frozen=True)
class Pause:
    """A stretch in which the CPU of a rank does something else; ``layer`` is where in forward."""

    rank: int
    step: int
    pause_ns: int
    layer: int = 1
    in_backward: bool = False


@dataclass(frozen=True)
class Plan:
    """A job: layout, model, program, hosts, machines, and what is recorded.

    Attributes
    ----------
    layers, tokens
        Transformer layers of the network, and tokens in a rank's batch.
    read_loss_late
        Whether each step reads the loss of the step before, instead of its own.
    """

    layout: Layout = "data_parallel"
    ranks: int = 4
    steps: int = 5
    seed: int = 0

    decoder: Decoder = field(default_factory=Decoder)
    layers: int = 4
    tokens: int = 8_192
    micro_batches: int = 32
    pipelines: int = 1
    replicas: int = 1
    """How many groups of ranks hold all shards, in the sharded layout."""
    stage_layers: tuple[int, ...] = ()
    token_factors: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """Of the tokens, by (rank, step)."""
    expert_load: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    """Share of the tokens that goes to each rank's experts, by step; equal where not given."""

    overlapped: bool = True
    fused_optimizer: bool = True
    cuda_graph: bool = True
    read_loss_late: bool = False
    host_work: bool = False
    """Whether the host computes something between the layers of forward."""
    synced_layers: bool = False
    """Whether the host reads a value of each layer of forward."""
    idle_syncs: int = 0
    autotuned_steps: tuple[int, ...] = ()
    cold_steps: tuple[int, ...] = ()
    host_copy_bytes: int = 0
    pageable: bool = False
    idle_stream: bool = False

    late_batches: LateBatches | None = None
    pauses: tuple[Pause, ...] = ()
    allocator_retries: Mapping[int, int] = field(default_factory=dict)
    """How often a step of a rank runs out of cached memory, by rank."""
    first_step_ns: int = 0
    checkpoint_ns: int = 0
    """Time between the start of the recording and its first step."""
    autotuned_before: bool = False

    gpu_factors: Mapping[int, float] = field(default_factory=dict)
    throttling: Throttling | None = None
    network: Network = field(default_factory=lambda: Network(200))
    disturbed_network: Network | None = None
    disturbed_steps: tuple[int, ...] = ()

    recording: PlannedRecording = field(default_factory=PlannedRecording)
    recorded_ranks: tuple[int, ...] | None = None
    clocks: Mapping[int, Clock] = field(default_factory=dict)

    @property
    def files(self) -> tuple[int, ...]:
        """The ranks that are recorded."""
        return self.recorded_ranks or tuple(range(self.ranks))

    @property
    def world(self) -> Group:
        """All ranks."""
        return Group("0", "default_pg", tuple(range(self.ranks)))

    @property
    def stages(self) -> int:
        """Number of stages of each pipeline."""
        return self.ranks // self.pipelines

    def pipeline_of(self, rank: int) -> Group:
        """Return the ranks that are stages of one pipeline with a rank."""
        place = rank % self.pipelines
        ranks = tuple(range(place, self.ranks, self.pipelines))
        return Group(f"{1 + place}", "PIPELINE_MODEL_PARALLEL_GROUP", ranks)

    def copies_of(self, rank: int) -> Group:
        """Return the ranks that hold the same stage as a rank."""
        stage = rank // self.pipelines
        ranks = tuple(range(stage * self.pipelines, (stage + 1) * self.pipelines))
        return Group(f"{1 + self.pipelines + stage}", "DATA_PARALLEL_GROUP", ranks)

    def shards_of(self, rank: int) -> Group:
        """Return the ranks that hold the shards of a layer together with a rank."""
        if self.replicas == 1:
            return self.world
        size = self.ranks // self.replicas
        first = rank // size * size
        return Group(f"{1 + rank // size}", "mesh_shard", tuple(range(first, first + size)))

    def replicas_of(self, rank: int) -> Group:
        """Return the ranks that hold the same shard as a rank."""
        size = self.ranks // self.replicas
        ranks = tuple(range(rank % size, self.ranks, size))
        return Group(f"{1 + self.replicas + rank % size}", "mesh_replicate", ranks)

    def groups_of(self, rank: int) -> tuple[Group, ...]:
        """Return the process groups of a rank."""
        if self.layout == "pipeline":
            return (self.world, self.pipeline_of(rank), self.copies_of(rank))
        if self.replicas > 1:
            return (self.world, self.shards_of(rank), self.replicas_of(rank))
        return (self.world,)

    @property
    def culprit(self) -> int:
        """The rank that is to blame where one is."""
        return (7 * self.seed + 1) % self.ranks

    def tokens_of(self, rank: int, step: int) -> int:
        """Return the number of tokens in a rank's batch."""
        return int(self.tokens * self.token_factors.get((rank, step), 1.0))

    def kernel_factor(self, rank: int, step: int, work: GpuWork) -> float:
        """Return how many times longer than on a healthy GPU a kernel takes."""
        factor = self.gpu_factors.get(rank, 1.0)
        hot = self.throttling
        if hot and rank in hot.ranks and step >= hot.first_step:
            factor *= 1 + (hot.factor - 1) * (0.35 if _is_memory_bound(work) else 1.0)
        return factor

    def transfer_ns(self, rank: int, step: int, part: Communication) -> int:
        """Return how long a communication takes once all ranks have come, in ns."""
        network = self.network
        if self.disturbed_network and step in self.disturbed_steps:
            network = self.disturbed_network
        return network.transfer_ns(rank, part)


def _is_memory_bound(work: GpuWork) -> bool:
    """Whether a kernel waits for memory rather than for the clock of the multiprocessors."""
    names = ("elementwise", "layer_norm", "GammaBeta", "reduce_kernel", "multi_tensor", "SoftMax")
    return any(name in work.name for name in names)
