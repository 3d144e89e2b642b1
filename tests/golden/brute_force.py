"""Times of a rank straight from the JSON, with the standard library only.

Follows the words of the specification, not the package: the step filter of HTA with the GPU work
that B25 adds, exact decimal times, and plain loops.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from tests.kineto_text import read_exactly
from tests.spans import merged

GPU_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset"}
CALLS = {"cuda_runtime", "cuda_driver"}
_CAUSES = ("host_wait", "kernel_wait", "other")


@cache
def gpu_operations(path: Path) -> list[dict[str, Any]]:
    """GPU work that takes part in the analyses: ``name``, ``cat``, ``start``, ``end`` in ns.

    With ``device``, ``stream``, ``correlation``, ``bytes``, ``bandwidth`` (GB/s) and ``call``: the
    launch call, or None. Calls have the same keys; ``tid`` is their thread.
    """
    document = read_exactly(path)
    base = int(document.get("baseTimeNanoseconds", 0))
    used = GPU_CATEGORIES | CALLS | {"user_annotation"}
    events = [
        _in_ns(event, base)
        for event in document["traceEvents"]
        if event.get("ph") == "X" and event.get("cat") in used
    ]
    gpu = [event for event in events if event["cat"] in GPU_CATEGORIES]
    bound = _start_of_last_step(events)
    calls = {
        event["correlation"]: event
        for event in sorted(events, key=lambda each: (-each["start"], each["end"]))
        if event["cat"] in CALLS and event["correlation"] is not None
    }
    for event in gpu:
        event["call"] = calls.get(event["correlation"])
    return [event for event in gpu if (event["call"] or event)["start"] < bound]


def covered(operations: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Merged intervals of the given operations."""
    return merged((each["start"], each["end"]) for each in operations)


def idle_by_stream(operations: list[dict[str, Any]], delay_ns: int) -> dict[int, dict[str, int]]:
    """Idle time (ns) of each stream by cause."""
    idle: dict[int, dict[str, int]] = {}
    reached: dict[int, int] = {}
    for each in sorted(operations, key=lambda each: (each["start"], each["end"])):
        causes = idle.setdefault(each["stream"], dict.fromkeys(_CAUSES, 0))
        since = reached.get(each["stream"], each["start"])
        late = each["call"] is not None and each["call"]["start"] > since
        gap = max(0, each["start"] - since)
        causes["host_wait" if late else "kernel_wait" if gap < delay_ns else "other"] += gap
        reached[each["stream"]] = max(since, each["end"])
    return idle


def _in_ns(event: dict[str, Any], base: int) -> dict[str, Any]:
    start = int(Decimal(event["ts"]) * 1000) + base
    args = event.get("args") or {}
    return {
        "name": event["name"],
        "cat": event.get("cat"),
        "start": start,
        "end": start + int(Decimal(event["dur"]) * 1000),
        "correlation": args.get("correlation"),
        "device": args.get("device", event.get("pid")),
        "stream": args.get("stream"),
        "bytes": int(args.get("bytes", 0)),
        "bandwidth": float(args.get("memory bandwidth (GB/s)", 0)),
        "tid": event.get("tid"),
    }


def _start_of_last_step(events: list[dict[str, Any]]) -> float:
    steps = [
        event
        for event in events
        if event["cat"] == "user_annotation" and re.match(r"ProfilerStep#\d", event["name"])
    ]
    return max(step["start"] for step in steps) if len(steps) > 1 else float("inf")
