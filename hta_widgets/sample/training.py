"""What one rank does in a training step, and where it waits for the other ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count

from hta_widgets.sample.cluster import Program
from hta_widgets.sample.communication import Communication, Group, Network, all_reduce
from hta_widgets.sample.kernels import (
    GpuWork,
    copy_to_device,
    copy_to_host,
)
from hta_widgets.sample.model import (
    BATCH,
    IMAGE_ELEMENTS,
    Bucket,
    adamw,
    scale_images,
    vision_transformer,
)
from hta_widgets.sample.process import COMPUTE_STREAM, COPY_STREAM, NCCL_STREAM, Process

FIRST_STEP = 10
STRAGGLER_SLOWDOWN = 1.25
LOADER_NS = 150_000
STARVED_LOADER_NS = 6_000_000
STARVED_EVERY = 2
NETWORK_BYTES_PER_NS = 12

_LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
_PYTHON_NODE_NS = 3_500
_PYTHON_OPTIMIZER_NS = 2_000
_PYTHON_STEP_NS = 20_000
_AUTOGRAD_NODE_NS = 1_200
_CLEAR_GRADIENT_NS = 500

_NETWORK = Network(NETWORK_BYTES_PER_NS)
_adamw = cache(adamw)


@dataclass(frozen=True)
class SampleJob:
    """The size of a job."""

    ranks: int
    steps: int
    layers: int
    seed: int

    @property
    def group(self) -> Group:
        """All ranks."""
        return Group("0", "default_pg", tuple(range(self.ranks)))

    def kernel_factor(self, rank: int, step: int, work: GpuWork) -> float:  # noqa: ARG002
        """Return the factor on the kernel durations of a rank: the last one is the straggler."""
        return STRAGGLER_SLOWDOWN if rank == self.ranks - 1 > 0 else 1.0

    def transfer_ns(self, rank: int, step: int, part: Communication) -> int:  # noqa: ARG002
        """Return how long a collective takes once all ranks have come, in ns."""
        return _NETWORK.transfer_ns(rank, part)


def is_starved(step: int) -> bool:
    """Whether the data loader is late in a step, counted from 0."""
    return step % STARVED_EVERY == STARVED_EVERY - 1


def transfer_ns(elements: int, ranks: int) -> int:
    """Return the time (ns) of a ring all-reduce of gradients once all ranks have arrived."""
    group = Group("0", "default_pg", tuple(range(ranks)))
    return _NETWORK.transfer_ns(0, all_reduce(group, elements))


class Training:
    """The training loop of one rank."""

    def __init__(self, job: SampleJob, process: Process) -> None:
        self._job = job
        self._process = process
        self._buckets = vision_transformer(job.layers)
        self._nodes = [node for bucket in self._buckets for node in bucket.nodes]

    def run(self) -> Program:
        """Train."""
        process = self._process
        for step in range(self._job.steps):
            with process.profiler_step(FIRST_STEP + step, step):
                self._load_batch(step)
                self._forward(step)
                yield from self._backward(step)
                yield from self._read_loss()
                self._optimize()
            process.spend(_PYTHON_STEP_NS)
        yield from process.synchronize("cudaDeviceSynchronize", process.streams)

    def _load_batch(self, step: int) -> None:
        process = self._process
        with process.annotation(_LOADER):
            process.wait(STARVED_LOADER_NS if is_starved(step) else LOADER_NS)
        for number_of_bytes in (IMAGE_ELEMENTS, BATCH * 8):
            with process.op("aten::to"), process.op("aten::_to_copy"), process.op("aten::copy_"):
                process.issue(copy_to_device(number_of_bytes), COPY_STREAM)
        process.order_streams(COPY_STREAM, COMPUTE_STREAM)

    def _forward(self, step: int) -> None:
        process = self._process
        with process.annotation("Optimizer.zero_grad#AdamW.zero_grad"):
            process.spend(_CLEAR_GRADIENT_NS * len(self._nodes))
        with process.annotation("## forward ##"):
            process.run(scale_images())
            for sequence, node in enumerate(self._nodes, start=step * len(self._nodes)):
                process.run(node.forward, _autograd(sequence, 0), ("s", sequence + 1))
                process.spend(_PYTHON_NODE_NS)

    def _backward(self, step: int) -> Program:
        process = self._process
        sequences = count((step + 1) * len(self._nodes) - 1, -1)
        with process.annotation("## backward ##"), process.on_thread(process.autograd_tid):
            process.spend(_PYTHON_NODE_NS)
            for bucket in reversed(self._buckets):
                self._differentiate(bucket, sequences)
                yield from self._accumulate(bucket.parameters)
            process.order_streams(NCCL_STREAM, COMPUTE_STREAM)

    def _differentiate(self, bucket: Bucket, sequences: count[int]) -> None:
        process = self._process
        for node, sequence in zip(reversed(bucket.nodes), sequences, strict=False):
            details = _autograd(sequence, 1)
            with process.op(f"autograd::engine::evaluate_function: {node.backward.name}", details):
                process.run(node.backward, details, ("f", sequence + 1))
            process.spend(_AUTOGRAD_NODE_NS)

    def _accumulate(self, parameters: Sequence[int]) -> Program:
        process = self._process
        accumulate = "torch::autograd::AccumulateGrad"
        for waiting in reversed(range(len(parameters))):
            with process.op(f"autograd::engine::evaluate_function: {accumulate}"):
                with process.op(accumulate):
                    pass
                if not waiting:
                    process.communicate(all_reduce(self._job.group, sum(parameters)))
                    yield None

    def _read_loss(self) -> Program:
        process = self._process
        with process.op("aten::item"), process.op("aten::_local_scalar_dense"):
            process.issue(copy_to_host(4))
            yield from process.synchronize("cudaStreamSynchronize", [COMPUTE_STREAM])

    def _optimize(self) -> None:
        process = self._process
        with process.annotation("Optimizer.step#AdamW.step"):
            for node in self._nodes:
                for elements in node.parameters:
                    for op in _adamw(elements):
                        process.spend(_PYTHON_OPTIMIZER_NS)
                        process.run(op)


def _autograd(sequence: int, forward_thread: int) -> str:
    return f'"Sequence number": {sequence}, "Fwd thread id": {forward_thread}, '
