"""Traces, and damaged bytes of them, from a source of random choices."""

from __future__ import annotations

import gzip
import json
from random import Random
from typing import Any

from tests.kineto_text import LAYOUTS, call, host, kernel

TOKENS = [
    *(
        b'"',
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b" ",
        b"\n",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
    ),
    *(b"NaN", b"-Infinity", b"nan", b"inf", b"null", b"true", b"1e400", b"-", b"1.5", b"9" * 30),
    *(
        b"\\u00e9",
        b"\\ud800",
        b"\\q",
        b"},{",
        b"}, {",
        b']}, {"ph": "X"',
        b'"traceEvents": [',
        b"]}",
    ),
    *(b'{"ph": "X", "ts": 1, "dur": 2}', b'{"name":', b'{"ph":', b"\x1f\x8b", b"/*", b"'", b"],"),
]
ODD_VALUES = [
    *(None, True, False, 0, -1, 1.5, -0.0, 1e300, 10**30, 2**63, 2**32 - 1, "", "7", "x", " 1.25 "),
    *(
        "1e3",
        "NaN",
        "a\\b",
        "}, {",
        "]}",
        "µ\u2028\ud83d\ude00",
        [],
        {},
        [{}],
        {"a": [{"ph": "X"}]},
    ),
    *([[1, 2], []], [{"name": "n"}, {"name": "m"}], ["NaN, ", ", inf]"], {"traceEvents": [1]}),
]
KEYS = ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id", "odd"]
ARGUMENTS = [
    "device",
    "stream",
    "correlation",
    "bytes",
    "External id",
    "Input Dims",
    "Collective name",
]
PHASES = [*"XXXXiICMstfBEbne", "", "complete"]
METADATA: dict[str, Any] = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "GPU }, {"}],
    "distributedInfo": {"rank": 0, "note": {"traceEvents": [{"ph": "X"}]}},
    "baseTimeNanoseconds": 1_727_784_000_000_000_000,
    "say": '"traceEvents": [',
}


def document(random: Random) -> bytes:
    """A trace in one of the layouts, of which some events are odd; it is JSON."""
    events = [_event(random, number) for number in range(random.randrange(12))]
    before, behind = (
        {key: METADATA[key] for key in METADATA if random.random() < 0.3} for _ in "ab"
    )
    content = {**before, "traceEvents": events, **behind} if random.random() < 0.8 else events
    text = _laid_out(random, content).encode("utf-8", "surrogatepass")
    text = random.choice([b"", b"", b"", b"\xef\xbb\xbf"]) + text
    return gzip.compress(text, random.choice([0, 6])) if random.random() < 0.2 else text


def damaged(random: Random, content: bytes) -> bytes:
    """Bytes with a few places cut out, overwritten, repeated or put in."""
    is_gzip = content.startswith(b"\x1f\x8b") and random.random() < 0.7
    content = gzip.decompress(content) if is_gzip else content
    for _ in range(random.choice([0, 1, 1, 1, 2, 5])):
        begin = random.randrange(len(content) + 1)
        end = min(len(content), begin + random.choice([0, 1, 1, 2, 8, 40, 300]))
        replaced = random.choice(
            [b"", random.choice(TOKENS), content[begin:end] * 2, bytes([random.randrange(256)])]
        )
        content = content[:begin] + replaced + content[end:]
    if random.random() < 0.15:
        content = content[: random.randrange(len(content) + 1)]
    return gzip.compress(content) if is_gzip else content


def _event(random: Random, number: int) -> Any:
    at = random.choice([number * 10, number * 10 + 0.125, 1732611000000000 + number, 5])
    event = random.choice(
        [
            kernel(
                at, random.choice([0, 1, 2.5, 0.001]), name=f"kernel {number}", correlation=number
            ),
            call(at, 1, number),
            host(at, 3, random.choice(["aten::mm", "a, NaN, b", "C:\\dir", "}, {", '"', "µ"])),
            {"ph": "C", "name": "Queue Length", "pid": 0, "ts": at, "args": {"7": number}},
            {"name": "process_name", "ph": "M", "pid": 0, "args": {"name": "python"}},
        ]
    )
    if random.random() < 0.3:
        event["args"] = {
            **(event.get("args") or {}),
            "list": [{"ph": "X"}, {"ph": "Y"}, {"name": 1}],
        }
    for _ in range(random.choice([0, 0, 0, 1, 2])):
        event = _odd(random, event)
    return random.choice(ODD_VALUES) if random.random() < 0.03 else event


def _odd(random: Random, event: dict[str, Any]) -> dict[str, Any]:
    value = random.choice(ODD_VALUES)
    key = random.choice(KEYS)
    if key == "args" and random.random() < 0.7:
        arguments = event.get("args")
        known = arguments if isinstance(arguments, dict) else {}
        return event | {"args": {**known, random.choice(ARGUMENTS): value}}
    if random.random() < 0.2:
        return {each: event[each] for each in event if each != key}
    return event | {key: random.choice(PHASES) if key == "ph" else value}


def _laid_out(random: Random, content: Any) -> str:
    layout = random.choice(sorted(LAYOUTS))
    try:
        return LAYOUTS[layout](content)
    except (AttributeError, TypeError):  # Kineto's own layout has objects as events
        return json.dumps(content)
