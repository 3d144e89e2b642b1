"""Text that is not quite JSON: mended where possible, else dropped and counted."""

from __future__ import annotations

import pytest

from hta_widgets.trace.event_json import decode_counters, decode_events

SEPARATOR = b'{"ph":'
GOOD = b'{"ph": "X", "name": "good", "ts": 1.5, "dur": 2}'


def decode(*events):
    return decode_events(b", ".join(events), SEPARATOR)


@pytest.mark.parametrize(
    ("bad", "name"),
    [
        (b'{"ph": "X", "name": "n", "ts": 1, "dur": NaN}', "n"),
        (b'{"ph": "X", "name": "n", "ts": 1, "args": {"a":-Infinity}}', "n"),
        (b'{"ph": "X", "name": "n", "ts": 1, "args": {"a": nan, "b": inf}}', "n"),
        (b'{"ph": "X", "name": "says NaN, inf", "ts": 1, "dur": nan}', "says NaN, inf"),
        (b'{"ph": "X", "name": "bad \xff utf-8", "ts": 1}', "bad \ufffd utf-8"),
        (b'{"ph": "X", "name": "line\nbreak", "ts": 1}', "line\nbreak"),
        (b'{"ph": "X", "name": "bell\x07", "ts": 1}', "bell "),
        (b'{"ph": "X", "name": "C:\\x", "ts": 1}', "C:\\x"),
        (b'{"ph": "X", "name": "comma", "ts": 1, "args": {"a": [1, ], }, }', "comma"),
        (b'{"ph": "X", "name": "half \\ud800", "ts": 1}', "half ?"),
        (b'{"ph": "X", "name": 12, "ts": 1}', "12"),
        (b'{"ph": "X", "name": "args", "ts": 1, "args": "none"}', "args"),
        (b'{"ph": "X", "name": null, "cat": null, "pid": null, "ts": 1}', None),
    ],
)
def test_mended(bad, name):
    events, dropped = decode(GOOD, bad, GOOD)
    assert [event.name for event in events] == ["good", name, "good"]
    assert dropped == 0


@pytest.mark.parametrize(
    "bad",
    [
        b'{"ph": "X", "name": "quo"te", "ts": 1}',
        b'{"ph": "X", "name": "deep", "args": ' + b"[" * 5000 + b"]" * 5000 + b', "ts": }',
        b'{"ph": }',
    ],
)
def test_dropped_and_counted(bad):
    events, dropped = decode(GOOD, bad, GOOD)
    assert [event.name for event in events] == ["good", "good"]
    assert dropped == 1


def test_counters_are_read_with_all_arguments():
    text = b'{"ph": "C", "name": "n", "args": {"any name": 3}}'
    assert decode_counters(text)[0].args == {"any name": 3}
