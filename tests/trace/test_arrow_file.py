"""A trace is unchanged after writing it to an Arrow file and reading it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hta_widgets.trace.cache.trace_file import LoadedTrace, read_trace, write_trace
from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.model.events import TextColumn, Trace
from tests.kineto_text import call, host, kernel, step, write

EVENTS = [
    step(1, 0, 20),
    host(1, 5, "aten::mm") | {"args": {"Input Dims": [[2, 3], []], "Sequence number": 7}},
    call(2, 1, 5, name="</script>\udcff\t"),
    kernel(4, 2, correlation=5, cat="gpu_memcpy", bytes=12),
    kernel(5, 2, name="ncclDevKernel", **{"Collective name": "allreduce", "dtype": "float"}),
    {
        "ph": "X",
        "cat": "kernel",
        "name": "old",
        "pid": "gpu 0",
        "tid": "stream 7",
        "ts": 9,
        "dur": 1,
    },
]


def loaded(folder, events=EVENTS, **metadata):
    trace = load_kineto(write(folder / "trace.json", events, **metadata), rank=3)
    return LoadedTrace(trace, {"launches": np.arange(len(trace.events), dtype=np.int32)})


def assert_same(actual: Trace, expected: Trace) -> None:
    """Every field of the trace, its events and its side tables."""
    for field in dataclasses.fields(Trace):
        if field.name != "events":
            assert getattr(actual, field.name) == getattr(expected, field.name), field.name
    for field in dataclasses.fields(expected.events):
        same(getattr(actual.events, field.name), getattr(expected.events, field.name))


def same(actual, expected):
    if isinstance(expected, np.ndarray):
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)
    elif isinstance(expected, TextColumn):
        same(actual.codes, expected.codes)
        assert actual.values == expected.values
    elif isinstance(expected, tuple):
        assert actual == expected
    else:
        assert actual.keys() == expected.keys()
        for table in expected:
            same(actual[table].rows, expected[table].rows)
            assert actual[table].columns.keys() == expected[table].columns.keys()
            for column, values in expected[table].columns.items():
                same(actual[table].columns[column], values)


@pytest.mark.parametrize("events", [EVENTS, [], EVENTS[:1]], ids=["all", "none", "one"])
def test_round_trip(tmp_path, events):
    stored = loaded(tmp_path, events, distributedInfo={"rank": 3}, deep=[{"a": None}])
    write_trace(stored, "key", tmp_path / "x.arrow")
    opened = read_trace(tmp_path / "x.arrow", "key")
    assert_same(opened.trace, stored.trace)
    same(opened.links["launches"], stored.links["launches"])


def test_columns_are_not_copied(tmp_path):
    write_trace(loaded(tmp_path), "key", tmp_path / "x.arrow")
    events = read_trace(tmp_path / "x.arrow", "key").trace.events
    assert not events.start_ns.flags.owndata
    assert not events.start_ns.flags.writeable


def test_another_key_is_another_trace(tmp_path):
    write_trace(loaded(tmp_path), "key", tmp_path / "x.arrow")
    assert read_trace(tmp_path / "x.arrow", "other") is None


@given(st.data())
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_file_is_none_or_readable(tmp_path, data):
    whole = tmp_path / "whole.arrow"
    if not whole.exists():
        write_trace(loaded(tmp_path), "key", whole)
    content = bytearray(whole.read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    else:
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] ^= data.draw(st.integers(1, 255))
    (tmp_path / "damaged.arrow").write_bytes(content)
    found = read_trace(tmp_path / "damaged.arrow", "key")
    if found is not None:
        assert len(found.trace.events.start_ns) == len(found.trace.events)


def test_every_real_trace(kineto_jobs, tmp_path):
    for path in sorted(path for job in kineto_jobs.values() for path in job.glob("*.json*")):
        trace = load_kineto(path, rank=0)
        write_trace(LoadedTrace(trace, {}), "key", tmp_path / "x.arrow")
        assert_same(read_trace(tmp_path / "x.arrow", "key").trace, trace)
