"""Write a longer trace by repeating a real one, if no other tool is available.

Copies follow each other in time and get new correlation ids, so that launches still match their
operations. Only one copy is in memory at a time.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

GAP_US = 1000
IDS = ("correlation", "External id", "Ev Idx")
_ONCE = "M"

Event = dict[str, Any]


def tile(source: Path, target: Path, *, events: int, rank: int, world: int) -> None:
    """Write a gzipped trace of at least this many events."""
    trace = json.loads(_content(source), parse_float=Decimal)
    once = [
        event for event in trace["traceEvents"] if event.get("ph") == _ONCE or "ts" not in event
    ]
    repeated = [
        event for event in trace["traceEvents"] if event.get("ph") != _ONCE and "ts" in event
    ]
    times = -(-events // max(1, len(repeated)))
    head = {key: value for key, value in trace.items() if key != "traceEvents"}
    head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world}
    with gzip.open(target, "wt", compresslevel=6) as file:
        file.write(_text(head)[:-1] + ',\n"traceEvents": [\n')
        file.write(",\n".join(map(_text, once)))
        for copy in _copies(repeated, times):
            file.write("".join(f",\n{_text(event)}" for event in copy))
        file.write("\n]}\n")


def _copies(events: list[Event], times: int) -> Iterator[list[Event]]:
    ends = [Decimal(event["ts"]) + Decimal(event.get("dur") or 0) for event in events]
    span = int(max(ends) - min(Decimal(event["ts"]) for event in events)) + GAP_US
    ids = 1 + max(
        (number for event in events for number in _ids(event).values()),
        default=0,
    )
    for copy in range(times):
        yield [_shifted(event, copy * span, copy * ids) for event in events]


def _shifted(event: Event, later: int, ids: int) -> Event:
    moved = {**event, "ts": event["ts"] + later}
    own = {key: number + ids for key, number in _ids(event).items()}
    return moved | {"args": {**event["args"], **own}} if own else moved


def _ids(event: Event) -> dict[str, int]:
    arguments = event.get("args") or {}
    return {key: arguments[key] for key in IDS if isinstance(arguments.get(key), int)}


def _content(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def _text(value: object) -> str:
    """JSON, decimals as they were written."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{json.dumps(key)}: {_text(each)}" for key, each in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    return json.dumps(value)


def main() -> None:
    arguments = json.loads(sys.argv[1])
    target = Path(arguments["target"])
    target.mkdir(parents=True, exist_ok=True)
    ranks = arguments["ranks"]
    for rank in range(ranks):
        tile(
            Path(arguments["source"]),
            target / f"rank-{rank}.json.gz",
            events=arguments["events"],
            rank=rank,
            world=ranks,
        )


if __name__ == "__main__":
    main()
