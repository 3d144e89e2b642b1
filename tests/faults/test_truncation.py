"""A file that is cut at any byte gives every event that is whole, and says that it is cut."""

from __future__ import annotations

import gzip
import json
import zlib

import pytest

from hta_widgets.errors import TraceFormatError
from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import LAYOUTS, call, document, host, kernel

pytestmark = pytest.mark.long

EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}},
    host(0.5, 9, "a}, { and ]}"),
    call(1, 2, 7) | {"args": {"correlation": 7, "stack": [{"ph": "X"}, {"ph": "Y"}, {"a": []}]}},
    kernel(5.125, 3, name='a "quoted" \\ µ name', correlation=7),
    host(20, 1, "last", cat="user_annotation"),
]
BASE_NS = 1_727_784_000_000_000_000
BEHIND = {"deviceProperties": [{"id": 0}], "baseTimeNanoseconds": BASE_NS, "traceName": "t.json"}


def kineto_text():
    whole = LAYOUTS["kineto"](document(EVENTS))
    return whole.replace('"traceName"', f'{json.dumps(BEHIND)[1:-1]}, "traceName"')


TEXTS = {
    "kineto": kineto_text(),
    "one line": json.dumps({**document(EVENTS), **BEHIND}),
    "indented": json.dumps({**document(EVENTS), **BEHIND}, indent=2),
    "bare list": json.dumps(EVENTS, separators=(",", ":"), ensure_ascii=False),
}
TIMED = EVENTS[1:]


def ends_of_events(text):
    """Position after each event with a time, found by parsing from its beginning."""
    ends, position = [], 0
    decoder = json.JSONDecoder()
    for event in EVENTS:
        while True:
            position = text.index("{", position)
            try:
                found, end = decoder.raw_decode(text, position)
            except ValueError:
                found = None
            if found == event:
                break
            position += 1
        position = end
        ends += [len(text[:end].encode())] if event in TIMED else []
    return ends


def rows(trace):
    table = trace.events
    names = table.names_at(range(len(table)))
    return list(zip(names, table.duration_ns.tolist(), table.correlation.tolist(), strict=True))


def check(path, content, expected, whole):
    """Load a cut file, and compare with the number of events that are whole."""
    path.write_bytes(content)
    try:
        trace = load_kineto(path, 0)
    except TraceFormatError as error:
        assert expected == 0, content[-50:]
        assert str(path) in str(error)  # noqa: PT017
        return
    assert rows(trace) == rows(whole)[:expected], content[-50:]
    said = trace.notices[0].text()
    if said.endswith("not JSON are left out"):
        assert content.endswith((b'{"a":[]}]', b'{"a": []}]', b'{"a": []}]}', b'{"a":[]}]}'))
        return  # the list in an event ends like that of the events
    assert said == f"the file is truncated; its {expected} complete events are loaded"
    assert trace.base_ns in {None, whole.base_ns}
    assert (trace.base_ns is None) == ("baseTimeNanoseconds" not in trace.metadata)


@pytest.mark.parametrize("layout", TEXTS)
def test_every_byte_of_a_text(tmp_path, layout):
    text = TEXTS[layout]
    content, ends = text.encode(), ends_of_events(text)
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    whole = load_kineto(path, 0)
    assert (len(whole.events), whole.notices) == (len(TIMED), ())
    for size in range(len(content.rstrip())):
        check(path, content[:size], sum(end <= size for end in ends), whole)


@pytest.mark.parametrize("level", [0, 6])
def test_every_byte_of_a_gzip_file(tmp_path, level):
    text = TEXTS["kineto"]
    content, ends = gzip.compress(text.encode(), level), ends_of_events(text)
    path = tmp_path / "trace.json.gz"
    path.write_bytes(content)
    whole = load_kineto(path, 0)
    for size in range(len(content)):
        readable = len(zlib.decompressobj(wbits=31).decompress(content[:size]))
        check(path, content[:size], sum(end <= readable for end in ends), whole)


@pytest.mark.parametrize("layout", TEXTS)
def test_the_zero_of_the_times_is_kept_once_it_is_whole(tmp_path, layout):
    if layout == "bare list":
        return
    text = TEXTS[layout]
    at = text.index(str(BASE_NS)) + len(str(BASE_NS))
    path = tmp_path / "trace.json"
    for size in (at - 1, at, at + 30):
        path.write_text(text[:size])
        kept = load_kineto(path, 0).base_ns
        assert kept == (BASE_NS if text[at:size].strip().startswith(",") else None)


@pytest.mark.parametrize("number", [0, 1, 30])
def test_a_job_of_which_a_rank_was_cut_behind_its_events(tmp_path, number):
    text = json.dumps({**document(EVENTS), "baseTimeNanoseconds": BASE_NS})
    (tmp_path / "rank-0.json").write_text(text)
    (tmp_path / "rank-1.json").write_text(text[: text.rindex("]") + 1 + number])
    job = open_trace(tmp_path, progress=False)
    assert job.offsets_ns(job.ranks) == {0: 0, 1: 0}
