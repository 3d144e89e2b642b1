"""GPU operations with their launches and bandwidths straight from the JSON, in plain Python."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from tests.kineto_text import read_exactly

CALLS = ("cuda_runtime", "cuda_driver")
WORK = ("kernel", "gpu_memcpy", "gpu_memset")


@cache
def operations(path: Path) -> list[dict[str, Any]]:
    """GPU work that takes part in the analyses, with ``launched`` (ns) or None."""
    document = read_exactly(path)
    base = int(document.get("baseTimeNanoseconds", 0))
    events = [event for event in document["traceEvents"] if event.get("ph") == "X"]
    steps = [
        _ns(event["ts"], base)
        for event in events
        if event["cat"] == "user_annotation" and re.match(r"ProfilerStep#\d", event["name"])
    ]
    bound = max(steps) if len(steps) > 1 else math.inf
    launches: dict[int, int] = {}
    for event in events:
        number = (event.get("args") or {}).get("correlation")
        if event["cat"] in CALLS and number is not None:
            at = _ns(event["ts"], base)
            launches[number] = min(launches.get(number, at), at)
    work = [_operation(e, base, launches) for e in events if e["cat"] in WORK]
    return [each for each in work if (each["launched"] or each["start"]) < bound]


def queue_lengths(work: list[dict[str, Any]]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Per (device, stream): (time, length from then on) at each launch and each start."""
    changes = defaultdict(list)
    for each in work:
        if each["launched"] is not None:
            key = each["device"], each["stream"]
            changes[key].append((each["launched"], -1))
            changes[key].append((max(each["start"], each["launched"]), +1))
    lengths = {}
    for key, steps in changes.items():
        length, lengths[key] = 0, []
        for time, step in sorted(steps):
            length -= step
            lengths[key].append((time, length))
    return lengths


def bandwidths(work: list[dict[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    """Per kind of transfer: (time, GB/s from then on) at each start and end."""
    changes = defaultdict(list)
    for number, each in enumerate(work):
        if each["cat"] != "kernel":
            kind = "Memset" if each["name"].startswith("Memset") else each["name"][:11]
            end = each["end"] if each["end"] > each["start"] else each["start"] + 1000
            speed = each["bandwidth"] or each["bytes"] / (end - each["start"])
            changes[kind] += [(each["start"], 1, number, speed), (end, 0, number, speed)]
    sums = {}
    for kind, steps in changes.items():
        active: dict[int, float] = {}
        sums[kind] = []
        for time, starts, number, speed in sorted(steps):
            if starts:
                active[number] = speed
            else:
                del active[number]
            sums[kind].append((time, math.fsum(active.values())))
    return sums


def _operation(event: dict[str, Any], base: int, launches: dict[int, int]) -> dict[str, Any]:
    args = event["args"]
    start = _ns(event["ts"], base)
    return {
        "name": event["name"],
        "cat": event["cat"],
        "start": start,
        "end": start + _ns(event["dur"], 0),
        "device": args.get("device", event["pid"]),
        "stream": args["stream"],
        "launched": launches.get(args.get("correlation")),
        "bytes": int(args.get("bytes", 0)),
        "bandwidth": float(args.get("memory bandwidth (GB/s)", 0)),
    }


def _ns(microseconds: Any, base: int) -> int:
    return int(Decimal(str(microseconds)) * 1000) + base
