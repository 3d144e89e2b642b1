"""Cutting trace text: any layout, any block size, cut off anywhere."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.errors import TraceFormatError
from hta_widgets.trace.loaders.kineto import text as event_text
from hta_widgets.trace.loaders.kineto.text import EventText
from tests.kineto_text import LAYOUTS, call, document, host, kernel, write

HOSTILE_NAMES = ['a "quoted" name', "}, {", "]}", "back\\slash", '},\n  {\n    "ph": "X"', "µ<b>"]
EVENTS = [
    event
    for number in range(30)
    for event in (
        host(number * 10.0, 5.5, HOSTILE_NAMES[number % len(HOSTILE_NAMES)]),
        call(number * 10 + 1.25, 1.0, number),
        kernel(number * 10 + 3, 2.125, correlation=number, nested=[{"ph": "X"}, {"a": [1]}]),
    )
]
METADATA = {"deviceProperties": [{"id": 0}, {"id": 1}], "baseTimeNanoseconds": 12}


def read(path):
    text = EventText(path)
    events = [event for piece in text for event in json.loads(piece)]
    return events, text


@pytest.fixture(params=[64, 700, 1 << 20])
def block_bytes(request, monkeypatch):
    monkeypatch.setattr(event_text, "BLOCK_BYTES", request.param)
    return request.param


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.usefixtures("block_bytes")
def test_every_layout_gives_every_event(tmp_path, layout, suffix, bare):
    path = write(tmp_path / f"trace{suffix}", EVENTS, layout=layout, bare=bare, **METADATA)
    events, text = read(path)
    assert events == EVENTS
    assert not text.truncated
    metadata = text.metadata()
    assert bare or metadata.items() >= METADATA.items()


@pytest.mark.usefixtures("block_bytes")
def test_metadata_after_the_events(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": EVENTS, **METADATA}))
    events, text = read(path)
    assert events == EVENTS
    assert text.metadata() == METADATA


@pytest.fixture(params=[40, 900, 1 << 16])
def end_bytes(request, monkeypatch):
    monkeypatch.setattr(event_text, "_END_BYTES", request.param)
    return request.param


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
@pytest.mark.parametrize("behind", [{}, {"distributedInfo": {"rank": 3, "ranks": [{"a": []}]}}])
@pytest.mark.usefixtures("block_bytes", "end_bytes")
def test_metadata_around_events_is_all_of_it(tmp_path, layout, suffix, behind):
    text = LAYOUTS[layout]({**METADATA, "traceEvents": EVENTS}).rstrip()
    text = f"{text[:-1]}, {json.dumps(behind)[1:]}\n" if behind else text
    path = tmp_path / f"trace{suffix}"
    path.write_bytes(gzip.compress(text.encode()) if suffix == ".json.gz" else text.encode())
    metadata = EventText(path).metadata_around_events()
    assert metadata.items() >= {**METADATA, **behind}.items()
    assert metadata == read(path)[1].metadata()


@pytest.mark.parametrize("events", [[], EVENTS[:1]])
def test_metadata_around_few_events(tmp_path, events):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events, "rank": {"a": [1]}}))
    assert EventText(path).metadata_around_events() == {"rank": {"a": [1]}}
    path.write_text(json.dumps(events))
    assert EventText(path).metadata_around_events() == {}
    path.write_text('{"schemaVersion": 1, "traceEvents": [' + json.dumps(EVENTS)[1:-9])
    assert EventText(path).metadata_around_events() == {"schemaVersion": 1}


def test_metadata_around_events_does_not_read_them(tmp_path, monkeypatch):
    monkeypatch.setattr(event_text, "BLOCK_BYTES", 1_000)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": EVENTS * 500, **METADATA}))
    read_bytes = []
    assert EventText(path, read_bytes.append).metadata_around_events() == METADATA
    assert sum(read_bytes) <= 2 * 1_000 + (1 << 16) < path.stat().st_size / 10


def test_header_reads_no_event(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({**METADATA, "traceEvents": EVENTS}))
    assert EventText(path).header() == METADATA


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_header_unpacks_little(tmp_path, monkeypatch, suffix):
    unpacked = []
    read_head = EventText._read_head

    def counting(text, blocks):
        return read_head(text, (unpacked.append(len(block)) or block for block in blocks))

    monkeypatch.setattr(EventText, "_read_head", counting)
    path = write(tmp_path / f"trace{suffix}", EVENTS * 500, **METADATA)
    assert EventText(path).header() == {"schemaVersion": 1, **METADATA}
    assert sum(unpacked) <= 1 << 16
    unpacked.clear()
    long = write(tmp_path / f"long{suffix}", EVENTS, note="x" * 200_000)
    assert EventText(long).header() == {"schemaVersion": 1, "note": "x" * 200_000}
    assert len(unpacked) > 1


@given(data=st.data(), layout=st.sampled_from(sorted(LAYOUTS)))
def test_cut_off_anywhere_keeps_every_whole_event(tmp_path_factory, data, layout):
    whole = LAYOUTS[layout](document(EVENTS, **METADATA))
    start = whole.index('"traceEvents"') + 40
    end = len(whole[: whole.rindex('"ph"')])
    length = data.draw(st.integers(start, end))
    path = tmp_path_factory.mktemp("cut") / "trace.json"
    path.write_text(whole[:length])
    events, text = read(path)
    assert text.truncated
    assert events == EVENTS[: len(events)]
    rest = EVENTS[len(events)]
    assert LAYOUTS[layout](document([*events, rest]))[:-20] not in path.read_text()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["a}", "a]}", "a}, {", 'a\\"}', "a}\\"])
def test_cut_off_in_a_name_with_brackets(tmp_path, layout, name):
    whole = LAYOUTS[layout](document([*EVENTS[:2], host(20, 1, name)]))
    before, opened, _ = whole.partition(json.dumps(name)[:-1])
    path = tmp_path / "trace.json"
    path.write_text(before + opened)
    events, text = read(path)
    assert text.truncated
    assert events == EVENTS[:2]


def test_truncated_gzip_keeps_the_events_before(tmp_path):
    packed = gzip.compress(json.dumps(document(EVENTS * 200)).encode())
    path = tmp_path / "trace.json.gz"
    path.write_bytes(packed[: len(packed) // 2])
    events, text = read(path)
    assert text.truncated
    assert 0 < len(events) < len(EVENTS) * 200
    assert events == (EVENTS * 200)[: len(events)]


def test_events_that_begin_with_different_keys(tmp_path, monkeypatch):
    monkeypatch.setattr(event_text, "_RELEARN_BYTES", 4096)
    monkeypatch.setattr(event_text, "BLOCK_BYTES", 1024)
    first = [{"name": "process_name", "ph": "M", "pid": 1}]
    path = write(tmp_path / "trace.json", first + EVENTS * 3)
    pieces = list(EventText(path))
    assert len(pieces) > 3
    assert [e for piece in pieces for e in json.loads(piece)] == first + EVENTS * 3


def test_no_events(tmp_path):
    path = write(tmp_path / "trace.json", [], **METADATA)
    events, text = read(path)
    assert events == []
    assert not text.truncated


def test_byte_order_mark(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document(EVENTS)), encoding="utf-8-sig")
    assert read(path)[0] == EVENTS


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"hello", "not a JSON trace"),
        (b"", "empty"),
        (b'{"a": 1}', "no 'traceEvents'"),
        (b'{"traceEvents": 5}', "no 'traceEvents'"),
        (b"\x1f\x8b not gzip at all", "empty or cannot be decompressed"),
    ],
)
def test_what_is_no_trace_says_so_and_names_the_file(tmp_path, content, words):
    path = tmp_path / "some.json"
    path.write_bytes(content)
    with pytest.raises(TraceFormatError, match=r"some\.json") as caught:
        read(path)
    assert words in str(caught.value)
