"""One rank of a job with one cause: what the training loop does in every layout, and between."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import count

from hta_widgets.sample.execution import Execution, Program
from hta_widgets.sample.kernels import GpuWork, copy_to_device, copy_to_host, kernel
from hta_widgets.sample.model import adamw
from hta_widgets.sample.operators import Node, Op
from hta_widgets.sample.process import COMPUTE_STREAM, COPY_STREAM
from tests.simulator.decoder import fused_adamw
from tests.simulator.plan import Plan
from tests.simulator.process import PlannedProcess

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
SIDE_STREAM = 41
HOST_WORK_NS = 700_000
COMPILE_NS = 22_000_000
TRIALS = 24
REPEATS = 5
FREED_BLOCKS = 6
_SOME_ADDRESS = 139_872
_GIBIBYTE = 1 << 30


@cache
def _adamw(elements: int) -> tuple[Op, ...]:
    """The operations of AdamW, without what they take and allocate."""
    return tuple(Op(op.name, work=op.work) for op in adamw((elements,)))


class Interruptions:
    """Does what a plan asks for at the places where it can happen."""

    def __init__(self, plan: Plan, process: PlannedProcess) -> None:
        self._plan = plan
        self._process = process

    def before_first_step(self) -> Program:
        """Do what the recording shows before its first step."""
        process, plan = self._process, self._plan
        if plan.autotuned_before:
            yield from self._autotune(2_048)
        if plan.checkpoint_ns:
            with process.op("aten::to"), process.op("aten::_to_copy"), process.op("aten::copy_"):
                yield from process.copy_blocking(
                    replace(copy_to_host(1 << 28), duration_ns=9_000_000)
                )
            process.wait(plan.checkpoint_ns)

    def at_begin_of_step(self, step: int) -> Program:
        """Do what comes before the batch is loaded."""
        process, plan = self._process, self._plan
        process.wait(plan.first_step_ns if step == 0 else 0)
        if plan.idle_stream:
            process.issue(kernel("heartbeat_kernel(int*)", 900, blocks=1, threads=32), SIDE_STREAM)
        if plan.recording.stacks:
            process.recorder.overhead(
                "Activity Buffer Request", (process.now_ns, process.now_ns + 900_000)
            )
        yield from ()

    def before_layer(self, step: int, layer: int) -> Program:
        """Do what comes before a layer of forward."""
        process, plan = self._process, self._plan
        self._pause(step, layer, in_backward=False)
        if step in plan.cold_steps:
            self._compile()
        if step in plan.autotuned_steps and layer == 1:
            yield from self._autotune(plan.tokens_of(process.rank, step))
        retries = plan.allocator_retries.get(process.rank, 0)
        if layer < retries:
            yield from self._retry_allocation()

    def after_layer(self) -> Program:
        """Do what comes after a layer of forward: host work, with or without reading a value."""
        process, plan = self._process, self._plan
        if plan.synced_layers:
            with process.op("aten::item"), process.op("aten::_local_scalar_dense"):
                process.issue(replace(copy_to_host(4), name="Memcpy DtoH (Device -> Pinned)"))
                yield from process.synchronize("cudaStreamSynchronize", [COMPUTE_STREAM])
        if plan.host_work:
            process.spend(HOST_WORK_NS)

    def before_backward_layer(self, step: int, layer: int) -> None:
        """Do what comes before a layer of backward."""
        self._pause(step, layer, in_backward=True)

    def at_end_of_step(self, step: int) -> Program:  # noqa: ARG002
        """Do what comes before the loss is read."""
        for _ in range(self._plan.idle_syncs):
            yield from self._process.synchronize("cudaDeviceSynchronize", self._process.streams)

    def _pause(self, step: int, layer: int, *, in_backward: bool) -> None:
        here = (self._process.rank, step, layer, in_backward)
        for pause in self._plan.pauses:
            if (pause.rank, pause.step, pause.layer, pause.in_backward) == here:
                self._process.wait(pause.pause_ns)

    def _compile(self) -> None:
        """Compile a layer when it runs for the first time, and load its kernels."""
        process = self._process
        with process.annotation("entire_frame_compile (dynamo_timed)"):
            process.spend(COMPILE_NS // 5)
            with process.annotation("backend_compile (dynamo_timed)"):
                process.spend(COMPILE_NS * 4 // 5)
        process.call("cuLibraryLoadData")
        for _ in range(2):
            with process.op("aten::empty_strided"):
                process.call("cudaMalloc")

    def _autotune(self, tokens: int) -> Program:
        """Time candidates for a matrix product, as Triton's autotuner does."""
        process = self._process
        with process.op("triton_autotuner::mm", f'"Input Dims": [[{tokens}, 2048]], '):
            for trial in range(TRIALS):
                duration_ns = 180_000 + 31_000 * ((trial * 7) % TRIALS)
                work = kernel(
                    f"triton_mm_config_{trial}", duration_ns, call="cuLaunchKernelEx", blocks=512
                )
                process.call("cudaEventRecord")
                for _ in range(REPEATS):
                    process.issue(work)
                process.call("cudaEventRecord")
                yield from process.synchronize("cudaEventSynchronize", [COMPUTE_STREAM])
                process.spend(60_000)

    def _retry_allocation(self) -> Program:
        """Run out of cached memory: give blocks back to the device, then allocate again."""
        process = self._process
        with process.op("aten::empty"):
            process.recorder.memory(
                process.tid, process.now_ns, -_GIBIBYTE, (61 << 30, 70 << 30), _SOME_ADDRESS
            )
            yield from process.synchronize("cudaFree", process.streams)
            for _ in range(FREED_BLOCKS - 1):
                process.call("cudaFree")
            for _ in range(2):
                process.call("cudaMalloc")
            process.recorder.memory(
                process.tid, process.now_ns, _GIBIBYTE, (62 << 30, 74 << 30), _SOME_ADDRESS
            )


class Worker(ABC):
    """The training loop of one rank."""

    def __init__(self, plan: Plan, process: PlannedProcess) -> None:
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
