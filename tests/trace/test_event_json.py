"""Text that is not quite JSON: repaired where possible, else dropped and counted."""

from __future__ import annotations

import json

import pytest

from hta_widgets.trace.loaders.kineto.decode import decode_counters, decode_events, decode_fields
from hta_widgets.trace.loaders.kineto.repair import listed

SEPARATOR = b'{"ph":'
GOOD = b'{"ph": "X", "name": "good", "ts": 1.5, "dur": 2}'


def decode(*events):
    reading = decode_events(listed(b", ".join(events)), SEPARATOR)
    return reading.events, reading.dropped


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
def test_repaired(bad, name):
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


@pytest.mark.parametrize(
    "odd",
    [
        b'{"ph": "B", "name": "odd", "ts": 1}',
        b'{"ph": "I", "name": "odd", "ts": 1}',
        b'{"ph": null, "name": "odd", "ts": 1}',
        b'{"name": "odd", "ts": 1}',
        b'{"name": "odd", "ts": 1, "ph": "i"}',
    ],
)
def test_events_of_any_phase_are_read(odd):
    events, dropped = decode(GOOD, odd, GOOD)
    assert [event.name for event in events] == ["good", "odd", "good"]
    assert [bytes(event.ts) for event in events] == [b"1.5", b"1", b"1.5"]
    assert [event.ph for event in events] == ["X", json.loads(odd).get("ph"), "X"]
    assert dropped == 0


@pytest.mark.parametrize("phase", ["s", "f", "M"])
def test_what_is_no_event_in_time_has_its_place(phase):
    events, dropped = decode(GOOD, b'{"ph": "%b", "id": 1, "name": 3}' % phase.encode(), GOOD)
    assert [event.ph for event in events] == ["X", phase, "X"]
    assert dropped == 0


def test_counters_are_read_with_all_arguments():
    text = b'[{"ph": "C", "name": "n", "args": {"any name": 3}}]'
    assert decode_counters(text)[0].args == {"any name": 3}


def test_counters_beside_an_event_that_is_repaired():
    good = b'{"ph": "C", "name": "n", "args": {"a": 3}}'
    for bad in (b'{"ph": "X", "name": "C:\\q"}', b'{"ph": "X", "name": 5}'):
        text = listed(b", ".join([good, bad, good]))
        assert len(decode_events(text, b'{"ph":').events) == 3
        counted = decode_counters(text)
        assert [event.args for event in counted] == [{"a": 3}, None, {"a": 3}]


def test_fields_are_kept_as_they_are_written():
    text = b'[{"ts": 1753.0010000000000000001, "args": {"b": [1.50, {}]}}, {"name": "x"}]'
    reading = decode_fields(text, b"{")
    first, second = reading.events
    assert bytes(first["ts"]) == b"1753.0010000000000000001"
    assert bytes(first["args"]) == b'{"b": [1.50, {}]}'
    assert (bytes(second["name"]), reading.dropped) == (b'"x"', 0)


@pytest.mark.parametrize("broken", [b'"\x01"', b"NaN", b'"\xff"', b'"C:\\q"'])
def test_fields_are_repaired_like_events(broken):
    text = b'[{"ph":"X","name":"a"},{"ph":"X","name":"b","args":{"k":' + broken + b"}}]"
    reading = decode_fields(text, b'{"ph":')
    fields = reading.events
    assert [json.loads(bytes(each["name"])) for each in fields] == ["a", "b"]
    assert (reading.dropped, len(fields)) == (0, len(decode_events(text, b'{"ph":').events))
    json.loads(bytes(fields[1]["args"]))
