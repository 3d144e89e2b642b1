"""One simulated process: its CPU threads, its CUDA calls, its GPU streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from hta_widgets.sample.calls import CALLS
from hta_widgets.sample.cluster import Program
from hta_widgets.sample.communication import Communication, Meetings
from hta_widgets.sample.execution import Execution, Stream
from hta_widgets.sample.hardware import Hardware
from hta_widgets.sample.kernels import GpuWork
from hta_widgets.sample.noise import Noise
from hta_widgets.sample.operators import Op
from hta_widgets.sample.recorder import Recorder
from hta_widgets.sample.recording import STEP_PREFIX, Wait, cpu_wait
from hta_widgets.sample.tensors import Tensors

COMPUTE_STREAM = 7
COPY_STREAM = 13
NCCL_STREAM = 20

OP_ENTRY_NS = 1_100
OP_EXIT_NS = 600
KERNEL_LATENCY_NS = 1_900
STREAM_GAP_NS = 900
GRAPH_GAP_NS = 350


class Process:
    """The clock of one rank and everything that happens on it.

    Only one CPU thread of a training process works at any moment, so one clock, ``now_ns``, is
    enough for all of them. What the GPU does is known later: see `Execution`.

    Parameters
    ----------
    start_ns
        First moment on the clock, in ns.
    noise
        How durations vary.
    hardware
        How fast its GPU and its links are.
    meetings
        Where it meets the other ranks.
    recorder
        Writes the events.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        start_ns: int,
        noise: Noise,
        hardware: Hardware,
        meetings: Meetings,
    ) -> None:
        self.rank = recorder.rank
        self.now_ns = start_ns
        self.step = -1
        """The step that runs, counted from 0."""
        self.step_spans_ns: list[tuple[int, int]] = []
        """Start and end of the steps that have ended, in ns."""
        self.python_factor = 1.0
        """What the profiler makes the CPU take longer."""
        self.called_until_ns = start_ns
        """When the last event of the CPU began or ended: since then, only Python has run."""
        self.recorder = recorder
        self.tensors = Tensors()
        """What operators allocate."""
        self._start_ns = start_ns
        self._noise = noise
        self._hardware = hardware
        self._meetings = meetings
        self._streams: dict[int, Stream] = {}
        self.tid = recorder.pid
        self._correlation = 100_000 * (self.rank + 1)

    @property
    def autograd_tid(self) -> int:
        """The thread that runs backward."""
        return self.recorder.pid + 600

    @property
    def streams(self) -> list[int]:
        """The streams in use, in order."""
        return sorted(self._streams)

    def stream(self, number: int) -> Stream:
        """Return a stream, making it if need be."""
        if number not in self._streams:
            self._streams[number] = Stream(self._start_ns)
        return self._streams[number]

    def spend(self, duration_ns: float) -> None:
        """Let CPU time pass, more or less this much."""
        self.now_ns += self._noise.on_cpu(int(duration_ns * self.python_factor))

    def wait(self, duration_ns: int) -> None:
        """Let exactly this much time pass."""
        self.now_ns += duration_ns

    @contextmanager
    def on_thread(self, tid: int) -> Iterator[None]:
        """Continue on another CPU thread while this one waits for it."""
        waiting, self.tid = self.tid, tid
        yield
        self.tid = waiting

    @contextmanager
    def profiler_step(self, number: int, step: int) -> Iterator[None]:
        """Record a step; ``step`` counts from 0."""
        self.step = step
        self._noise.begin_step(step)
        start_ns = self.now_ns
        with self.annotation(f"{STEP_PREFIX}{number}"):
            yield
        self.step_spans_ns.append((start_ns, self.now_ns))

    @contextmanager
    def annotation(self, name: str) -> Iterator[None]:
        """Record a ``record_function`` block, and its shadow on the GPU streams."""
        self._begin("user_annotation", name)
        yield
        self._end()

    @contextmanager
    def op(
        self, name: str, details: str = "", flow: tuple[str, int] | None = None
    ) -> Iterator[None]:
        """Record a CPU operator; ``flow`` is its end of the arrow from forward to backward."""
        self._begin("cpu_op", name, details, flow)
        yield
        self._end()

    def run(
        self,
        op: Op,
        details: str = "",
        flow: tuple[str, int] | None = None,
        stream: int = COMPUTE_STREAM,
    ) -> None:
        """Run an operator with all that it calls and issues."""
        details += self.recorder.inputs_of(op)
        self._begin("cpu_op", op.name, details, flow)
        self.tensors.make(op.allocates, (self.called_until_ns, self.now_ns))
        for called in op.calls:
            self.run(called, stream=stream)
        for work in op.work:
            self.issue(work, stream)
        self._end()

    def issue(self, work: GpuWork, stream: int = COMPUTE_STREAM) -> Execution:
        """Issue GPU work that starts as soon as its stream is free."""
        correlation = self.call(work.call)
        issued_ns, gap_ns = self._launch_delays()
        duration_ns = work.duration_ns
        if work.category == "kernel":
            duration_ns = self._kernel_ns(work)
        execution = Execution(issued_ns, duration_ns)
        self.stream(stream).append(execution, gap_ns)
        self.recorder.work(work, stream, correlation, execution)
        return execution

    def communicate(self, part: Communication, stream: int = NCCL_STREAM) -> Execution:
        """Issue this rank's part of a communication; it waits for what is computed so far."""
        fields = self.recorder.recording.collective_fields
        with (
            self.op(part.kind.op),
            self.op("record_param_comms", part.record(self.rank) if fields else ""),
            self.annotation(part.annotation(self.rank)),
        ):
            self.order_streams(COMPUTE_STREAM, stream)
            work = part.kernel(old=not fields)
            correlation = self.call(work.call)
            issued_ns, gap_ns = self._launch_delays()
            execution = self._member(part, issued_ns)
            self.stream(stream).append(execution, gap_ns)
            details = part.fields(self.rank) if fields else ""
            self.recorder.work(work, stream, correlation, execution, details)
        return execution

    def call(self, name: str, *, until_ns: int = 0) -> int:
        """Make a CUDA call that lasts at least ``until_ns``, and return its correlation."""
        call = CALLS[name]
        self._correlation += 1
        start_ns = self.now_ns
        factor = self._noise.launch_factor() if call.issues_work else 1
        self.spend(call.duration_ns * factor)
        self.now_ns = max(self.now_ns, until_ns)
        self.recorder.call(call, self.tid, (start_ns, self.now_ns), self._correlation)
        self.called_until_ns = self.now_ns
        return self._correlation

    def order_streams(self, first: int, then: int) -> None:
        """Make a stream wait for the work now on another one (record and wait for an event)."""
        record = self.call("cudaEventRecord")
        start_ns = self.now_ns
        correlation = self.call("cudaStreamWaitEvent")
        self._record_wait(Wait("Stream Wait Event", then, first, record), start_ns, correlation)
        self.stream(then).wait_for(self.stream(first))

    def wait_on_stream(self, execution: Execution, stream: int = COMPUTE_STREAM) -> None:
        """Make a stream wait for one execution, after which an event was recorded."""
        self.call("cudaStreamWaitEvent")
        self.stream(stream).follow(execution)

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

    def synchronize(self, name: str, streams: Sequence[int]) -> Program:
        """Block the CPU until streams are empty."""
        latency_ns = self._noise.on_cpu(KERNEL_LATENCY_NS)
        awaited = [self.stream(number) for number in streams]
        for stream in awaited:
            yield from stream.unsettled
        last_ns = max(stream.end_ns for stream in awaited)
        start_ns = self.now_ns
        correlation = self.call(name, until_ns=last_ns + latency_ns)
        self._record_wait(cpu_wait(name, streams[0]), start_ns, correlation)

    def wait_for(self, name: str, execution: Execution) -> Program:
        """Block the CPU until one execution has ended."""
        latency_ns = self._noise.on_cpu(KERNEL_LATENCY_NS)
        yield execution
        start_ns = self.now_ns
        correlation = self.call(name, until_ns=execution.end_ns + latency_ns)
        self._record_wait(cpu_wait(name, COMPUTE_STREAM), start_ns, correlation)

    def _record_wait(self, wait: Wait | None, start_ns: int, correlation: int) -> None:
        if wait:
            self.recorder.sync(wait, self.tid, (start_ns + 1, self.now_ns), correlation)

    def _member(self, part: Communication, issued_ns: int) -> Execution:
        transfer_ns = self._hardware.transfer_ns(self.rank, self.step, part)
        meeting = self._meetings.join(self.rank, part)
        return Execution(issued_ns, transfer_ns + self._noise.after_transfer(), meeting)

    def _kernel_ns(self, work: GpuWork) -> int:
        factor = self._hardware.kernel_factor(self.rank, self.step, work)
        return int(self._noise.on_gpu(work.duration_ns) * factor)

    def _launch_delays(self) -> tuple[int, int]:
        """Return when work that was issued just now reaches the GPU, and the gap before it."""
        gap_ns = self._noise.on_cpu(STREAM_GAP_NS)
        return self.now_ns + self._noise.on_cpu(KERNEL_LATENCY_NS), gap_ns

    def _begin(
        self,
        category: str,
        name: str,
        details: str = "",
        flow: tuple[str, int] | None = None,
    ) -> None:
        self.recorder.begin(category, name, (self.tid, self.now_ns), details, flow)
        self.called_until_ns = self.now_ns
        self.spend(OP_ENTRY_NS)

    def _end(self) -> None:
        self.spend(OP_EXIT_NS)
        self.recorder.end(self.now_ns)
        self.called_until_ns = self.now_ns
