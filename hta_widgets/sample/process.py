"""One simulated process: its CPU threads, its CUDA calls, its GPU streams, its profiler."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hta_widgets.sample.kernels import GpuWork
from hta_widgets.sample.kineto_file import EventSink, Span, complete_event, flow_event
from hta_widgets.sample.model import Op

COMPUTE_STREAM = 7
COPY_STREAM = 13
NCCL_STREAM = 20

OP_ENTRY_NS = 1_100
OP_EXIT_NS = 600
KERNEL_LATENCY_NS = 1_900
STREAM_GAP_NS = 900
SLOW_CALL_EVERY = 400
SLOW_CALL_FACTOR = 12

_CALLS = {
    "cudaLaunchKernel": ("cuda_runtime", 211, 4_700),
    "cudaLaunchKernelExC": ("cuda_runtime", 430, 8_500),
    "cuLaunchKernelEx": ("cuda_driver", 652, 5_200),
    "cudaMemcpyAsync": ("cuda_runtime", 41, 9_500),
    "cudaMemsetAsync": ("cuda_runtime", 51, 5_000),
    "cudaEventRecord": ("cuda_runtime", 135, 1_000),
    "cudaStreamWaitEvent": ("cuda_runtime", 147, 900),
    "cudaStreamSynchronize": ("cuda_runtime", 131, 1_500),
    "cudaDeviceSynchronize": ("cuda_runtime", 165, 1_500),
}


@dataclass
class _OpenEvent:
    category: str
    name: str
    tid: int
    start_ns: int
    external_id: int
    details: str
    flow: tuple[str, int] | None
    slot: int | None
    gpu_spans: dict[int, Span] = field(default_factory=dict)


class Process:
    """The clock of one rank and everything that happens on it.

    Only one CPU thread of a training process works at any moment, so one clock, ``now_ns``, is
    enough for all of them; each stream has the time at which its last work ends.

    Parameters
    ----------
    rank, seed
        Which process of the job, and what its random variation starts from.
    start_ns
        First moment on the clock, in ns.
    slowdown
        Factor on the duration of every kernel, NCCL's excepted.
    sink
        Takes the text of the events.
    """

    def __init__(
        self, rank: int, *, seed: int, start_ns: int, slowdown: float, sink: EventSink
    ) -> None:
        self.pid = 4_100 + rank
        self.device = rank % 8
        self.tid = self.pid
        self.now_ns = start_ns
        self.stream_end_ns = dict.fromkeys((COMPUTE_STREAM, COPY_STREAM, NCCL_STREAM), start_ns)
        self._slowdown = slowdown
        self._sink = sink
        self._random = random.Random(f"{seed}/{rank}")  # noqa: S311
        self._external_id = 0
        self._correlation = 100_000 * (rank + 1)
        self._open: list[_OpenEvent] = []
        self._open_ops = 0
        self._pending: list[str] = []
        self._pending_entries = 0

    @property
    def autograd_tid(self) -> int:
        """The thread that runs backward."""
        return self.pid + 600

    def spend(self, duration_ns: int) -> None:
        """Let CPU time pass, varied by up to 10 %."""
        self.now_ns += self._varied(duration_ns)

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
    def annotation(self, name: str) -> Iterator[None]:
        """Record a ``record_function`` block, and its shadow on the GPU streams."""
        event = self._begin("user_annotation", name)
        yield
        self._end()
        for stream, (start_ns, end_ns) in event.gpu_spans.items():
            args = f'"External id": {event.external_id}'
            row, span_ns = (self.device, stream), (start_ns - 1, end_ns + 1)
            self._sink.gpu(complete_event("gpu_user_annotation", name, row, span_ns, args), 1)

    @contextmanager
    def op(
        self, name: str, details: str = "", flow: tuple[str, int] | None = None
    ) -> Iterator[None]:
        """Record a CPU operator; ``flow`` is its end of the arrow from forward to backward."""
        self._begin("cpu_op", name, details, flow)
        yield
        self._end()

    def run(self, op: Op, details: str = "", flow: tuple[str, int] | None = None) -> None:
        """Run an operator with all that it calls and issues."""
        if op.input_dims:
            details += f'"Input Dims": {op.input_dims}, '
        self._begin("cpu_op", op.name, details, flow)
        for called in op.calls:
            self.run(called)
        for work in op.work:
            self.issue(work)
        self._end()

    def issue(self, work: GpuWork, stream: int = COMPUTE_STREAM) -> None:
        """Issue GPU work that starts as soon as its stream is free."""
        correlation = self.call(work.call, starts_work=True)
        start_ns = self.earliest_start_ns(stream)
        duration_ns = work.duration_ns
        if work.category == "kernel":
            duration_ns = int(self._varied(duration_ns) * self._slowdown)
        self.place(work, stream, correlation, (start_ns, start_ns + duration_ns))

    def call(self, name: str, *, starts_work: bool = False, until_ns: int = 0) -> int:
        """Make a CUDA call that lasts at least ``until_ns``, and return its correlation."""
        category, number, duration_ns = _CALLS[name]
        self._correlation += 1
        start_ns = self.now_ns
        slow = starts_work and self._random.random() * SLOW_CALL_EVERY < 1
        self.spend(duration_ns * SLOW_CALL_FACTOR if slow else duration_ns)
        self.now_ns = max(self.now_ns, until_ns)
        args = f'{self._external_id_arg()}"cbid": {number}, "correlation": {self._correlation}'
        row = (self.pid, self.tid)
        text = complete_event(category, name, row, (start_ns, self.now_ns), args)
        if starts_work:
            text += flow_event("s", "ac2g", self._correlation, row, start_ns)
        self._sink.gpu(text, 1 + starts_work)
        return self._correlation

    def earliest_start_ns(self, stream: int) -> int:
        """Return when work that was issued just now can start, in ns."""
        gap_ns = self._varied(STREAM_GAP_NS)
        latency_ns = self._varied(KERNEL_LATENCY_NS)
        return max(self.now_ns + latency_ns, self.stream_end_ns[stream] + gap_ns)

    def place(
        self,
        work: GpuWork,
        stream: int,
        correlation: int,
        span_ns: Span,
        details: str = "",
    ) -> None:
        """Record GPU work from its start to its end on a stream."""
        start_ns, end_ns = span_ns
        self.stream_end_ns[stream] = end_ns
        if work.bytes:
            rate = work.bytes / (end_ns - start_ns)
            details = f'"bytes": {work.bytes}, "memory bandwidth (GB/s)": {rate!r}'
        queued = '"queued": 0, ' if work.category == "kernel" else ""
        args = (
            f'{self._external_id_arg()}{queued}"device": {self.device}, "context": 1,      '
            f'"stream": {stream}, "correlation": {correlation},      {work.details}{details}'
        )
        row = (self.device, stream)
        text = complete_event(work.category, work.name, row, span_ns, args)
        self._sink.gpu(text + flow_event("f", "ac2g", correlation, row, start_ns), 2)
        self._cover(stream, span_ns)

    def order_streams(self, first: int, then: int) -> None:
        """Make a stream wait for the work now on another one (record and wait for an event)."""
        self.call("cudaEventRecord")
        self.call("cudaStreamWaitEvent")
        self.stream_end_ns[then] = max(self.stream_end_ns[then], self.stream_end_ns[first])

    def synchronize(self, name: str, streams: Iterable[int]) -> None:
        """Block the CPU until streams are empty."""
        last_ns = max(self.stream_end_ns[stream] for stream in streams)
        self.call(name, until_ns=last_ns + self._varied(KERNEL_LATENCY_NS))

    def _begin(
        self,
        category: str,
        name: str,
        details: str = "",
        flow: tuple[str, int] | None = None,
    ) -> _OpenEvent:
        self._external_id += 1
        self._open_ops += category == "cpu_op"
        slot = len(self._pending) if self._open_ops else None
        if slot is not None:
            self._pending.append("")
        event = _OpenEvent(
            category, name, self.tid, self.now_ns, self._external_id, details, flow, slot
        )
        self._open.append(event)
        self.spend(OP_ENTRY_NS)
        return event

    def _end(self) -> None:
        """Close the innermost event; parents come before children in the file."""
        self.spend(OP_EXIT_NS)
        event = self._open.pop()
        text = self._text(event)
        entries = 1 + (event.flow is not None)
        if event.slot is None:
            self._sink.cpu(text, entries)
            return
        self._pending[event.slot] = text
        self._pending_entries += entries
        self._open_ops -= event.category == "cpu_op"
        if not self._open_ops:
            self._sink.cpu("".join(self._pending), self._pending_entries)
            self._pending.clear()
            self._pending_entries = 0

    def _text(self, event: _OpenEvent) -> str:
        args = (
            f'"External id": {event.external_id},"Record function id": 0, '
            f'{event.details}"Ev Idx": {event.external_id - 1}'
        )
        row = (self.pid, event.tid)
        text = complete_event(event.category, event.name, row, (event.start_ns, self.now_ns), args)
        if event.flow:
            phase, number = event.flow
            text += flow_event(phase, "fwdbwd", number, row, event.start_ns)
        return text

    def _external_id_arg(self) -> str:
        innermost = next((e for e in reversed(self._open) if e.category == "cpu_op"), None)
        return f'"External id": {innermost.external_id},      ' if innermost else ""

    def _cover(self, stream: int, span_ns: Span) -> None:
        for event in self._open:
            if event.category == "user_annotation" and event.tid == self.tid:
                first_ns, _ = event.gpu_spans.get(stream, span_ns)
                event.gpu_spans[stream] = (first_ns, span_ns[1])

    def _varied(self, duration_ns: int) -> int:
        return int(duration_ns * (0.9 + 0.2 * self._random.random()))
