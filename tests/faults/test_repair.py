"""One unreadable event costs no other event, and notices count what was lost."""

from __future__ import annotations

import json

import pytest

from hta_widgets.trace.loaders.kineto.decode import decode_events
from hta_widgets.trace.loaders.kineto.load import load_kineto
from tests.kineto_text import LAYOUTS, document, host, kernel

METADATA_EVENT = {"name": "process_name", "ph": "M", "pid": 0, "args": {"name": "python"}}
EVENTS = [kernel(10 * number, 5, name=f"k{number}") for number in range(500)]
REPAIRED = "{} events that are not quite JSON are loaded after repair"
LOST = "{} events that are not JSON are left out"


def load(tmp_path, text):
    path = tmp_path / "trace.json"
    path.write_text(text)
    return load_kineto(path, 0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("first", [[], [METADATA_EVENT], [{"pid": 1, "odd": [], "ph": "M"}]])
def test_a_single_backslash_costs_no_event(tmp_path, layout, first):
    text = LAYOUTS[layout](document([*first, *EVENTS])).replace('"k7"', '"C:\\qs"')
    trace = load(tmp_path, text)
    assert len(trace.events) == len(EVENTS)
    assert "C:\\qs" in trace.events.name.values
    assert [(notice.words, notice.counts) for notice in trace.notices] == [(REPAIRED, (1,))]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("first", [[], [METADATA_EVENT]])
def test_an_event_that_cannot_be_repaired_is_the_only_one_lost(tmp_path, layout, first):
    text = LAYOUTS[layout](document([*first, *EVENTS]))
    text = text.replace('"k7"', '"quo"te"').replace('"k9"', "k9")
    trace = load(tmp_path, text)
    assert len(trace.events) == len(EVENTS) - 2
    assert [(notice.words, notice.counts) for notice in trace.notices] == [(LOST, (2,))]


def test_objects_in_arguments_do_not_split_an_event(tmp_path):
    nested = [{"ph": "X"}, {"a": [1]}, {"name": "}, {"}]
    events = [*EVENTS[:3], host(1, 1, "C:\\qs") | {"args": {"list": nested}}, *EVENTS[3:]]
    trace = load(tmp_path, json.dumps(events).replace("\\\\", "\\"))
    assert len(trace.events) == len(events)
    assert [(notice.words, notice.counts) for notice in trace.notices] == [(REPAIRED, (1,))]


def test_lost_events_are_counted_where_nothing_splits_them():
    reading = decode_events(b'[{"ph": "X"} {"ph": "X" {"ph": "X"]', b'{"ph":')
    assert (len(reading.events), reading.dropped) == (1, 2)
