"""The profiler of one simulated process: turns what happens into the text that Kineto writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hta_widgets.sample.execution import Execution
from hta_widgets.sample.kernels import CudaCall, GpuWork
from hta_widgets.sample.kineto_file import (
    EventSink,
    Row,
    Section,
    Span,
    complete_event,
    flow_event,
    instant_event,
)
from hta_widgets.sample.operators import Op


@dataclass
class OpenEvent:
    """A CPU event that has not ended."""

    category: str
    name: str
    tid: int
    start_ns: int
    external_id: int
    details: str
    flow: tuple[str, int] | None
    slot: int | None
    gpu_work: dict[int, list[Execution]] = field(default_factory=dict)
    """First and last work that it issues, by stream."""


class Recorder:
    """Writes the events of one process in the order in which its CPU makes them.

    GPU work is written once its times are known; everything after it waits until then.
    """

    def __init__(
        self,
        rank: int,
        sink: EventSink,
        recording: Recording | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.rank = rank
        self.pid = 4_100 + rank
        self.device = rank % 8
        self.recording = recording or Recording()
        self.clock = clock or Clock()
        self._sink = sink
        self._external_id = 0
        self._open: list[OpenEvent] = []
        self._open_ops = 0
        self._pending: list[str] = []
        self._pending_entries = 0
        self._unsettled: deque[tuple[Sequence[Execution], Callable[[], tuple[str, int]]]] = deque()

    def begin(
        self,
        category: str,
        name: str,
        moment: tuple[int, int],
        details: str = "",
        flow: tuple[str, int] | None = None,
    ) -> None:
        """Open an operator or an annotation on a thread, at a time in ns."""
        tid, start_ns = moment
        self._external_id += 1
        self._open_ops += category == "cpu_op"
        slot = len(self._pending) if self._open_ops else None
        if slot is not None:
            self._pending.append("")
        event = OpenEvent(category, name, tid, start_ns, self._external_id, details, flow, slot)
        self._open.append(event)

    def end(self, end_ns: int) -> OpenEvent:
        """Close the innermost event; parents come before children in the file."""
        event = self._open.pop()
        text, entries = self._text(event, end_ns), 1 + (event.flow is not None)
        if event.slot is None:
            self._sink.write(Section.OPERATORS, text, entries)
        else:
            self._pending[event.slot] = text
            self._pending_entries += entries
            self._open_ops -= event.category == "cpu_op"
            if not self._open_ops:
                self._sink.write(Section.OPERATORS, "".join(self._pending), self._pending_entries)
                self._pending.clear()
                self._pending_entries = 0
        for stream, work in event.gpu_work.items():
            self._record_shadow(event, stream, work)
        return event

    def call(self, call: CudaCall, tid: int, span_ns: Span, correlation: int) -> None:
        """Write a CUDA call, and its end of the arrow to the work that it issues."""
        row = (self.pid, tid)
        args = f'{self._external_id_arg()}"cbid": {call.number}, "correlation": {correlation}'
        text = self._complete(call.category, call.name, row, span_ns, args)
        if call.issues_work:
            text += flow_event("s", "ac2g", correlation, row, self.clock.read(span_ns[0]))
        self._defer((), lambda: (text, 1 + call.issues_work))

    def work(
        self, work: GpuWork, stream: int, correlation: int, execution: Execution, details: str = ""
    ) -> None:
        """Write GPU work once its times are known."""
        external_id = self._external_id_arg()
        queued = '"queued": 0, ' if work.category == "kernel" else ""
        row = (self.device, stream)

        def text() -> tuple[str, int]:
            span_ns = (execution.start_ns, execution.end_ns)
            moved = details
            if work.bytes:
                rate = work.bytes / (span_ns[1] - span_ns[0])
                moved = f'"bytes": {work.bytes}, "memory bandwidth (GB/s)": {rate!r}'
            args = (
                f'{external_id}{queued}"device": {self.device}, "context": 1,      '
                f'"stream": {stream}, "correlation": {correlation},      {work.details}{moved}'
            )
            event = self._complete(work.category, work.name, row, span_ns, args)
            arrow = flow_event("f", "ac2g", correlation, row, self.clock.read(span_ns[0]))
            return event + arrow, 2

        self._defer((execution,), text)
        tid = self._open[-1].tid if self._open else 0
        for event in self._open:
            if event.category == "user_annotation" and event.tid == tid:
                event.gpu_work.setdefault(stream, [execution])[1:] = [execution]

    def inputs_of(self, op: Op) -> str:
        """Write the fields of an operator's inputs, if shapes are recorded."""
        return op.recorded_inputs if self.recording.shapes else ""

    def python(
        self,
        name: str,
        tid: int,
        span_ns: Span,
        ids: tuple[int, int | None],
        module: int | None = None,
    ) -> None:
        """Write a Python function; ``ids`` are its own number and its caller's.

        ``module`` is the number of a module among those of its class.
        """
        own, caller = ids
        parent = "null" if caller is None else caller
        args = f'"Python parent id": {parent}, "Python id": {own}, '
        if module is not None:
            args += f'"Python module id": {module}, '
        args += f'"Ev Idx": {own}'
        text = self._complete("python_function", name, (self.pid, tid), span_ns, args)
        self._sink.write(Section.PYTHON, text, 1)

    def memory(
        self,
        tid: int,
        time_ns: int,
        change: int,
        totals: tuple[int, int],
        address: int,
    ) -> None:
        """Write what the caching allocator did; ``totals`` are bytes allocated and reserved."""
        if self.recording.memory:
            allocated, reserved = totals
            args = (
                f'"Total Reserved": {reserved}, "Total Allocated": {allocated}, "Bytes": {change}, '
                f'"Addr": {address}, "Device Id": {self.device}, "Device Type": 1'
            )
            moment = self.clock.read(time_ns)
            row = (self.pid, tid)
            text = instant_event("cpu_instant_event", "[memory]", row, moment, args)
            self._sink.write(Section.MEMORY, text, 1)

    def _record_shadow(self, event: OpenEvent, stream: int, work: Sequence[Execution]) -> None:
        def text() -> tuple[str, int]:
            span_ns = (work[0].start_ns - 1, work[-1].end_ns + 1)
            args = f'"External id": {event.external_id}'
            row = (self.device, stream)
            return self._complete("gpu_user_annotation", event.name, row, span_ns, args), 1

        self._defer(work, text)

    def _defer(self, work: Sequence[Execution], text: Callable[[], tuple[str, int]]) -> None:
        self._unsettled.append((work, text))
        while self._unsettled and all(each.is_settled for each in self._unsettled[0][0]):
            self._sink.write(Section.ACTIVITIES, *self._unsettled.popleft()[1]())

    def _text(self, event: OpenEvent, end_ns: int) -> str:
        args = (
            f'"External id": {event.external_id},"Record function id": 0, '
            f'{event.details}"Ev Idx": {event.external_id - 1}'
        )
        row = (self.pid, event.tid)
        text = self._complete(event.category, event.name, row, (event.start_ns, end_ns), args)
        if event.flow:
            phase, number = event.flow
            start_ns = self.clock.read(event.start_ns)
            text += flow_event(phase, "fwdbwd", number, row, start_ns)
        return text

    def _complete(self, category: str, name: str, row: Row, span_ns: Span, args: str) -> str:
        start_ns, end_ns = span_ns
        read = self.clock.read
        return complete_event(category, name, row, (read(start_ns), read(end_ns)), args)

    def _external_id_arg(self) -> str:
        innermost = next((e for e in reversed(self._open) if e.category == "cpu_op"), None)
        return f'"External id": {innermost.external_id},      ' if innermost else ""


_PPM = 1_000_000


@dataclass(frozen=True)
class Clock:
    """The clock of a host, which starts some ns ahead and drifts by some parts per million.

    ``set_at_ns`` is the true time, in ns, from which it drifts.
    """

    ahead_ns: int = 0
    drift_ppm: int = 0
    set_at_ns: int = 0

    def read(self, true_ns: int) -> int:
        """Return what the clock shows at a true time."""
        return true_ns + self.ahead_ns + (true_ns - self.set_at_ns) * self.drift_ppm // _PPM


@dataclass(frozen=True)
class Recording:
    """What the profiler writes in addition to operators, annotations, CUDA calls and GPU work."""

    collective_fields: bool = True
    """Collective fields of NCCL kernels, which PyTorch before 2.4 does not write."""
    shapes: bool = True
    """Shapes, types and values of the inputs of operators."""
    stacks: bool = False
    """Python functions, which cost the CPU as much as the operators."""
    modules: bool = False
    """Which functions are calls of an ``nn.Module``."""
    memory: bool = False
    """What the caching allocator does."""

    @property
    def flags(self) -> str:
        """What Kineto writes about these options at the head of a trace."""
        options = {
            "record_shapes": self.shapes,
            "with_modules": self.modules,
            "with_stack": self.stacks,
            "profile_memory": self.memory,
        }
        return " ".join(f'"{option}": 1,' for option, is_set in options.items() if is_set)


EVERYTHING: Final = Recording(stacks=True, modules=True, memory=True)
"""What a profiler writes with ``record_shapes``, ``with_stack``, ``with_modules`` and
``profile_memory``."""
