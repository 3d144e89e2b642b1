"""Queues and bandwidths of the operations of `tests.golden.brute_force`, in plain Python."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any


def queue_lengths(work: list[dict[str, Any]]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Per (device, stream): (time, length from then on) at each launch and each start."""
    changes = defaultdict(list)
    for each in work:
        if each["call"] is not None:
            key, launched = (each["device"], each["stream"]), each["call"]["start"]
            changes[key].append((launched, -1))
            changes[key].append((max(each["start"], launched), +1))
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
