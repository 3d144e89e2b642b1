"""What comes between the operators of a training step: pauses, syncs, trials, first times."""

from __future__ import annotations

from dataclasses import replace

from hta_widgets.sample.cluster import Program
from hta_widgets.sample.kernels import copy_to_host, kernel
from hta_widgets.sample.plan import Plan
from hta_widgets.sample.process import COMPUTE_STREAM, Process

SIDE_STREAM = 41
HOST_WORK_NS = 700_000
COMPILE_NS = 22_000_000
TRIALS = 24
REPEATS = 5
FREED_BLOCKS = 6
_GIBIBYTE = 1 << 30


class Interruptions:
    """Does what a plan asks for at the places where it can happen."""

    def __init__(self, plan: Plan, process: Process) -> None:
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
            process.recorder.memory(process.tid, process.now_ns, -_GIBIBYTE, (61 << 30, 70 << 30))
            yield from process.synchronize("cudaFree", process.streams)
            for _ in range(FREED_BLOCKS - 1):
                process.call("cudaFree")
            for _ in range(2):
                process.call("cudaMalloc")
            process.recorder.memory(process.tid, process.now_ns, _GIBIBYTE, (62 << 30, 74 << 30))
