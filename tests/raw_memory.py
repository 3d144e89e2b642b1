"""Memory by brute force: plain Python over the events of a trace as JSON."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, NamedTuple

Event = dict[str, Any]
Device = tuple[int, int]


class RawMemory(NamedTuple):
    """What the memory events of one device say."""

    events: int
    start_bytes: int
    net_bytes: int
    alloc_bytes: int
    peak_bytes: int
    peak_event: int
    max_reserved: int
    mismatch: int
    frees_of_unknown: int
    alive_bytes: int
    before_bytes: int
    blocks: int
    owners: Counter[str]


def raw_memory(events: list[Event]) -> dict[Device, RawMemory]:
    """Follow the memory events with totals of each (device type, device)."""
    operators = [each for each in events if each.get("cat") == "cpu_op" and each["ph"] == "X"]
    by_device: defaultdict[Device, list[Event]] = defaultdict(list)
    for event in events:
        if event.get("name") == "[memory]" and event["ph"] == "i":
            args = event["args"]
            by_device[args["Device Type"], args["Device Id"]].append(event)
    return {
        device: _follow(sorted(each, key=lambda event: event["ts"]), operators)
        for device, each in by_device.items()
    }


def _follow(events: list[Event], operators: list[Event]) -> RawMemory:
    first = events[0]["args"]
    start = running = first["Total Allocated"] - first["Bytes"]
    peak, at_peak = -1, (0, {}, 0)
    open_blocks: dict[int, Event] = {}
    unknown = unknown_bytes = mismatch = 0
    for place, event in enumerate(events):
        args = event["args"]
        size, address = args["Bytes"], args["Addr"]
        running += size
        mismatch += running != args["Total Allocated"]
        if size > 0:
            assert address not in open_blocks
            open_blocks[address] = event
        elif address in open_blocks:
            assert open_blocks.pop(address)["args"]["Bytes"] == -size
        else:
            unknown += 1
            unknown_bytes -= size
        if running > peak:
            peak, at_peak = running, (place, dict(open_blocks), start - unknown_bytes)
    place, alive, before = at_peak
    owners: Counter[str] = Counter()
    blocks = sorted(alive.values(), key=lambda block: block["ts"])
    for block, name in zip(blocks, _operators(blocks, operators), strict=True):
        owners[name] += block["args"]["Bytes"]
    return RawMemory(
        events=len(events),
        start_bytes=start,
        net_bytes=running - start,
        alloc_bytes=sum(max(event["args"]["Bytes"], 0) for event in events),
        peak_bytes=peak,
        peak_event=place,
        max_reserved=max(event["args"]["Total Reserved"] for event in events),
        mismatch=mismatch,
        frees_of_unknown=unknown,
        alive_bytes=sum(block["args"]["Bytes"] for block in alive.values()),
        before_bytes=before,
        blocks=len(alive),
        owners=owners,
    )


def _operators(blocks: list[Event], operators: list[Event]) -> list[str]:
    """Name of the shortest operator that runs on the thread of each event; "" for none."""
    starts = [(each["ts"], 0, each) for each in operators]
    asked = [(block["ts"], 1, block) for block in blocks]
    running: list[Event] = []
    names = []
    for now, is_block, event in sorted([*starts, *asked], key=lambda each: each[:2]):
        if not is_block:
            running.append(event)
            continue
        running = [each for each in running if now < each["ts"] + each["dur"]]
        mine = [each for each in running if _thread(each) == _thread(event)]
        shortest = min(mine, key=lambda each: (each["dur"], -each["ts"]), default={"name": ""})
        names.append(shortest["name"])
    return names


def _thread(event: Event) -> tuple[object, object]:
    return event["pid"], event["tid"]
