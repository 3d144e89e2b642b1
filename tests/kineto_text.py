"""Write tiny Kineto traces from literal events, in the layouts of real files, and read traces."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

Event = dict[str, Any]


def kernel(
    ts: float | str,
    dur: float,
    *,
    name: str = "kernel",
    stream: int = 7,
    correlation: int | None = None,
    device: int = 0,
    cat: str = "kernel",
    **args: Any,
) -> Event:
    """A piece of GPU work; times in µs."""
    args = {"device": device, "stream": stream} | args
    if correlation is not None:
        args["correlation"] = correlation
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": device,
        "tid": stream,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def call(
    ts: float,
    dur: float,
    correlation: int,
    *,
    name: str = "cudaLaunchKernel",
    cat: str = "cuda_runtime",
    pid: int = 100,
    tid: int = 100,
) -> Event:
    """A CPU call that launches GPU work."""
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": {"correlation": correlation, "External id": 1},
    }


def host(ts: float, dur: float, name: str, *, cat: str = "cpu_op", tid: int = 100) -> Event:
    """An operator, annotation or Python function of the CPU."""
    return {"ph": "X", "cat": cat, "name": name, "pid": 100, "tid": tid, "ts": ts, "dur": dur}


def step(number: int, ts: float, dur: float) -> Event:
    """A ProfilerStep."""
    return host(ts, dur, f"ProfilerStep#{number}", cat="user_annotation")


def document(events: list[Event], **metadata: Any) -> dict[str, Any]:
    """The object form of a trace."""
    return {"schemaVersion": 1, **metadata, "traceEvents": events}


def _kineto_layout(content: dict[str, Any] | list[Event]) -> str:
    """One event over a few lines, as Kineto prints it."""
    if isinstance(content, list):
        return "[" + ",".join(map(_kineto_event, content)) + "\n]\n"
    head = "".join(
        f"  {json.dumps(key)}: {json.dumps(value)},\n"
        for key, value in content.items()
        if key != "traceEvents"
    )
    events = ",".join(map(_kineto_event, content["traceEvents"]))
    return f'{{\n{head}  "traceEvents": [{events}\n  ],\n  "traceName": "trace.json"\n}}\n'


def _kineto_event(event: Event) -> str:
    arguments = event.get("args")
    first = {key: value for key, value in event.items() if key != "args" or not arguments}
    lines = f"\n  {{\n    {json.dumps(first)[1:-1]}"
    if arguments:
        lines += f',\n    "args": {{\n      {json.dumps(arguments)[1:-1]}\n    }}'
    return lines + "\n  }"


LAYOUTS: dict[str, Callable[[Any], str]] = {
    "one_line": json.dumps,
    "compact": lambda content: json.dumps(content, separators=(",", ":")),
    "indent2": lambda content: json.dumps(content, indent=2),
    "indent4": lambda content: json.dumps(content, indent=4),
    "kineto": _kineto_layout,
}


def write(
    path: Path, events: list[Event], *, layout: str = "kineto", bare: bool = False, **metadata: Any
) -> Path:
    """Write a trace; gzip by the name's suffix."""
    content = events if bare else document(events, **metadata)
    text = LAYOUTS[layout](content)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def text_of(path: Path) -> bytes:
    """What a file holds, unpacked."""
    content = path.read_bytes()
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def read(path: Path) -> Any:
    """A trace, whose JSON must be right."""
    return json.loads(text_of(path))


def read_exactly(path: Path) -> Any:
    """A trace with exact times, whose names may hold what JSON and UTF-8 do not allow."""
    return json.loads(text_of(path).decode("utf-8", "replace"), strict=False, parse_float=Decimal)


def events_of(path: Path) -> list[Event]:
    """The events of such a trace."""
    content = read_exactly(path)
    events: list[Event] = content["traceEvents"] if isinstance(content, dict) else content
    return events
