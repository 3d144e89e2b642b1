"""Bulky fields: some are read while loading, others from the source a second time."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from hta_widgets.errors import HtaWidgetsError
from hta_widgets.trace.cache.trace_file import LoadedTrace
from hta_widgets.trace.loaders.kineto import details as kineto_details
from hta_widgets.trace.loaders.kineto import text as event_text
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.model.events import TextColumn
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import LAYOUTS, call, document, host, kernel, write

LAUNCH, SYNC = DetailGroup.LAUNCH_CONFIGURATION, DetailGroup.SYNCHRONISATION


def launched(number):
    """A kernel with a grid of its own, and what is around it."""
    return [
        host(10 * number, 9, "aten::mm"),
        call(10 * number + 1, 2, number + 1),
        kernel(
            10 * number + 4,
            3,
            correlation=number + 1,
            grid=[number, 2, 3],
            block=[128, 1, 1],
            **{
                "registers per thread": 32 + number,
                "shared memory": 1024,
                "est. achieved occupancy %": 50,
                "blocks per SM": 0.5,
                "warps per SM": 2.0,
            },
        ),
    ]


def waited(number):
    return {
        "ph": "X",
        "cat": "cuda_sync",
        "name": "Stream Wait Event",
        "pid": 0,
        "tid": 7,
        "ts": 10 * number + 8,
        "dur": 1,
        "args": {
            "device": 0,
            "stream": 7,
            "correlation": 1000 + number,
            "wait_on_stream": 20 if number else -1,
            "wait_on_cuda_event_id": number,
            "wait_on_cuda_event_record_corr_id": 500 + number,
        },
    }


EVENTS = [event for number in range(40) for event in (*launched(number), waited(number))]


def opened(path):
    return open_trace(path, progress=False).rank(0)


def by_start(rank, table, column):
    """Values of a column by the start of the event, in µs."""
    starts = rank.trace.events.start_ns[table.rows] // 1000
    return dict(zip(starts.tolist(), table.columns[column].tolist(), strict=True))


@pytest.fixture(autouse=True)
def _in_small_pieces(monkeypatch):
    monkeypatch.setattr(event_text, "BLOCK_BYTES", 2000)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_fields_of_every_event(tmp_path, layout, suffix):
    rank = opened(write(tmp_path / f"a{suffix}", EVENTS, layout=layout))
    found = rank.details(LAUNCH)
    assert found.notices == ()
    assert len(found.table.rows) == 40
    assert np.all(np.diff(found.table.rows) > 0)
    assert by_start(rank, found.table, "grid_x") == {10 * n + 4: n for n in range(40)}
    assert by_start(rank, found.table, "registers") == {10 * n + 4: 32 + n for n in range(40)}
    for column, value in {
        "grid_y": 2,
        "grid_z": 3,
        "block_x": 128,
        "block_y": 1,
        "shared_bytes": 1024,
        "occupancy_percent": 50,
        "blocks_per_sm": 0.5,
        "warps_per_sm": 2,
    }.items():
        assert set(found.table.columns[column].tolist()) == {value}
    table = rank.details(SYNC).table
    expected = {10 * n + 8: 20 if n else -1 for n in range(40)}
    assert by_start(rank, table, "wait_on_stream") == expected
    records = by_start(rank, table, "wait_on_cuda_event_record_corr_id")
    assert records == {10 * n + 8: 500 + n for n in range(40)}


def test_events_in_any_order(tmp_path):
    events = [EVENTS[place] for place in np.random.default_rng(0).permutation(len(EVENTS))]
    rank = opened(write(tmp_path / "a.json", events))
    table = rank.details(LAUNCH).table
    assert by_start(rank, table, "grid_x") == {10 * n + 4: n for n in range(40)}


@pytest.mark.parametrize(
    ("grid", "sizes"),
    [
        ("[7, 2, 1]", (7, 2, 1)),
        ("7,2,1", (7, 2, 1)),
        ([7, 2, 1], (7, 2, 1)),
        ([7, 2], (-1, -1, -1)),
        ("?", (-1, -1, -1)),
        (None, (-1, -1, -1)),
        ({"x": 7}, (-1, -1, -1)),
    ],
)
def test_sizes_in_other_forms(tmp_path, grid, sizes):
    rank = opened(write(tmp_path / "a.json", [kernel(0, 1, grid=grid), kernel(2, 1)]))
    columns = rank.details(LAUNCH).table.columns
    assert tuple(columns[f"grid_{axis}"].tolist() for axis in "xyz") == tuple([n] for n in sizes)
    assert columns["registers"].tolist() == [-1]
    assert np.isnan(columns["warps_per_sm"]).all()


@pytest.mark.parametrize("registers", [[32], {"a": 1}, "many", None, True, 2.5, 10**30, "\ud800"])
def test_registers_that_are_no_number(tmp_path, registers):
    usual = {"grid": [1, 1, 1], "block": [32, 1, 1]}
    odd = kernel(0, 1, **usual, **{"registers per thread": registers, "blocks per SM": registers})
    rank = opened(write(tmp_path / "a.json", [odd, kernel(2, 1, **usual)]))
    columns = rank.details(LAUNCH).table.columns
    assert columns["grid_x"].tolist() == [1, 1]
    assert columns["registers"].tolist()[1] == -1
    assert columns["registers"].dtype == np.int64
    assert columns["blocks_per_sm"].dtype == np.float64


def test_unreadable_events_are_counted_as_loading_does(tmp_path):
    """An event that is lost, one that is repaired, and one without ``args`` that are a dict."""
    texts = [json.dumps(event) for event in EVENTS]
    texts.insert(5, '{"ph": "X", "cat": "cpu_op", "name": "a" "b", "ts": 1, "dur": 1}')
    texts.insert(30, r'{"ph": "X", "cat": "cpu_op", "name": "C:\qs", "pid": 1, "ts": 1, "dur": 1}')
    texts.insert(60, '{"ph": "X", "cat": "cpu_op", "name": 5, "ts": 1, "dur": NaN, "args": []}')
    path = tmp_path / "a.json"
    path.write_text('{"traceEvents": [' + ",\n".join(texts) + "]}")
    rank = opened(path)
    assert any("not JSON" in notice.words for notice in rank.notices)
    table = rank.details(LAUNCH).table
    assert by_start(rank, table, "grid_x") == {10 * n + 4: n for n in range(40)}


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_truncated_files(tmp_path, suffix):
    text = json.dumps(document(EVENTS)).encode()[:-9000]
    path = tmp_path / f"a{suffix}"
    path.write_bytes(gzip.compress(text) if suffix == ".json.gz" else text)
    rank = opened(path)
    kernels = int(sum("grid" in (event.get("args") or {}) for event in EVENTS))
    table = rank.details(LAUNCH).table
    assert 0 < len(table.rows) < kernels
    found = by_start(rank, table, "grid_x")
    assert found == {10 * n + 4: n for n in range(len(found))}


def test_a_source_that_is_gone_or_changed(tmp_path):
    path = write(tmp_path / "a.json", EVENTS)
    gone, changed, kept = opened(path), opened(path), opened(path)
    assert len(kept.details(SYNC).table.rows) == 40
    write(path, EVENTS[:8])
    found = changed.details(SYNC)
    assert len(found.table.rows) == 0
    assert "has changed since the job was opened" in found.notices[0].text()
    path.unlink()
    found = gone.details(SYNC)
    assert "no longer exists" in found.notices[0].text()
    assert "events that synchronisations wait for cannot be read" in found.notices[0].text()
    assert len(kept.details(SYNC).table.rows) == 40, "read once"
    assert len(gone.details(LAUNCH).table.rows) == 40, "read while loading"


def test_braces_in_a_path(tmp_path):
    folder = tmp_path / "{x}"
    folder.mkdir()
    rank = opened(write(folder / "a.json", EVENTS[:8]))
    (folder / "a.json").unlink()
    assert "{x}" in rank.details(SYNC).notices[0].text()


def test_a_trace_without_the_fields(tmp_path):
    rank = opened(write(tmp_path / "a.json", [kernel(0, 1), host(0, 5, "grid")]))
    for group in DetailGroup:
        found = rank.details(group)
        assert found.table.rows.size == 0
        assert found.notices == ()


def test_arguments_that_no_analysis_needs(tmp_path):
    arguments = {
        "External id": 5,
        "Input Dims": [[2, 3]],
        "Input Strides": [[3, 1]],
        "Python parent id": None,
        "In split size": "[1, 2]",
    }
    events = [
        {**host(0, 9, "aten::mm"), "args": arguments},
        {**host(1, 3, "a.py(1): f", cat="python_function"), "args": {"Python id": 7}},
        {**host(2, 2, "call"), "args": {"External id": 9, "Rank": 3, "bytes": 8}},
        host(3, 1, "nothing"),
    ]
    rank = opened(write(tmp_path / "a.json", events))
    table = rank.details(DetailGroup.OTHER_ARGUMENTS).table
    assert table.rows.tolist() == [0, 1, 2]
    columns = {
        name: [column.values[code] for code in column.codes]
        if isinstance(column, TextColumn)
        else column.tolist()
        for name, column in table.columns.items()
    }
    assert columns == {
        "bytes": [-1, -1, 8],
        "external_id": [5, -1, 9],
        "python_id": [-1, 7, -1],
        "python_parent_id": [-1, -1, -1],
        "process_rank": [-1, -1, 3],
        "input_dims": ["[[2, 3]]", "", ""],
        "input_type": ["", "", ""],
        "input_strides": ["[[3, 1]]", "", ""],
        "in_split_size": ['"[1, 2]"', "", ""],
        "out_split_size": ["", "", ""],
    }


def test_pieces_without_the_key_are_only_counted(tmp_path, monkeypatch):
    decoded = []
    decode = kineto_details._decode

    def watched(piece, separator, event):
        decoded.append((b'"wait_on_stream"' in piece, event))
        return decode(piece, separator, event)

    monkeypatch.setattr(kineto_details, "_decode", watched)
    events = [host(number, 1, "aten::add") for number in range(300)]
    rank = opened(write(tmp_path / "a.json", [*events, waited(900), *events]))
    assert len(rank.details(SYNC).table.rows) == 1
    assert len(decoded) > 10
    for has_key, event in decoded:
        assert has_key == (event is not kineto_details.OnlyCounted)
    assert sum(has_key for has_key, _ in decoded) <= 2


@pytest.mark.usefixtures("cached")
def test_large_details_are_kept_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("hta_widgets.trace.cache.derived_columns.WORTH_KEEPING", 0)
    path = write(tmp_path / "a.json", EVENTS)
    rank, groups = opened(path), {LAUNCH: "grid_x", SYNC: "wait_on_stream"}
    first = {group: rank.details(group).table for group in groups}

    def refused(*_):
        msg = "read again"
        raise HtaWidgetsError(msg)

    monkeypatch.setattr("hta_widgets.trace.ranks.source.RankSource.details", refused)
    again = opened(path)
    for group, column in groups.items():
        before, table = first[group], again.details(group).table
        assert table.rows.tolist() == before.rows.tolist()
        assert table.columns[column].tolist() == before.columns[column].tolist()


def test_another_trace_in_memory_has_no_source(tmp_path):
    job = open_trace(write(tmp_path / "a.json", EVENTS), progress=False)
    other = open_trace(write(tmp_path / "b.json", EVENTS[:8]), progress=False)
    job.add(LoadedTrace(other.rank(0).trace, {}))
    assert "not opened from a file" in job.rank(0).details(SYNC).notices[0].text()
