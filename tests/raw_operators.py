"""The operator table straight from the events of the JSON, in plain Python.

Follows the words of the documentation and shares no code with the package: one call after the
other, by looking at the calls around it.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from decimal import Decimal
from functools import cached_property
from typing import Any

from tests.call_stacks import Call
from tests.raw_modules import RawModules

COLUMNS = (
    *("calls", "cpu_self_ns", "cpu_total_ns", "gpu_self_ns", "gpu_total_ns", "gpu_work"),
    *("kernels", "backward_gpu_ns", "idle_ns"),
)
NOT_OF_THE_USER = re.compile(r"^<built-in|^torch/|/torch/")


class RawOperators(RawModules):
    """The operators of one rank, from its events."""

    def __init__(self, events: list[dict[str, Any]], *, last_step: bool = False) -> None:
        super().__init__(events, last_step=last_step)
        self.arguments = {index: event.get("args") or {} for index, event in enumerate(events)}

    @cached_property
    def bound(self) -> float:
        """Start of the last step, from which on calls are not analysed."""
        distinct = {*self.number.values()}
        if len(distinct) == len(self.numbers):
            return float("inf")
        return max(each.start for each in self.steps)

    @cached_property
    def operators(self) -> list[Call]:
        """Operators that are analysed."""
        every = [call for calls in self.threads.values() for call in calls]
        return [call for call in every if call.kind == "op" and call.start < self.bound]

    def nearest(self, call: Call | None) -> Call | None:
        """Innermost operator at or around a call."""
        while call is not None and call.kind != "op":
            call = call.parent
        return call

    def operator_above(self, call: Call) -> Call | None:
        """Innermost operator around an operator."""
        return self.nearest(call.parent)

    def chain(self, call: Call | None) -> list[Call]:
        """Operators at and around a call, the innermost of each name."""
        found: dict[str, Call] = {}
        call = self.nearest(call)
        while call is not None:
            found.setdefault(call.name, call)
            call = self.operator_above(call)
        return list(found.values())

    def per_call(self) -> dict[Call, Counter[str]]:
        """Numbers of each operator call."""
        found: dict[Call, Counter[str]] = {call: Counter(calls=1) for call in self.operators}
        for call in self.operators:
            own = call.cut_end - call.start
            found[call]["cpu_self_ns"] += own
            found[call]["cpu_total_ns"] += own
            above = self.operator_above(call)
            if above is not None:
                found[above]["cpu_self_ns"] -= own
                same = next((c for c in self.chain(above) if c.name == call.name), None)
                if same is not None:
                    found[same]["cpu_total_ns"] -= own
        for work in self.analysed:
            self._add_work(found, work)
        for device in self.devices():
            for row in self.rows(device):
                owner = self.nearest(row["owner"])
                if owner is not None:
                    found.setdefault(owner, Counter())["idle_ns"] += row["ns"]
        return found

    def _add_work(self, found: dict[Call, Counter[str]], work: dict[str, Any]) -> None:
        own, ns = self.nearest(work["call"]), work["end"] - work["start"]
        if own is None:
            return
        found[own] += Counter(gpu_self_ns=ns, gpu_work=1, kernels=int(work["is_kernel"]))
        for call in self.chain(own):
            found[call]["gpu_total_ns"] += ns
        backward: Call | None = own
        while backward is not None and backward not in self.forward_of:
            backward = backward.parent
        if backward is not None and self.forward_of[backward] in found:
            found[self.forward_of[backward]]["backward_gpu_ns"] += ns

    def outside_ns(self) -> tuple[int, int]:
        """GPU time outside operators, and of unknown launch."""
        outside = unrecorded = 0
        for work in self.analysed:
            if work["call"] is None:
                unrecorded += work["end"] - work["start"]
            elif self.nearest(work["call"]) is None:
                outside += work["end"] - work["start"]
        return outside, unrecorded

    def shape(self, call: Call) -> tuple[str, str]:
        """Shapes and types of the inputs, as JSON."""
        arguments = self.arguments[call.index]
        dims = arguments.get("Input Dims", arguments.get("Input dims"))
        types = arguments.get("Input type", arguments.get("Input Type"))
        return _json(dims), _json(types)

    def stack(self, call: Call) -> str:
        """The five innermost frames of the user."""
        frames = [e.name for e in call.path if e.kind == "python"]
        return " › ".join([f for f in frames if not NOT_OF_THE_USER.search(f)][-5:])

    def rows_by(self, *keys) -> dict[tuple[Any, ...], dict[str, int]]:
        """Sums by functions of a call."""
        found: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
        for call, numbers in self.per_call().items():
            for name, value in numbers.items():
                found[tuple(key(call) for key in keys)][name] += value
        return {key: {name: each[name] for name in COLUMNS} for key, each in found.items()}


def _json(value: Any) -> str:
    return "" if value is None else json.dumps(value, default=_number)


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else str(value)
