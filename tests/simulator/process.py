"""A process of a planned job: noise of its machine, and calls that the sample job never makes."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from hta_widgets.sample.communication import Communication, Meetings
from hta_widgets.sample.execution import Execution, Program
from hta_widgets.sample.kernels import CALLS, GpuWork
from hta_widgets.sample.kineto_file import EntryCounter, EventSink, Row, Span, flow_event
from hta_widgets.sample.process import COMPUTE_STREAM, KERNEL_LATENCY_NS, Noise, Process
from hta_widgets.sample.recorder import Clock, OpenEvent, Recorder
from tests.simulator.plan import Plan, PlannedRecording

GRAPH_GAP_NS = 350
STACKS_FACTOR = 1.7
"""How many times longer the CPU takes when Python functions are recorded."""
_OVERHEAD_ROW: Final[Row] = (-1, 0)


class MachineNoise(Noise):
    """What machines do: kernels repeat to within a percent, CPU times have a long tail.

    Each step begins its random numbers anew, and CPU and GPU have their own, so that what one
    step does more than its twin leaves the other steps alone.
    """

    CPU_SIGMA = 0.12
    GPU_SIGMA = 0.006
    GPU_SPREAD = 0.006
    """GPUs of one model differ by this much, as standard deviation."""
    LATE_END_NS = 3_000

    def __init__(self, seed: int, rank: int) -> None:
        self._seed = f"{seed}/{rank}"
        self._gpu_factor = 1 + random.Random(f"{seed}/gpu {rank}").gauss(0, self.GPU_SPREAD)  # noqa: S311
        self.begin_step(-1)

    def begin_step(self, step: int) -> None:
        """Begin the random numbers of a step, counted from 0."""
        self._random = random.Random(f"{self._seed}/cpu {step}")  # noqa: S311
        self._gpu = random.Random(f"{self._seed}/gpu {step}")  # noqa: S311

    def on_cpu(self, duration_ns: int) -> int:
        """Vary the time that the CPU or a launch takes."""
        return int(duration_ns * self._random.lognormvariate(0, self.CPU_SIGMA))

    def on_gpu(self, duration_ns: int) -> int:
        """Vary the time that a kernel takes."""
        return int(duration_ns * self._gpu_factor * (1 + self._gpu.gauss(0, self.GPU_SIGMA)))

    def after_transfer(self) -> int:
        """Return how long after a transfer the kernel of this rank ends, in ns."""
        return int(self._gpu.uniform(0, self.LATE_END_NS))


@dataclass(frozen=True)
class Wait:
    """What CUPTI says about a wait of a stream, or of the CPU (stream -1)."""

    kind: str
    stream: int = -1
    on_stream: int = -1
    record: int = 0
    """Correlation id of the call that recorded the event, if the wait is for one."""


def cpu_wait(call: str, stream: int) -> Wait | None:
    """Return CUPTI's name for the wait of a call; it has none for that of `cudaFree`."""
    if call == "cudaStreamSynchronize":
        return Wait("Stream Sync", stream)
    if call == "cudaDeviceSynchronize":
        return Wait("Context Sync")
    return Wait("Event Sync", record=-1) if call == "cudaEventSynchronize" else None


class PlannedRecorder(Recorder):
    """A profiler that may leave out operators and steps, and record waits and what it costs."""

    def __init__(
        self, rank: int, sink: EventSink, planned: PlannedRecording, clock: Clock | None = None
    ) -> None:
        super().__init__(rank, sink, planned, clock)
        self._planned = planned

    def sync(self, wait: Wait, tid: int, span_ns: Span, correlation: int) -> None:
        """Write what a call made a stream or the CPU wait for."""
        if not self._planned.synchronization:
            return
        fields = f'"cuda_sync_kind": "{wait.kind}",      '
        if wait.record:
            fields += (
                f'"wait_on_stream": {wait.on_stream},      '
                f'"wait_on_cuda_event_record_corr_id": {wait.record},      '
                f'"wait_on_cuda_event_id": {wait.on_stream},      '
            )
        args = (
            f'{self._external_id_arg()}{fields}"stream": {wait.stream}, '
            f'"correlation": {correlation},      "device": {self.device}, "context": 1'
        )
        row = (self.device, wait.stream)
        moment = self.clock.read(span_ns[0])
        text = flow_event("s", "ac2g", correlation, (self.pid, tid), moment)
        text += self._complete("cuda_sync", wait.kind, row, span_ns, args)
        text += flow_event("f", "ac2g", correlation, row, moment)
        self._defer((), lambda: (text, 3))

    def _text(self, event: OpenEvent, end_ns: int) -> str:
        return super()._text(event, end_ns) if self._writes(event) else ""

    def _record_shadow(self, event: OpenEvent, stream: int, work: Sequence[Execution]) -> None:
        if self._writes(event):
            super()._record_shadow(event, stream, work)

    def _writes(self, event: OpenEvent) -> bool:
        return self._planned.writes(event.category, event.name)

    def _external_id_arg(self) -> str:
        return super()._external_id_arg() if self._planned.operators else ""

    def overhead(self, name: str, span_ns: Span) -> None:
        """Write what the profiler says of its own costs."""
        text = self._complete("overhead", name, _OVERHEAD_ROW, span_ns, "")
        self._defer((), lambda: (text, 1))


class SilentRecorder(PlannedRecorder):
    """The profiler of a rank that nobody records."""

    def __init__(self, rank: int, recording: PlannedRecording) -> None:
        super().__init__(rank, EntryCounter(), recording)

    def begin(self, *_: object) -> None:
        """Ignore an operator or an annotation."""

    end = call = work = sync = python = overhead = memory = begin  # type: ignore[assignment]


class PlannedProcess(Process):
    """A rank of a planned job."""

    recorder: PlannedRecorder

    def __init__(self, plan: Plan, recorder: PlannedRecorder, meetings: Meetings) -> None:
        self._machine = MachineNoise(plan.seed, recorder.rank)
        super().__init__(recorder, noise=self._machine, hardware=plan, meetings=meetings)
        self.step_spans_ns: list[Span] = []
        """Start and end of the steps that have ended, in ns."""
        self._called_ns = (self.now_ns, self.now_ns)
        self._python_factor = STACKS_FACTOR if plan.recording.stacks else 1.0

    def spend(self, duration_ns: float) -> None:
        """Let CPU time pass, more or less this much; it is longer where the profiler does more."""
        super().spend(duration_ns * self._python_factor)

    @contextmanager
    def profiler_step(self, number: int, step: int) -> Iterator[None]:
        """Record a step; ``step`` counts from 0."""
        self._machine.begin_step(step)
        start_ns = self.now_ns
        with super().profiler_step(number, step):
            yield
        self.step_spans_ns.append((start_ns, self.now_ns))

    def call(self, name: str, *, until_ns: int = 0) -> int:
        """Make a CUDA call, and remember when; see `Process.call`."""
        start_ns = self.now_ns
        correlation = super().call(name, until_ns=until_ns)
        self._called_ns = (start_ns + 1, self.now_ns)
        return correlation

    def order_streams(self, first: int, then: int) -> None:
        """Make a stream wait for the work now on another one, and record that."""
        super().order_streams(first, then)
        self._record_wait(Wait("Stream Wait Event", then, first, self._correlation - 1))

    def synchronize(self, name: str, streams: Sequence[int]) -> Program:
        """Block the CPU until streams are empty, and record that."""
        yield from super().synchronize(name, streams)
        self._record_wait(cpu_wait(name, streams[0]))

    def _record_wait(self, wait: Wait | None) -> None:
        """Record what the last call waited for."""
        if wait:
            self.recorder.sync(wait, self.tid, self._called_ns, self._correlation)

    def wait_on_stream(self, execution: Execution, stream: int = COMPUTE_STREAM) -> None:
        """Make a stream wait for one execution, after which an event was recorded."""
        self.call("cudaStreamWaitEvent")
        self.stream(stream).follow(execution)

    def wait_for(self, name: str, execution: Execution) -> Program:
        """Block the CPU until one execution has ended."""
        latency_ns = self._noise.on_cpu(KERNEL_LATENCY_NS)
        yield execution
        self.call(name, until_ns=execution.end_ns + latency_ns)
        self._record_wait(cpu_wait(name, COMPUTE_STREAM))

    def copy_blocking(self, copy: GpuWork, stream: int = COMPUTE_STREAM) -> Program:
        """Copy from or to pageable memory: the call returns when the copy has ended."""
        start_ns = self.now_ns
        self._correlation += 1
        correlation = self._correlation
        call = CALLS[copy.call]
        self.spend(call.duration_ns)
        issued_ns, gap_ns = self._launch_delays()
        execution = Execution(issued_ns, copy.duration_ns)
        self.stream(stream).append(execution, gap_ns)
        yield execution
        self.now_ns = max(self.now_ns, execution.end_ns + self._noise.on_cpu(KERNEL_LATENCY_NS))
        self.recorder.call(call, self.tid, (start_ns, self.now_ns), correlation)
        self.called_until_ns = self.now_ns
        self.recorder.work(copy, stream, correlation, execution)

    def launch_graph(self, work: Iterable[GpuWork | Communication]) -> None:
        """Replay a captured graph: one call issues everything, and nothing says what NCCL does."""
        correlation = self.call("cudaGraphLaunch")
        issued_ns, _ = self._launch_delays()
        for each in work:
            gap_ns = self._noise.on_cpu(GRAPH_GAP_NS)
            if isinstance(each, Communication):
                execution, kernel = self._member(each, issued_ns), each.kernel(old=False)
            else:
                execution, kernel = Execution(issued_ns, self._kernel_ns(each)), each
            self.stream(COMPUTE_STREAM).append(execution, gap_ns)
            self.recorder.work(kernel, COMPUTE_STREAM, correlation, execution)

    def _transfer_ns(self, part: Communication) -> int:
        return super()._transfer_ns(part) + self._machine.after_transfer()
