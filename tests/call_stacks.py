"""The stack that defines how CPU calls nest, in plain Python without code of the package."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

ENTER = re.compile(r"__enter__|_?record_function|RecordFunction|torch/(autograd/)?profiler")
EXIT = re.compile(r"__exit__|_?record_function|RecordFunction|torch/(autograd/)?profiler")
STEP = re.compile(r"ProfilerStep\s*#\s*(\d+)")
TOLERANCE_NS = 2000
OVERLAP_NS = 1000


@dataclass(eq=False)
class Call:
    """A CPU call; ``kind`` is ``op``, ``annotation``, ``api``, ``python`` or ``other``."""

    name: str
    kind: str
    pid: object
    tid: object
    start: int
    end: int
    index: int
    cut_end: int = 0
    parent: Call | None = None

    @cached_property
    def path(self) -> list[Call]:
        """The call and all calls around it, outermost first; asked for once they are known."""
        around = [] if self.parent is None else self.parent.path
        return [*around, self]


def cut(calls: Iterable[Call]) -> dict[tuple[object, object], list[Call]]:
    """Set ``parent`` and ``cut_end`` of all calls; returns those of each thread in preorder."""
    threads: dict[tuple[object, object], list[Call]] = defaultdict(list)
    for call in calls:
        if not STEP.match(call.name):
            threads[call.pid, call.tid].append(call)
    for of_thread in threads.values():
        of_thread.sort(key=lambda call: (call.start, call.start - call.end, call.index))
        _cut_thread(of_thread)
    return threads


def _cut_thread(calls: list[Call]) -> None:
    stack: list[Call] = []
    for call in calls:
        while stack and stack[-1].cut_end <= call.start:
            stack.pop()
        while stack and stack[-1].cut_end - call.start <= OVERLAP_NS:
            if call.end - stack[-1].cut_end <= stack[-1].cut_end - call.start:
                break
            stack.pop().cut_end = call.start
        if stack and call.end > stack[-1].cut_end:
            outlived = [each for each in stack if each.cut_end < call.end - TOLERANCE_NS]
            entered = all(ENTER.search(each.name) for each in outlived)
            begins = call.kind in ("op", "annotation") and entered
            if outlived and call.kind != "api" and (begins or EXIT.search(call.name)):
                for each in outlived:
                    each.cut_end = call.start
                stack = [each for each in stack if each not in outlived]
        call.parent = stack[-1] if stack else None
        call.cut_end = min(call.end, stack[-1].cut_end) if stack else call.end
        stack.append(call)
