"""One simulated process: its CPU threads, CUDA calls and GPU streams."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from hta_widgets.sample.communication import Communication, Meetings
from hta_widgets.sample.execution import Execution, Program, Stream
from hta_widgets.sample.kernels import CALLS, GpuWork
from hta_widgets.sample.memory import Tensors
from hta_widgets.sample.operators import Op
from hta_widgets.sample.recorder import Recorder

FIRST_MOMENT_NS = 1_365_627_862_757_064
COMPUTE_STREAM = 7
COPY_STREAM = 13
NCCL_STREAM = 20

OP_ENTRY_NS = 1_100
OP_EXIT_NS = 600
KERNEL_LATENCY_NS = 1_900
STREAM_GAP_NS = 900
SLOW_CALL_EVERY = 400
SLOW_CALL_FACTOR = 12


class Hardware(Protocol):
    """How fast GPUs and links are."""

    def kernel_factor(self, rank: int, step: int, work: GpuWork) -> float:
        """Return how many times longer a kernel takes than on a healthy GPU."""

    def transfer_ns(self, rank: int, step: int, part: Communication) -> int:
        """Return how long a communication takes once all ranks have arrived, in ns."""


class Noise:
    """How durations vary on one rank: up to 10 % more or less, evenly distributed."""

    def __init__(self, seed: int, rank: int) -> None:
        self._random = random.Random(f"{seed}/{rank}")  # noqa: S311

    def on_cpu(self, duration_ns: int) -> int:
        """Vary the time that the CPU or a launch takes."""
        return int(duration_ns * (0.9 + 0.2 * self._random.random()))

    def on_gpu(self, duration_ns: int) -> int:
        """Vary the time that a kernel takes."""
        return self.on_cpu(duration_ns)

    def launch_factor(self) -> int:
        """Return the factor on the duration of a launch call: a few take much longer."""
        return SLOW_CALL_FACTOR if self._random.random() * SLOW_CALL_EVERY < 1 else 1


class Process:
    """The clock of one rank and everything that happens on it.

    Only one CPU thread of a training process works at any moment, so one clock, ``now_ns``, is
    enough for all threads. What the GPU does is known later: see `Execution`. The noise says how
    durations vary, the hardware how fast the GPU and links are, and in the meetings it meets the
    other ranks.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        noise: Noise,
        hardware: Hardware,
        meetings: Meetings,
    ) -> None:
        self.rank = recorder.rank
        self.now_ns = FIRST_MOMENT_NS
        self.step = -1
        """The running step, counted from 0."""
        self.called_until_ns = FIRST_MOMENT_NS
        """When the last CPU event started or ended; since then, only Python has run."""
        self.recorder = recorder
        self.tensors = Tensors()
        """What operators allocate."""
        self._noise = noise
        self._hardware = hardware
        self._meetings = meetings
        self._streams: dict[int, Stream] = {}
        self.tid = recorder.pid
        self._correlation = 100_000 * (self.rank + 1)

    @property
    def autograd_tid(self) -> int:
        """The thread that runs the backward pass."""
        return self.recorder.pid + 600

    @property
    def streams(self) -> list[int]:
        """The streams in use, in order."""
        return sorted(self._streams)

    def stream(self, number: int) -> Stream:
        """Return a stream, and create it if necessary."""
        if number not in self._streams:
            self._streams[number] = Stream(FIRST_MOMENT_NS)
        return self._streams[number]

    def spend(self, duration_ns: float) -> None:
        """Let CPU time pass: about this much, with noise."""
        self.now_ns += self._noise.on_cpu(int(duration_ns))

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
        with self.annotation(f"ProfilerStep#{number}"):
            yield

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
        """Run an operator with everything that it calls and issues."""
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
        """Issue this rank's part of a communication, which waits for the work computed so far."""
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
        """Make a CUDA call that lasts at least until ``until_ns``; return its correlation id."""
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
        self.call("cudaEventRecord")
        self.call("cudaStreamWaitEvent")
        self.stream(then).wait_for(self.stream(first))

    def synchronize(self, name: str, streams: Sequence[int]) -> Program:
        """Block the CPU until streams are empty."""
        latency_ns = self._noise.on_cpu(KERNEL_LATENCY_NS)
        awaited = [self.stream(number) for number in streams]
        for stream in awaited:
            yield from stream.unsettled
        last_ns = max(stream.end_ns for stream in awaited)
        self.call(name, until_ns=last_ns + latency_ns)

    def _member(self, part: Communication, issued_ns: int) -> Execution:
        return Execution(issued_ns, self._transfer_ns(part), self._meetings.join(self.rank, part))

    def _transfer_ns(self, part: Communication) -> int:
        return self._hardware.transfer_ns(self.rank, self.step, part)

    def _kernel_ns(self, work: GpuWork) -> int:
        factor = self._hardware.kernel_factor(self.rank, self.step, work)
        return int(self._noise.on_gpu(work.duration_ns) * factor)

    def _launch_delays(self) -> tuple[int, int]:
        """Return when work issued just now reaches the GPU, and the gap before it."""
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
