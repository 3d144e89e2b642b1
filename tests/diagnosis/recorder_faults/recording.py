"""A Kineto trace in memory: events with exact times, and their text again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.kineto_text import read_exactly

Event = dict[str, Any]
GPU_WORK = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
CALLS = frozenset({"cuda_runtime", "cuda_driver"})
STEP = "ProfilerStep#"


@dataclass(frozen=True)
class Recording:
    """One rank. Events are never changed, only replaced, so that their texts can be kept.

    Attributes
    ----------
    document : dict
        The keys of the file, in their order.
    events : tuple of dict
        ``ts`` and ``dur`` are whole ns.
    texts : dict
        Text of each event that was ever written, by identity; with the event, which keeps it alive.
    """

    document: dict[str, Any]
    events: tuple[Event, ...]
    texts: dict[int, tuple[Event, str]] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, path: Path) -> Recording:
        document = read_exactly(path)
        return cls(document | {"traceEvents": []}, tuple(map(_in_ns, document["traceEvents"])))

    def having(self, events: Iterable[Event]) -> Recording:
        """The same with other events."""
        return replace(self, events=tuple(events))

    def with_each(self, change: Callable[[Event], Event | None]) -> Recording:
        """The same with each event replaced, or left out where the answer is None."""
        changed = (change(event) for event in self.events)
        return self.having(event for event in changed if event is not None)

    def with_values(self, **values: Any) -> Recording:
        """The same with other values beside the events."""
        return replace(self, document=self.document | values)

    @property
    def gpu_work(self) -> list[Event]:
        """Kernels, copies and fills, by their start."""
        return sorted(filter(is_gpu_work, self.events), key=lambda event: event["ts"])

    @property
    def steps(self) -> list[Event]:
        """The ProfilerSteps on the CPU, by their start."""
        found = (event for event in self.events if is_step(event))
        cpu = (event for event in found if event["cat"] != "gpu_user_annotation")
        return sorted(cpu, key=lambda event: event["ts"])

    def span(self, chosen: Callable[[Event], bool]) -> tuple[int, int]:
        """First start and last end of some events."""
        found = [event for event in self.events if chosen(event)]
        return min(event["ts"] for event in found), max(map(end_of, found))

    def text(self) -> str:
        """The file."""
        parts = []
        for key, value in self.document.items():
            if key == "traceEvents":
                parts.append(f'"traceEvents": [\n{self._events_text()}\n]')
            else:
                parts.append(f"{json.dumps(key)}: {json.dumps(value, default=float)}")
        return "{\n" + ",\n".join(parts) + "\n}"

    def _events_text(self) -> str:
        for event in self.events:
            if id(event) not in self.texts:
                self.texts[id(event)] = event, _text_of(event)
        return ",\n".join(self.texts[id(event)][1] for event in self.events)


def is_gpu_work(event: Event) -> bool:
    return event.get("cat") in GPU_WORK


def is_step(event: Event) -> bool:
    return event.get("ph") == "X" and str(event.get("name")).startswith(STEP)


def is_timed(event: Event) -> bool:
    """Whether it has a start and an end; the span of the whole recording does not count."""
    return event.get("ph") == "X" and event.get("cat") != "Trace"


def end_of(event: Event) -> int:
    """End (ns)."""
    return int(event["ts"] + event.get("dur", 0))


def _in_ns(event: Event) -> Event:
    times = {name: int(Decimal(event[name]) * 1000) for name in ("ts", "dur") if name in event}
    return event | times


def _text_of(event: Event) -> str:
    rest = {name: value for name, value in event.items() if name not in ("ts", "dur")}
    times = [
        f'"{name}": {Decimal(event[name]).scaleb(-3):f}' for name in ("ts", "dur") if name in event
    ]
    return (
        f"{json.dumps(rest, default=float)[:-1]}, {', '.join(times)}}}"
        if times
        else json.dumps(rest, default=float)
    )
