"""One rank of a job with one cause: what the training loop does in every layout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import count

from hta_widgets.sample.cluster import Program
from hta_widgets.sample.decoder import fused_adamw
from hta_widgets.sample.execution import Execution
from hta_widgets.sample.interruptions import Interruptions
from hta_widgets.sample.kernels import GpuWork, copy_to_device, copy_to_host
from hta_widgets.sample.operators import Node
from hta_widgets.sample.optimizer import adamw
from hta_widgets.sample.plan import Plan
from hta_widgets.sample.process import COMPUTE_STREAM, COPY_STREAM, Process

FIRST_STEP = 10
LOADER_NS = 120_000
PAGEABLE_BYTES_PER_NS = 8
_LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
_LOADER_IN_PROCESS = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
_PYTHON_NODE_NS = 3_500
_PYTHON_OPTIMIZER_NS = 2_000
_PYTHON_STEP_NS = 20_000
_AUTOGRAD_NODE_NS = 1_200
_FRAMES = (
    "torch/nn/modules/module.py(1773): _wrapped_call_impl",
    "torch/nn/modules/module.py(1784): _call_impl",
    "model/decoder.py(88): forward",
    "torch/nn/modules/linear.py(130): forward",
    "<built-in function linear>",
)
_FRAME_NS = 5_500

_adamw = cache(adamw)


class Worker(ABC):
    """The training loop of one rank."""

    def __init__(self, plan: Plan, process: Process) -> None:
        self.plan = plan
        self.process = process
        self.rank = process.rank
        self.interruptions = Interruptions(plan, process)
        self._sequence = count(1)
        self._frame = count(1)
        self._loss_read: Execution | None = None

    @abstractmethod
    def train(self, step: int) -> Program:
        """Run forward and backward, and sum the gradients."""

    @abstractmethod
    def parameters(self) -> Sequence[int]:
        """Return the number of elements of each parameter that this rank updates."""

    def run(self) -> Program:
        """Train."""
        process = self.process
        yield from self.interruptions.before_first_step()
        for step in range(self.plan.steps):
            with process.profiler_step(FIRST_STEP + step, step):
                yield from self.interruptions.at_begin_of_step(step)
                yield from self._load_batch(step)
                yield from self.train(step)
                self.optimize()
                yield from self._read_loss(step)
            process.spend(_PYTHON_STEP_NS)
        yield from process.synchronize("cudaDeviceSynchronize", process.streams)

    def forward(self, nodes: Iterable[Node]) -> list[tuple[Node, int]]:
        """Run nodes; return them with their sequence numbers, for `backward`."""
        done = []
        for node in nodes:
            number = next(self._sequence)
            with self._python():
                self.process.run(node.forward, _autograd(number, 0), ("s", number))
            self.process.spend(_PYTHON_NODE_NS)
            done.append((node, number))
        return done

    def backward(self, done: Sequence[tuple[Node, int]]) -> None:
        """Differentiate nodes, the last one first, on the thread of autograd."""
        process = self.process
        with process.on_thread(process.autograd_tid):
            for node, number in reversed(done):
                name = f"autograd::engine::evaluate_function: {node.backward.name}"
                details = _autograd(number, 1)
                with process.op(name, details):
                    process.run(node.backward, details, ("f", number))
                process.spend(_AUTOGRAD_NODE_NS)

    def _load_batch(self, step: int) -> Program:
        process, plan = self.process, self.plan
        late = plan.late_batches
        is_late = late and self.rank in late.ranks and step % late.every == late.every - 1
        if late and is_late and late.in_process:
            self._prepare_batch(late.late_ns)
        else:
            with process.annotation(_LOADER):
                process.spend(LOADER_NS)
                process.wait(late.late_ns if late and is_late else 0)
        tokens = plan.tokens_of(self.rank, step)
        with process.op("aten::to"), process.op("aten::_to_copy"), process.op("aten::copy_"):
            if plan.pageable and plan.host_copy_bytes:
                yield from process.copy_blocking(_pageable(plan.host_copy_bytes))
            process.issue(copy_to_device(tokens * 8), COPY_STREAM)
        process.order_streams(COPY_STREAM, COMPUTE_STREAM)
        if plan.host_copy_bytes and not plan.pageable:
            with process.op("aten::to"), process.op("aten::_to_copy"), process.op("aten::copy_"):
                process.issue(copy_to_device(plan.host_copy_bytes), COPY_STREAM)

    def _prepare_batch(self, late_ns: int) -> None:
        """Decode and crop in the training process itself."""
        process = self.process
        end_ns = process.now_ns + late_ns
        with process.annotation(_LOADER_IN_PROCESS):
            while process.now_ns < end_ns:
                for name in ("aten::empty", "aten::index", "aten::upsample_bilinear2d"):
                    with process.op(name):
                        process.spend(90_000)

    def optimize(self) -> None:
        """Update the parameters."""
        process = self.process
        with process.annotation("Optimizer.step#AdamW.step"):
            if self.plan.fused_optimizer:
                process.run(fused_adamw(sum(self.parameters())))
                return
            for elements in self.parameters():
                for op in _adamw(elements):
                    process.spend(_PYTHON_OPTIMIZER_NS)
                    process.run(op)

    def _read_loss(self, step: int) -> Program:
        """Read the loss of this step, or that of the step before, which is long there."""
        process = self.process
        yield from self.interruptions.at_end_of_step(step)
        with process.op("aten::item"), process.op("aten::_local_scalar_dense"):
            copy = process.issue(replace(copy_to_host(4), name="Memcpy DtoH (Device -> Pinned)"))
            if not self.plan.read_loss_late:
                yield from process.synchronize("cudaStreamSynchronize", [COMPUTE_STREAM])
            elif self._loss_read:
                yield from process.wait_for("cudaEventSynchronize", self._loss_read)
        self._loss_read = copy

    @contextmanager
    def _python(self) -> Iterator[None]:
        """Record the Python functions around a node, if the profiler was asked to."""
        if not self.plan.recording.stacks:
            yield
            return
        process = self.process
        frames = []
        for name in _FRAMES:
            frames.append((name, next(self._frame), process.now_ns))
            process.spend(_FRAME_NS)
        yield
        for name, own, start_ns in reversed(frames):
            process.spend(_FRAME_NS)
            span_ns = (start_ns, process.now_ns)
            process.recorder.python(name, process.tid, span_ns, (own, own - 1))


def _pageable(number_of_bytes: int) -> GpuWork:
    copy = copy_to_device(number_of_bytes)
    return replace(
        copy,
        name="Memcpy HtoD (Pageable -> Device)",
        duration_ns=number_of_bytes // PAGEABLE_BYTES_PER_NS,
    )


def _autograd(sequence: int, forward_thread: int) -> str:
    return f'"Sequence number": {sequence}, "Fwd thread id": {forward_thread}, '
