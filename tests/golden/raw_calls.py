"""Kernel sequences straight from the JSON, in plain Python.

Follows the words of the documentation and shares no code with the package: for each call its
outermost fitting ancestor is found by looking at all calls of its thread that are running.
"""

from __future__ import annotations

import re
from collections import defaultdict
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.kineto_text import Event, events_of

WORK = ("kernel", "gpu_memcpy", "gpu_memset")
LAUNCHING = ("cuda_runtime", "cuda_driver")
NOT_ON_THE_CPU = (*WORK, "cuda_sync", "gpu_user_annotation", "cuda_profiler_range", "Trace")


def kernel_sequences(path: Path, operator_name: str, min_pattern_len: int = 3) -> list[list[Any]]:
    """Pattern, count, GPU and CPU time (exact, in µs)."""
    work, threads, bound = _read(path)
    roots, launched_in = _roots_and_launches(threads, operator_name)
    of_root: dict[int, list[Event]] = {id(root): [] for root in roots}
    for event in work:
        launch, root = launched_in.get(event["args"].get("correlation"), (None, None))
        if root is not None and launch["start"] < bound:
            of_root[id(root)].append(event)
    found: dict[str, list[Any]] = defaultdict(lambda: [0, Decimal(0), Decimal(0)])
    for root in roots:
        kernels = of_root[id(root)]
        if len(kernels) >= min_pattern_len:
            total = found["|".join([root["name"], *(kernel["name"] for kernel in kernels)])]
            total[0] += 1
            total[1] += sum(kernel["length"] for kernel in kernels)
            total[2] += root["length"]
    rows = [[pattern, *total] for pattern, total in found.items()]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


@lru_cache(maxsize=1)  # several queries on one trace follow each other
def _read(path: Path) -> tuple[list[Event], list[list[Event]], Decimal]:
    """GPU work, the calls of each thread, both in their order; and the start of the last step."""
    events = [event for event in events_of(path) if event.get("ph") == "X"]
    by_thread, work = defaultdict(list), []
    for event in events:
        event["start"], event["length"] = Decimal(event["ts"]), Decimal(event["dur"])
        if event["cat"] in WORK:
            work.append(event)
        if event["cat"] not in NOT_ON_THE_CPU:
            by_thread[event["pid"], event["tid"]].append(event)
    for calls in by_thread.values():
        calls.sort(key=lambda call: (call["start"], -call["length"]))
    work.sort(key=lambda event: event["start"])
    return work, [*by_thread.values()], _start_of_last_step(events)


def _roots_and_launches(threads: list[list[Event]], operator_name: str) -> Any:
    """Outermost fitting calls; per correlation id the launch and the root around it."""
    roots: list[Event] = []
    launched_in: dict[int, Any] = {}
    for calls in threads:
        running: list[tuple[Decimal, Any]] = []
        for call in calls:
            start = call["start"]
            while running and running[-1][0] <= start:
                running.pop()
            root = running[-1][1] if running else None
            if root is None and operator_name in call["name"]:
                root = call
                roots.append(call)
            running.append((start + call["length"], root))
            if call["cat"] in LAUNCHING:
                launched_in.setdefault((call.get("args") or {}).get("correlation"), (call, root))
    return roots, launched_in


def _start_of_last_step(events: list[Event]) -> Decimal:
    steps = [
        event["start"]
        for event in events
        if event["cat"] == "user_annotation" and re.match(r"ProfilerStep#\d", event["name"])
    ]
    return max(steps) if len(steps) > 1 else Decimal("Infinity")
