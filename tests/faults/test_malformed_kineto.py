"""Malformed and malicious traces: one odd thing costs itself, or an error says its name."""

from __future__ import annotations

import gzip
import json
import pickle
from typing import NamedTuple

import pytest

from hta_widgets.errors import HtaWidgetsError
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, host, kernel

GOOD = [
    event
    for number in range(8)
    for event in (call(10 * number, 2, number), kernel(10 * number + 4, 3, correlation=number))
]
ODD_AT = 7
NESTED = 100_000
DIGITS = "9" * 100_000
VALUES = {
    "null": "null",
    "true": "true",
    "minus one": "-1",
    "a fraction": "0.5",
    "more than 64 bits": str(2**64),
    "1e400": "1e400",
    "100,000 digits": DIGITS,
    "no text": '""',
    "text": '"x"',
    "digits": '"7"',
    "digits beyond ASCII": '"²७"',
    "100,000 digits in quotes": f'"{DIGITS}"',
    "a long text": f'"{"x" * 300_000}"',
    "half a surrogate pair": r'"\ud83d"',
    "an empty list": "[]",
    "an empty object": "{}",
    "objects": '[{"ph": "X"}, {"ph": "Y"}]',
    "brackets": '"]}, {"',
    "deeply nested": "[" * 500 + "]" * 500,
    "NaN": "NaN",
    "minus infinity": "-Infinity",
}
FIELDS = ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args"]
ARGUMENTS = ["device", "stream", "correlation", "bytes", "External id", "Input Dims", "dtype"]


def odd_event(key, value):
    """Text of a kernel in which one field, or one argument, has an odd value."""
    event = kernel(1000, 5, name="odd", correlation=99)
    (event if key in FIELDS else event["args"])[key] = "VALUE"
    return json.dumps(event).replace('"VALUE"', value)


def text_with(*odd):
    texts = [json.dumps(event) for event in GOOD]
    events = ", ".join([*texts[:ODD_AT], *odd, *texts[ODD_AT:]])
    return f'{{"schemaVersion": 1, "traceEvents": [{events}], "traceName": "t"}}'


def opened(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return open_trace(path, progress=False)


def good_rows(job):
    """Kernels and calls that are as they are written."""
    table = job.rank(0).trace.events
    rows = zip(table.start_ns.tolist(), table.duration_ns.tolist(), strict=True)
    first = job.rank(0).trace.origin_ns
    expected = {(round(1000 * event["ts"]), round(1000 * event["dur"])) for event in GOOD}
    return sum((start + first, duration) in expected for start, duration in rows)


def counted(job):
    return sum(sum(notice.counts) for notice in job.rank(0).trace.notices)


@pytest.mark.parametrize("key", [*FIELDS, *ARGUMENTS])
@pytest.mark.parametrize("value", VALUES)
def test_an_odd_value_costs_at_most_its_event(tmp_path, key, value):
    job = opened(tmp_path / "trace.json", text_with(odd_event(key, VALUES[value])))
    found = len(job.rank(0).trace.events)
    assert good_rows(job) == len(GOOD)
    assert len(GOOD) <= found <= len(GOOD) + 1
    if key not in {"ph", "cat"}:
        assert counted(job) == len(GOOD) + 1 - found, job.notices


class Case(NamedTuple):
    """A file; how many of its good events it gives, and what the notices say beside."""

    content: str | bytes
    events: int = len(GOOD)
    says: str = ""
    count: int = 0


TEXT = text_with()
LIST = json.dumps(GOOD)
HALF = len(TEXT) // 2
NOT_JSON = "events that are not JSON are left out"
REPAIRED = "events that are not quite JSON are loaded after repair"
HALVES = "begin and end events"
BEHIND = "bytes after the end of the trace in its file are not read"
DEEP = "[" * NESTED + "]" * NESTED
LOADED = {
    "a list": Case(LIST),
    "a byte order mark": Case(b"\xef\xbb\xbf" + TEXT.encode()),
    "blanks around it": Case(f"\r\n\t {TEXT} \n\n"),
    "Windows line ends": Case(json.dumps({"traceEvents": GOOD}, indent=1).replace("\n", "\r\n")),
    "an event that is a number": Case(text_with("5"), says=NOT_JSON, count=1),
    "an event that is null": Case(text_with("null", "null"), says=NOT_JSON, count=2),
    "an event that is a list": Case(text_with('[{"ph": "X"}]'), says=NOT_JSON, count=1),
    "an event without anything": Case(text_with("{}"), says="without a phase", count=1),
    "an event twice": Case(text_with(odd_event("ts", "1"), odd_event("ts", "1")), len(GOOD)),
    "a key twice": Case(text_with('{"ph": "X", "name": "a", "ph": "M", "name": "b"}')),
    "two commas": Case(text_with(""), says=NOT_JSON, count=1),
    "a comma at the end": Case(TEXT.replace("}], ", "},], "), says=REPAIRED, count=1),
    "no comma": Case(TEXT.replace("}, {", "} {", 1), says=REPAIRED, count=2),
    "a comment": Case(text_with("/* }, { */ " + odd_event("ts", "1")), says=NOT_JSON, count=1),
    "single quotes": Case(text_with("{'ph': 'X'}"), says=NOT_JSON, count=1),
    "an unclosed event": Case(text_with('{"ph": "X", "a": {"b": 1}'), says=NOT_JSON, count=1),
    "a bracket too many": Case(text_with('{"ph": "M"}}'), says=NOT_JSON, count=1),
    "a quote too many": Case(text_with('{"ph": "M", "name": "a"b"}'), says=NOT_JSON, count=1),
    "a zero byte": Case(text_with('{"ph": "M", "name": "a\0"}'), says=REPAIRED, count=1),
    "bytes that are no text": Case(
        text_with(odd_event("cat", '"BYTE"')).encode().replace(b"BYTE", b"\xff"),
        says=REPAIRED,
        count=1,
    ),
    "an event that is nested deeply": Case(
        text_with(f'{{"ph": "M", "args": {DEEP}}}'), says=NOT_JSON, count=1
    ),
    "metadata that is nested deeply": Case(
        TEXT.replace('"t"}', f"{DEEP}}}"), says="metadata after the events is not JSON"
    ),
    "objects that are nested deeply": Case(
        text_with('{"ph": "M", "args": ' + '{"ph":' * NESTED + "1" + "}" * NESTED + "}"),
        says=NOT_JSON,
        count=1,
    ),
    "begin and end": Case(
        text_with(*(json.dumps({"ph": phase, "name": "n", "ts": 1}) for phase in "BEBE")),
        says=HALVES,
        count=4,
    ),
    "phases of other tools": Case(
        text_with(*(json.dumps({"ph": phase, "name": "n", "ts": 1}) for phase in "bneSTFpNODPRc")),
        says="of a phase that is not read",
        count=13,
    ),
    "another list behind": Case(
        TEXT.replace('"t"}', f'"t", "traceEvents": {LIST}}}'), says="another list", count=len(GOOD)
    ),
    "a list in the metadata": Case(TEXT.replace("1,", '{"traceEvents": [{"ph": "X"}]},', 1)),
    "a list in a string": Case(TEXT.replace("1,", r'"\"traceEvents\": [",', 1)),
    "two documents": Case(TEXT + TEXT, says=BEHIND, count=len(TEXT)),
    "two lists": Case(LIST + LIST, says=BEHIND, count=len(LIST)),
    "zeros behind": Case(TEXT.encode() + bytes(512), says=BEHIND, count=512),
    "gzip in two members": Case(
        gzip.compress(TEXT[:HALF].encode()) + gzip.compress(TEXT[HALF:].encode())
    ),
    "gzip of two files": Case(gzip.compress(TEXT.encode()) * 2, says=BEHIND, count=len(TEXT)),
    "gzip with an empty member": Case(gzip.compress(b"") + gzip.compress(TEXT.encode())),
}
REFUSED = {
    "nothing": (b"", "is empty"),
    "blanks": (b" \n" * 100, "is empty"),
    "a word": (b"hello", "is not a JSON trace"),
    "a page of a web server": (b"<!doctype html><html>404</html>", "is not a JSON trace"),
    "a pointer of Git LFS": (b"version https://git-lfs.github.com/spec/v1\noid", "git lfs pull"),
    "a pickle": (pickle.dumps({"segments": []}), "is a pickle, .* no pickle is opened here"),
    "a number": (b"5", "is not a JSON trace"),
    "text": (b'"traceEvents"', "is not a JSON trace"),
    "UTF-16": (TEXT.encode("utf-16"), "save it as UTF-8"),
    "UTF-32": (TEXT.encode("utf-32-be"), "save it as UTF-8"),
    "gzip of gzip": (gzip.compress(gzip.compress(TEXT.encode())), r"is packed \(gzip\)"),
    "gzip of nothing": (gzip.compress(b""), "is empty"),
    "the beginning of gzip": (gzip.compress(TEXT.encode())[:12], "is empty"),
    "gzip that is damaged at once": (b"\x1f\x8b\x08\x00" + b"\xff" * 50, "cannot be decompressed"),
    "another document": (b'{"a": [1, 2]}', "has no 'traceEvents'"),
    "events that are no list": (b'{"traceEvents": {"ph": "X"}}', "has no 'traceEvents'"),
    "events that are null": (b'{"traceEvents": null}', "has no 'traceEvents'"),
    "events deep inside": (b'{"a": {"traceEvents": [{"ph": "X"}]}}', "has no 'traceEvents'"),
    "brackets": (b"[" * NESTED, "is a list of something other than events"),
    "objects": (b'{"a":' * NESTED, "has no 'traceEvents'"),
    "a list of lists": (b"[[1, 2], [3]]", "is a list of something other than events"),
}


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
@pytest.mark.parametrize("name", LOADED)
def test_what_is_whole_is_loaded(tmp_path, name, suffix):
    case = LOADED[name]
    is_packed = isinstance(case.content, bytes) and case.content.startswith(b"\x1f\x8b")
    content = case.content.encode() if isinstance(case.content, str) else case.content
    if suffix == ".json.gz" and not is_packed:
        content = gzip.compress(content)
    job = opened(tmp_path / f"trace{suffix}", content)
    assert good_rows(job) == case.events
    said = [notice for notice in job.rank(0).trace.notices if case.says in notice.words]
    assert bool(said) == bool(case.says), job.notices
    assert sum(sum(notice.counts) for notice in said) == case.count


@pytest.mark.parametrize("name", REFUSED)
def test_the_rest_is_refused_with_its_name_and_a_cure(tmp_path, name):
    content, words = REFUSED[name]
    with pytest.raises(HtaWidgetsError, match=rf"(?s)trace\.json .*{words}"):
        opened(tmp_path / "trace.json", content)


@pytest.mark.parametrize("base", ["-1", str(2**62), str(2**63 - 1), str(-(2**63)), "1e18", "[]"])
def test_a_zero_of_the_times_that_is_far_away(tmp_path, base):
    for rank, text in enumerate((TEXT, TEXT.replace('"t"', f'"t", "baseTimeNanoseconds": {base}'))):
        (tmp_path / f"rank-{rank}.json").write_text(text)
    job = open_trace(tmp_path, progress=False)
    for rank in job.ranks:
        assert abs(job.offsets_ns(job.ranks)[rank]) <= 2**62
        starts = job.rank(rank).trace.events.start_ns + job.offsets_ns(job.ranks)[rank]
        assert (starts >= 0).all()


@pytest.mark.parametrize("ts", [2.0**51, -(2.0**51), 1e15, -1e15, 4e15, 9e15, 1e18])
def test_times_that_are_far_apart(tmp_path, ts):
    job = opened(tmp_path / "trace.json", text_with(json.dumps(host(ts, 2.0**51, "far"))))
    table = job.rank(0).trace.events
    assert (table.start_ns >= 0).all()
    assert (table.end_ns >= table.start_ns).all()
    assert good_rows(job) == len(GOOD)
