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

from tests.kineto_text import events_of
from tests.spans import merged

GPU_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset"}
CALLS = {"cuda_runtime", "cuda_driver"}
_CAUSES = ("host_wait", "kernel_wait", "other")


@cache
def gpu_operations(path: Path) -> list[dict[str, Any]]:
    """GPU work that takes part in the analyses: ``name``, ``cat``, ``start``, ``end`` in ns.

    With ``stream``, ``correlation`` and ``call``: the launch call, or None. Calls have the same
    keys; ``tid`` is their thread.
    """
    used = GPU_CATEGORIES | CALLS | {"user_annotation"}
    events = [_in_ns(e) for e in events_of(path) if e.get("ph") == "X" and e.get("cat") in used]
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


def _in_ns(event: dict[str, Any]) -> dict[str, Any]:
    start = int(Decimal(event["ts"]) * 1000)
    return {
        "name": event["name"],
        "cat": event.get("cat"),
        "start": start,
        "end": start + int(Decimal(event["dur"]) * 1000),
        "correlation": (event.get("args") or {}).get("correlation"),
        "stream": (event.get("args") or {}).get("stream"),
        "tid": event.get("tid"),
    }


def _start_of_last_step(events: list[dict[str, Any]]) -> float:
    steps = [
        event
        for event in events
        if event["cat"] == "user_annotation" and re.match(r"ProfilerStep#\d", event["name"])
    ]
    return max(step["start"] for step in steps) if len(steps) > 1 else float("inf")
