"""Memory events and inputs of operators, read from the source when they are asked for."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hta_widgets.trace.cache import column_file
from hta_widgets.trace.loaders.kineto import text as event_text
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.model.events import TextColumn
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import LAYOUTS, host, kernel, write

MEMORY, INPUTS = DetailGroup.MEMORY, DetailGroup.OPERATOR_INPUTS


def memory(ts, size, *, address=4096, device=(1, 0), totals=None, cat="cpu_instant_event", **more):
    """An allocation, or a free."""
    args = {"Device Type": device[0], "Device Id": device[1], "Bytes": size}
    args |= {} if address is None else {"Addr": address}
    args |= {} if totals is None else dict(zip(TOTALS, totals, strict=True))
    of_category = {} if cat is None else {"cat": cat}
    event = {"ph": "i", **of_category, "s": "t", "name": "[memory]", "pid": 100, "tid": 101}
    return event | {"ts": ts, "args": args} | more


TOTALS = ("Total Allocated", "Total Reserved")


def opened(path):
    return open_trace(path, progress=False).rank(0)


def columns_of(rank, group=MEMORY):
    found = rank.details(group)
    assert found.notices == ()
    return {name: column.tolist() for name, column in found.table.columns.items()}


@pytest.fixture(autouse=True)
def _in_small_pieces(monkeypatch):
    monkeypatch.setattr(event_text, "BLOCK_BYTES", 2000)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_all_fields_of_every_event(tmp_path, layout, suffix):
    events = [host(10, 500, "aten::empty", tid=101)]
    for number in range(60):
        events += [
            host(11 + number, 1, "aten::mm"),
            memory(
                f"{12 + number}.250",
                (-1) ** number * 512,
                address=2**47 + number // 2,
                totals=(1024 + 512 * (number % 2 == 0), 2**33),
                device=(1, 3),
            ),
        ]
    columns = columns_of(opened(write(tmp_path / f"a{suffix}", events, layout=layout)))
    assert columns["time_ns"] == [2250 + 1000 * number for number in range(60)]
    assert columns["bytes"] == [512, -512] * 30
    assert columns["address"] == [2**47 + number // 2 for number in range(60)]
    assert columns["total_allocated"] == [1536, 1024] * 30
    assert set(columns["total_reserved"]) == {2**33}
    assert {(*each,) for each in zip(columns["device_type"], columns["device"], strict=True)} == {
        (1, 3)
    }
    assert {*zip(columns["pid"], columns["tid"], strict=True)} == {(100, 101)}


def test_in_order_of_time_then_of_the_file(tmp_path):
    events = [memory(9, 1), memory(5, 2), memory(9, 3), memory(5, 4), host(0, 1, "aten::mm")]
    assert columns_of(opened(write(tmp_path / "a.json", events)))["bytes"] == [2, 4, 1, 3]


def test_as_written_in_2021(tmp_path):
    """Without a category, addresses and totals, beside threads that have names."""
    work = kernel(0, 1) | {"tid": "stream 7", "cat": "Kernel"}
    event = memory(4, 512, address=None, cat=None, tid="worker")
    rank = opened(
        write(tmp_path / "a.json", [work, event, memory(6, -512, address=None, cat=None)])
    )
    assert len(rank.trace.events) == 1, "no row in the events table"
    columns = columns_of(rank)
    assert columns["bytes"] == [512, -512]
    assert columns["time_ns"] == [4000, 6000]
    for absent in ("address", "total_allocated", "total_reserved"):
        assert columns[absent] == [-1, -1]
    assert columns["tid"][0] < -1, "a label"
    assert columns["tid"][1] == 101
    assert columns["tid"][0] != rank.trace.events.tid[0], "not that of another name"


@pytest.mark.parametrize("phase", ["i", "I"])
@pytest.mark.parametrize("base", [{}, {"baseTimeNanoseconds": 10**18}])
def test_without_a_category_in_any_trace(tmp_path, phase, base):
    """Also where threads have numbers, beside events with a category and other instants."""
    events = [host(0, 5, "aten::mm"), kernel(3, 9)]
    for number in range(40):
        event = memory(20 - number // 4, 8 + number, cat=None, totals=(64, 128))
        events += [event | {"ph": phase}, {"ph": phase, "name": "Record Window End", "ts": 30}]
    events += [memory(15, 1), event | {"ts": "?"}, event | {"args": {}}, event | {"args": None}]
    rank = opened(write(tmp_path / "a.json", [*events, event | {"name": "x"}], **base))
    columns = columns_of(rank)
    expected = [(20 - number // 4, 8 + number) for number in range(40)] + [(15, 1)]
    by_time = sorted(expected, key=lambda each: (each[0], each[1] != 1))
    assert [*zip(columns["time_ns"], columns["bytes"], strict=True)] == [
        (1000 * time, size) for time, size in by_time
    ]
    assert {*columns["address"]} == {4096}
    assert {*columns["pid"], *columns["tid"]} == {100, 101}
    assert {*columns["total_allocated"]} == {64, -1}
    assert len(rank.trace.events) == 3, "no rows in the events table"


def test_the_clock_of_a_trace_with_a_base_time(tmp_path):
    path = tmp_path / "a.json"
    write(path, [host(1000, 1, "a"), memory(1003, 8)], baseTimeNanoseconds=10**18)
    rank = opened(path)
    assert rank.trace.origin_ns == 10**18 + 1_000_000
    assert columns_of(rank)["time_ns"] == [3000]


def test_what_is_no_memory_event(tmp_path):
    lookalike = host(0, 1, "[memory]")
    broken = [memory(1, None), memory("?", 8), memory(2, "many"), memory(2, 8, ph="X", dur=1)]
    rank = opened(write(tmp_path / "a.json", [lookalike, *broken, memory(3, 16)]))
    assert columns_of(rank)["bytes"] == [16]


def test_what_loading_read_is_not_read_again(tmp_path, monkeypatch):
    """Also of pieces with a phase that is rare, whose events are decoded in another way."""
    rare = host(1, 1, "step") | {"ph": "b"}
    events = [memory(number, 8) for number in range(40)] + [rare, memory(50, -8), memory(51, 16)]
    path = write(tmp_path / "a.json", events)
    rank = opened(path)
    path.unlink()
    monkeypatch.setattr("hta_widgets.trace.loaders.kineto.details.EventText", None)
    assert rank.has_read(MEMORY)
    columns = columns_of(rank)
    assert columns["bytes"] == [8] * 40 + [-8, 16]
    assert columns["time_ns"] == [1000 * number for number in (*range(40), 50, 51)]
    assert not rank.has_read(INPUTS)


def test_traces_that_cannot_have_any_are_not_read_again(tmp_path, monkeypatch):
    rank = opened(write(tmp_path / "a.json", [host(0, 1, "aten::mm"), kernel(1, 1)]))
    monkeypatch.setattr("hta_widgets.trace.loaders.kineto.details.EventText", None)
    assert rank.details(MEMORY).table.rows.size == 0
    assert rank.details(MEMORY).notices == ()


def test_beside_unreadable_events(tmp_path):
    texts = [json.dumps(memory(number, 8)) for number in range(50)]
    texts.insert(20, '{"ph": "X", "cat": "cpu_op", "name": "a" "b", "ts": 1, "dur": 1}')
    texts.insert(30, r'{"ph": "X", "cat": "cpu_op", "name": "C:\qs", "pid": 1, "ts": 0, "dur": 1}')
    path = tmp_path / "a.json"
    path.write_text('{"traceEvents": [' + ",\n".join(texts) + "]}")
    assert columns_of(opened(path))["time_ns"] == [1000 * number for number in range(50)]


def test_inputs_of_operators(tmp_path):
    concrete = ["", "[1, 2]", "True"]
    events = [
        host(0, 9, "aten::convolution") | {"args": {"Concrete Inputs": concrete}},
        host(10, 9, "aten::mm") | {"args": {"Input Dims": [[1]]}},
        host(20, 9, "triton_") | {"args": {"kernel_file": "/cache/ü.py"}},
        host(30, 9, "aten::convolution") | {"args": {"Concrete Inputs": concrete}},
        host(40, 9, "nn", cat="python_function") | {"args": {"Concrete Inputs": concrete}},
    ]
    rank = opened(write(tmp_path / "a.json", events))
    table = rank.details(INPUTS).table
    assert (rank.trace.events.start_ns[table.rows] // 10_000).tolist() == [0, 2, 3]
    frame = table.to_frame()
    texts = frame["concrete_inputs"].tolist()
    assert [json.loads(text) if text else None for text in texts] == [concrete, None, concrete]
    assert frame["kernel_file"].tolist() == ["", "/cache/ü.py", ""]


@pytest.mark.usefixtures("cached")
def test_texts_survive_the_way_to_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("hta_widgets.trace.cache.derived_columns.WORTH_KEEPING", 0)
    inputs = {"Concrete Inputs": ["é", "\ud800"], "kernel_file": "x"}
    path = write(tmp_path / "a.json", [host(0, 9, "op") | {"args": inputs}, memory(1, 8)])
    first = opened(path)
    expected = first.details(INPUTS).table.to_frame(), columns_of(first)
    monkeypatch.setattr("hta_widgets.trace.ranks.source.RankSource.details", None)
    again = opened(path)
    assert again.details(INPUTS).table.to_frame().equals(expected[0])
    assert columns_of(again) == expected[1]


@pytest.mark.parametrize("texts", [(), ("",), ("a", "", "ü/\ud800")])
def test_columns_of_texts_are_two_in_a_file(texts):
    codes = np.arange(len(texts), dtype=np.int32)
    arrays = column_file.arrays_of({"name": TextColumn(codes, texts), "n": codes})
    assert len(arrays) == 3
    found = column_file.columns_of(arrays)
    assert found["name"].values == texts
    assert found["name"].codes.tolist() == found["n"].tolist() == codes.tolist()
