"""Our reader agrees with `json` of the standard library on any bytes, or says what it did."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from hta_widgets.errors import TraceFormatError
from hta_widgets.export.extended_trace import write_extended
from hta_widgets.trace.loaders.kineto import text as event_text
from hta_widgets.trace.loaders.kineto.decode import decode_events, decode_fields
from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.loaders.kineto.text import EventText
from tests.fuzz.mutations import damaged, document
from tests.fuzz.reference import disagreements, meaning_of
from tests.kineto_text import host

ADDED = host(1, 1, "added")


@pytest.fixture(params=[64, 700, 3 << 17], autouse=True)
def _block_bytes(request, monkeypatch):
    monkeypatch.setattr(event_text, "BLOCK_BYTES", request.param)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace.json"


many = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@many
@given(random=st.randoms(use_true_random=True))
def test_any_json(path, random: Random):
    path.write_bytes(document(random))
    assert list(disagreements(path)) == []


@many
@given(random=st.randoms(use_true_random=True))
def test_any_damage(path, random: Random):
    path.write_bytes(damaged(random, document(random)))
    assert list(disagreements(path)) == []


@many
@given(random=st.randoms(use_true_random=True))
def test_events_and_their_fields_are_the_same(path, random: Random):
    path.write_bytes(damaged(random, document(random)))
    counts = []
    for decode in (decode_events, decode_fields):
        text = EventText(path)
        try:
            readings = [decode(piece, text.separator, text.hold_back) for piece in text]
        except TraceFormatError:
            readings = []
        counts.append([(len(each.events), each.dropped) for each in readings])
    assert counts[0] == counts[1]


@many
@given(random=st.randoms(use_true_random=True))
def test_a_copy_has_all_events_and_one_more(path, random: Random):
    content = document(random)
    assume(meaning_of(content) is not None)
    path.write_bytes(content)
    copy = path.with_name("copy.json")
    write_extended(path, copy, [json.dumps(ADDED).encode()])
    before, after = meaning_of(content), meaning_of(copy.read_bytes())
    assert before is not None
    assert after is not None
    assert (len(after.rows), after.lost) == (len(before.rows) + 1, before.lost)
    assert load_kineto(copy, 0).metadata.items() >= load_kineto(path, 0).metadata.items()
