"""Parts of Kineto traces: files cut short, and recordings that lack categories or arguments."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from tests.kineto_text import Event, text_of

CPU_SIDE = ("cpu_op", "python_function", "user_annotation", "cpu_instant_event", "fwdbwd", "Trace")
"""Categories that ``activities=[ProfilerActivity.CPU]`` records."""


@dataclass(frozen=True)
class Recording:
    """The text of a trace, and what it holds."""

    text: bytes
    document: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> Recording:
        text = text_of(path)
        found = json.loads(text)
        return cls(text, found if isinstance(found, dict) else {"traceEvents": found})

    @property
    def events(self) -> list[Event]:
        return list(self.document["traceEvents"])

    @property
    def categories(self) -> list[str]:
        return sorted({category(event) for event in self.events})

    @property
    def arguments(self) -> list[str]:
        return sorted({name for event in self.events for name in arguments(event)})

    def of(self, events: Iterable[Event]) -> bytes:
        """The same recording with other events."""
        return json.dumps({**self.document, "traceEvents": [*events]}).encode()

    def cuts(self, count: int) -> Iterator[tuple[str, bytes]]:
        """The beginning of the file, cut at places that divide it evenly."""
        for number in range(1, count + 1):
            size = len(self.text) * number // (count + 1)
            yield f"the first {size:,} bytes", self.text[:size]

    def without_categories(self, *, pairs: bool = False) -> Iterator[tuple[str, bytes]]:
        """Without each of the categories, with that alone, and without each two of them."""
        every = self.categories
        left_out = [{name} for name in every] + [{*every} - {name} for name in every]
        left_out += [{*both} for both in combinations(every, 2)] if pairs else []
        for names in left_out:
            kept = [event for event in self.events if category(event) not in names]
            yield f"without the categories {', '.join(sorted(names))}", self.of(kept)

    def without_arguments(self) -> Iterator[tuple[str, bytes]]:
        """Without each of the arguments, and without all of them."""
        for name in self.arguments:
            yield f"without the argument {name}", self.of(without(self.events, {name}))
        yield "without arguments", self.of(without(self.events, self.arguments))


def category(event: Event) -> str:
    return str(event.get("cat", ""))


def arguments(event: Event) -> dict[str, Any]:
    found = event.get("args")
    return found if isinstance(found, dict) else {}


def without(events: Iterable[Event], names: Collection[str]) -> Iterator[Event]:
    for event in events:
        kept = {name: value for name, value in arguments(event).items() if name not in names}
        yield {**event, "args": kept} if kept else {k: v for k, v in event.items() if k != "args"}


def cpu_side(recording: Recording) -> bytes:
    """The recording as it is without ``ProfilerActivity.CUDA``, with a softmax among its operators.

    The softmax of the scores of attention is what PyTorch calls ``aten::_softmax``.
    """
    kept = [event for event in recording.events if category(event) in (*CPU_SIDE, "")]
    for event in kept:
        if event["name"] == "[memory]":
            event["args"] |= {"Device Type": 0, "Device Id": -1}
    return recording.of(kept).replace(b"aten::_log_softmax", b"aten::_softmax")
