"""What one rank does in a training step, and where it waits for the other ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, count

from hta_widgets.sample.communication import LATENCY_NS, Communication, Group, all_reduce
from hta_widgets.sample.execution import Program
from hta_widgets.sample.kernels import BFLOAT16_BYTES, GpuWork, copy_to_host
from hta_widgets.sample.memory import make_all
from hta_widgets.sample.model import Bucket, adamw, load_batch, scale_images, vision_transformer
from hta_widgets.sample.operators import Op, tensor
from hta_widgets.sample.process import COMPUTE_STREAM, COPY_STREAM, NCCL_STREAM, Process
from hta_widgets.sample.python_functions import (
    BACKWARD,
    LEARN,
    LOAD,
    MODEL,
    NEXT_BATCH,
    OPTIMIZER,
    PROGRAM,
    UPDATE,
    WAIT_FOR_BATCH,
    ZERO_GRAD,
    Frames,
    Stack,
    in_place,
    node_stacks,
)

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
_PRODUCT_WORKSPACE_BYTES = 33_562_624

_adamw = cache(adamw)
_ITEM = Op("aten::item", inputs=(tensor(),))
_LOCAL_SCALAR = Op("aten::_local_scalar_dense", inputs=(tensor(),))


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
        """Return how long a collective takes once all ranks have arrived, in ns."""
        return LATENCY_NS + part.ring_bytes // NETWORK_BYTES_PER_NS


def is_starved(step: int) -> bool:
    """Whether the data loader is late in a step, counted from 0."""
    return step % STARVED_EVERY == STARVED_EVERY - 1


def transfer_ns(elements: int, ranks: int) -> int:
    """Return the time (ns) of a ring all-reduce of gradients once all ranks have arrived."""
    job = SampleJob(ranks, steps=1, layers=1, seed=0)
    return job.transfer_ns(0, 0, all_reduce(job.group, elements))


class Training:
    """The training loop of one rank."""

    def __init__(self, job: SampleJob, process: Process) -> None:
        self._job = job
        self._process = process
        self._frames = Frames(process.recorder, process.tid)
        self._tensors = process.tensors
        self._buckets = vision_transformer(job.layers)
        self._nodes = [node for bucket in self._buckets for node in bucket.nodes]
        self._stacks = node_stacks(job.layers)

    def run(self) -> Program:
        """Train."""
        process = self._process
        self._fill_memory()
        self._tensors.log = self._log_memory
        self._return_to(PROGRAM)
        for step in range(self._job.steps):
            with process.profiler_step(FIRST_STEP + step, step):
                self._load_batch(step)
                self._forward(step)
                yield from self._backward(step)
                yield from self._read_loss()
                self._optimize()
                self._return_to(PROGRAM)
            process.spend(_PYTHON_STEP_NS)
        yield from process.synchronize("cudaDeviceSynchronize", process.streams)
        self._frames.close(process.now_ns)

    def _fill_memory(self) -> None:
        """Make the permanent tensors, and those that a step before the recording left behind."""
        tensors = self._tensors
        sizes = [BFLOAT16_BYTES * size for node in self._nodes for size in node.parameters]
        buckets = [BFLOAT16_BYTES * sum(bucket.parameters) for bucket in self._buckets]
        tensors.keep([*sizes * 3, *buckets, _PRODUCT_WORKSPACE_BYTES])
        for op in (*load_batch(), scale_images()):
            make_all(tensors, op)
            tensors.done(0)
        tensors.pass_on()
        for node in self._nodes:
            make_all(tensors, node.forward)
            tensors.done(0)
            tensors.save()
        for node in reversed(self._nodes):
            make_all(tensors, node.backward)
            tensors.done(0)
            tensors.differentiated(0)
        for op in self._updates():
            make_all(tensors, op)
            tensors.done(0)

    def _load_batch(self, step: int) -> None:
        process = self._process
        self._call(NEXT_BATCH)
        with process.annotation(_LOADER):
            self._call(WAIT_FOR_BATCH)
            process.wait(STARVED_LOADER_NS if is_starved(step) else LOADER_NS)
            self._return_to(NEXT_BATCH)
        self._return_to(LOAD)
        for op in load_batch():
            process.run(op, stream=COPY_STREAM)
            self._tensors.done(process.now_ns)
        process.order_streams(COPY_STREAM, COMPUTE_STREAM)
        self._return_to(LEARN)

    def _forward(self, step: int) -> None:
        process, tensors = self._process, self._tensors
        with process.annotation("Optimizer.zero_grad#AdamW.zero_grad"):
            self._call(ZERO_GRAD)
            start_ns = process.now_ns
            process.spend(_CLEAR_GRADIENT_NS * len(self._nodes))
            tensors.zero_grad((start_ns, process.now_ns))
            self._return_to(LEARN)
        with process.annotation("## forward ##"):
            self._call(MODEL)
            process.run(scale_images())
            tensors.done(process.now_ns)
            tensors.pass_on()
            first = step * len(self._nodes)
            for sequence, (node, stack) in enumerate(
                zip(self._nodes, self._stacks, strict=True), start=first
            ):
                self._call(stack)
                process.run(node.forward, _autograd(sequence, 0), ("s", sequence + 1))
                tensors.done(process.now_ns)
                tensors.save()
                process.spend(_PYTHON_NODE_NS)
            self._call(LEARN)

    def _backward(self, step: int) -> Program:
        process = self._process
        sequences = count((step + 1) * len(self._nodes) - 1, -1)
        with process.annotation("## backward ##"):
            self._call(BACKWARD)
            with process.on_thread(process.autograd_tid):
                process.spend(_PYTHON_NODE_NS)
                for bucket in reversed(self._buckets):
                    self._differentiate(bucket, sequences)
                    yield from self._accumulate(bucket.parameters)
                process.order_streams(NCCL_STREAM, COMPUTE_STREAM)
            self._return_to(LEARN)

    def _differentiate(self, bucket: Bucket, sequences: count[int]) -> None:
        process = self._process
        for node, sequence in zip(reversed(bucket.nodes), sequences, strict=False):
            details = _autograd(sequence, 1)
            with process.op(f"autograd::engine::evaluate_function: {node.backward.name}", details):
                process.run(node.backward, details, ("f", sequence + 1))
                self._tensors.done(process.now_ns)
                self._tensors.differentiated(process.now_ns)
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
        item, scalar = (process.recorder.inputs_of(op) for op in (_ITEM, _LOCAL_SCALAR))
        with process.op(_ITEM.name, item), process.op(_LOCAL_SCALAR.name, scalar):
            process.issue(copy_to_host(4))
            yield from process.synchronize("cudaStreamSynchronize", [COMPUTE_STREAM])

    def _optimize(self) -> None:
        process = self._process
        self._return_to(UPDATE)
        with process.annotation("Optimizer.step#AdamW.step"):
            self._call(OPTIMIZER)
            for op in self._updates():
                process.spend(_PYTHON_OPTIMIZER_NS)
                self._call(in_place(op.name))
                process.run(op)
                self._tensors.done(process.now_ns)
            self._return_to(UPDATE)

    def _updates(self) -> Iterator[Op]:
        shapes = (shape for node in self._nodes for shape in node.shapes)
        return chain.from_iterable(map(_adamw, shapes))

    def _call(self, stack: Stack) -> None:
        """Move Python to a place in the program, in the time since the last other event."""
        process = self._process
        self._frames.change((process.called_until_ns, process.now_ns), stack)
        process.called_until_ns = process.now_ns

    def _return_to(self, stack: Stack) -> None:
        """Move Python to a place in the program, in no time."""
        self._frames.change((self._process.now_ns, self._process.now_ns), stack)

    def _log_memory(self, time_ns: int, change: int, address: int, totals: tuple[int, int]) -> None:
        process = self._process
        process.recorder.memory(process.tid, time_ns, change, totals, address)


def _autograd(sequence: int, forward_thread: int) -> str:
    return f'"Sequence number": {sequence}, "Fwd thread id": {forward_thread}, '
