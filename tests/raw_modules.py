"""Modules straight from the events of the JSON, in plain Python.

Follows the words of the documentation and shares no code with the package: every call and every
piece of work climbs its own path.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from tests.call_stacks import Call
from tests.kineto_text import events_of
from tests.raw_idle import COMMUNICATION, MEMORY, RawIdle, holds, to_ns
from tests.spans import merged

NO_NUMBER = 2**63
FRAME = "nn.Module: "

Node = tuple[tuple[str, ...], str]


def whole(value: Any, missing: int) -> int:
    """An integer as traces write it."""
    return missing if value is None else int(value)


class RawModules(RawIdle):
    """The modules of one rank, from its events."""

    def __init__(
        self, events: list[dict[str, Any]], *, merge: str = "instance", last_step: bool = False
    ) -> None:
        self.numbered: dict[Call, tuple[int, int]] = {}
        self.merge = merge
        super().__init__(events, last_step=last_step)
        self.module = cache(self._module)
        self.own_module = cache(self._own_module)
        self.node = cache(self._node)

    def _add(self, event: dict[str, Any], index: int) -> None:
        before = len(self.calls)
        super()._add(event, index)
        args = event.get("args") or {}
        if len(self.calls) > before and self.calls[-1].kind == "op":
            sequence = whole(args.get("Sequence number"), NO_NUMBER)
            if 0 <= sequence < NO_NUMBER:
                forward_thread = whole(args.get("Fwd thread id"), 0)
                self.numbered[self.calls[-1]] = sequence, forward_thread

    @cached_property
    def forward_of(self) -> dict[Call, Call]:
        """The forward operator of each backward operator that has one."""
        forward, backward = defaultdict(list), defaultdict(list)
        in_thread = {call for calls in self.threads.values() for call in calls}
        for call, (sequence, thread) in self.numbered.items():
            if call not in in_thread:
                continue
            if thread > 0:
                backward[call.pid, sequence, thread].append(call)
            else:
                forward[call.pid, sequence].append(call)
        before = {
            (pid, sequence, thread): [
                each
                for each in forward[pid, sequence]
                if each.start < min(other.start for other in calls)
            ]
            for (pid, sequence, thread), calls in backward.items()
        }
        wins: dict[Any, Counter[Any]] = defaultdict(Counter)
        for (pid, sequence, thread), candidates in before.items():
            on = {each.tid for each in forward[pid, sequence]}
            if candidates and len(on) == 1:
                wins[pid, thread][candidates[0].tid] += 1
        found = {}
        for (pid, sequence, thread), calls in backward.items():
            candidates = before[pid, sequence, thread]
            if len({each.tid for each in forward[pid, sequence]}) > 1 and wins[pid, thread]:
                counts = wins[pid, thread]
                usual = max(counts, key=lambda tid: (counts[tid], tid))
                candidates = [each for each in candidates if each.tid == usual] or candidates
            if candidates:
                found.update(dict.fromkeys(calls, max(candidates, key=started_last)))
        return found

    def _own_module(self, call: Call | None) -> Call | None:
        while call is not None and not (call.kind == "python" and call.name.startswith(FRAME)):
            call = call.parent
        return call

    def _module(self, call: Call) -> Call | None:
        own = self.own_module(call)
        if own is not None:
            return own
        linked = next((each for each in reversed(call.path) if each in self.forward_of), None)
        return None if linked is None else self.own_module(self.forward_of[linked])

    def innermost(self, event: dict[str, Any]) -> Call | None:
        """The innermost call that runs on the thread of an event when it happens."""
        return self._innermost((event["pid"], event["tid"]), to_ns(event["ts"]))

    def phase(self, call: Call | None) -> str:
        """Phase of a call."""
        if call is None:
            return "unknown"
        path = call.path
        if any(each.kind == "op" and each.name.startswith("autograd::engine::") for each in path):
            return "backward"
        if self.module(call) is not None:
            return "backward" if self.own_module(call) is None else "forward"
        in_optimizer = any(each.name.startswith("Optimizer.") for each in path)
        return "optimizer" if in_optimizer else "other"

    def _node(self, call: Call | None) -> Node:
        """Path of the module of a call, empty for none, and phase of the call."""
        module = None if call is None else self.module(call)
        path = [] if module is None else module.path
        names = [
            each.name.removeprefix(FRAME)
            for each in path
            if each.kind == "python" and each.name.startswith(FRAME)
        ]
        if self.merge == "class":
            names = [re.sub(r"_\d+$", "", name) for name in names]
        return tuple(names), self.phase(call)

    def sums(self) -> dict[str, Counter[Node]]:
        """Sums by node, of what belongs to it and to none inside; ``gpu``, ``cpu``, ``idle`` …"""
        found = {name: Counter() for name in ("gpu", "cpu", "idle", "exposed", "calls")}
        for work in self.analysed:
            found["gpu"][self.node(work["call"])] += work["end"] - work["start"]
        for device in self.devices():
            for row in self.rows(device):
                found["idle"][self.node(row["owner"])] += row["ns"]
            for work, ns in self._exposed(device):
                found["exposed"][self.node(work["call"])] += ns
        for call in self._analysed_calls():
            own_ns = call.cut_end - call.start
            found["cpu"][self.node(call)] += own_ns
            if call.parent is not None and self._is_analysed(call.parent):
                found["cpu"][self.node(call.parent)] -= own_ns
            if self.own_module(call) is call:
                found["calls"][self.node(call)] += 1
        return {name: Counter({n: ns for n, ns in c.items() if ns}) for name, c in found.items()}

    def _analysed_calls(self) -> list[Call]:
        calls = [each for calls in self.threads.values() for each in calls]
        return [each for each in calls if self._is_analysed(each)]

    def _is_analysed(self, call: Call) -> bool:
        return self.last_start is None or call.start < self.last_start

    def _exposed(self, device: int):
        """Time of each communication kernel in which nothing else computes or communicates."""
        of_device = [each for each in self.analysed if each["device"] == device]
        talking = [each for each in of_device if is_communication(each)]
        computing = merged((e["start"], e["end"]) for e in of_device if self._computes(e))
        reached = min((each["start"] for each in talking), default=0)
        for each in sorted(talking, key=lambda each: (each["start"], each["index"])):
            start, end = max(each["start"], reached), each["end"]
            if end > start:
                yield each, end - start - covered(computing, start, end)
                reached = end


def started_last(call: Call) -> tuple[Any, ...]:
    """Order of calls by start; of those that start together, the inner ones come later."""
    return call.start, call.pid, call.tid, call.start - call.end, call.index


def is_communication(work: dict[str, Any]) -> bool:
    """Whether a kernel communicates."""
    name = work["name"]
    is_memory = not work["is_kernel"] or holds(MEMORY, name)
    return bool(not is_memory and (work["has_fields"] or holds(COMMUNICATION, name)))


def covered(apart: list[tuple[int, int]], start: int, end: int) -> int:
    """Time between two moments that intervals apart from each other cover."""
    begin = bisect_right(apart, start, key=lambda each: each[1])
    total = 0
    for first, last in islice(apart, begin, None):
        if first >= end:
            break
        total += min(last, end) - max(first, start)
    return total


def read_modules(path: Path, **options: Any) -> RawModules:
    """The modules of a file."""
    return RawModules(events_of(path), **options)
