"""The Python functions on a thread, as the profiler records them with stacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hta_widgets.sample.kineto_file import Span
from hta_widgets.sample.recorder import Recorder

MODULE: Final = "nn.Module: "

Stack = tuple[str, ...]
"""Names of functions, the outermost first."""


@dataclass(frozen=True)
class _Frame:
    name: str
    number: int
    caller: int | None
    start_ns: int


class Frames:
    """The stack of a thread, written as functions return."""

    def __init__(self, recorder: Recorder, tid: int) -> None:
        self._recorder = recorder
        self._tid = tid
        self._open: list[_Frame] = []
        self._last = 0

    def change(self, span_ns: Span, stack: Stack) -> None:
        """Return from functions and call others, spread over a stretch of time."""
        if not self._recorder.recording.stacks:
            return
        start_ns, end_ns = span_ns
        same = _common(tuple(frame.name for frame in self._open), stack)
        returns, calls = len(self._open) - same, stack[same:]
        changes = returns + len(calls) + 1
        for place in range(1, returns + 1):
            self._write(self._open.pop(), start_ns + place * (end_ns - start_ns) // changes)
        for place, name in enumerate(calls, start=returns + 1):
            self._call(name, start_ns + place * (end_ns - start_ns) // changes)

    def close(self, time_ns: int) -> None:
        """Write what still runs when the recording ends, the outermost function first."""
        for frame in self._open:
            self._write(frame, time_ns)
        self._open.clear()

    def _call(self, name: str, time_ns: int) -> None:
        self._last += 1
        caller = self._open[-1].number if self._open else None
        self._open.append(_Frame(name, self._last, caller, time_ns))

    def _write(self, frame: _Frame, end_ns: int) -> None:
        if frame.name.startswith(MODULE) and not self._recorder.recording.modules:
            return
        module = int(frame.name.rpartition("_")[2]) if frame.name.startswith(MODULE) else None
        self._recorder.python(
            frame.name, self._tid, (frame.start_ns, end_ns), (frame.number, frame.caller), module
        )


def _common(first: Stack, second: Stack) -> int:
    """Return how many of the outermost functions are the same."""
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count
