"""Copies of traces with counters: whole, valid, beside the original, and never instead of it."""

from __future__ import annotations

import json
import logging

import pandas as pd
import pytest

from hta_widgets import TraceAnalysis
from hta_widgets.errors import ParameterError, TraceChangedError, UnknownRankError
from hta_widgets.export import extended_trace
from hta_widgets.export.trace_with_counters import TimeSeriesTypes, write_traces_with_counters
from hta_widgets.trace.opening.open import open_trace
from tests.golden.reference import trace_files
from tests.kineto_text import LAYOUTS, call, host, kernel, read, write

UNLIKE = ("alexnet", "cupti_counters", "dlrm_2rank", "h100_bert", "h100_qwen", "mi250_toy")
"""Real jobs of old and new versions of PyTorch, and of both vendors."""
COPY = "Memcpy HtoD (Pageable -> Device)"
EVENTS = [
    call(10.001, 2, 1),
    call(13, 2, 2),
    kernel("20.002", 4, correlation=1),
    kernel("40.5", 8, name=COPY, cat="gpu_memcpy", correlation=2, stream=20, bytes=16_000),
    host(5, 50, "op"),
]


def counters(path):
    return [event for event in read(path)["traceEvents"] if event["ph"] == "C"]


def every_table(analysis):
    """All numbers of all methods, by method and part."""
    types, kernels = analysis.get_gpu_kernel_breakdown(visualize=False)
    tables = {
        "temporal": analysis.get_temporal_breakdown(visualize=False),
        "overlap": analysis.get_comm_comp_overlap(visualize=False),
        "types": types,
        "kernels": kernels,
        "idle": analysis.get_idle_time_breakdown(visualize=False)[0],
        "queues": analysis.get_queue_length_summary(),
        "bandwidths": analysis.get_memory_bw_summary(),
    }
    for name, by_rank in {
        "launches": analysis.get_cuda_kernel_launch_stats(visualize=False),
        "queue": analysis.get_queue_length_time_series(),
        "bandwidth": analysis.get_memory_bw_time_series(),
    }.items():
        tables |= {f"{name} of rank {rank}": table for rank, table in by_rank.items()}
    return tables


def assert_same_numbers(before, after):
    first, second = every_table(before), every_table(after)
    assert set(first) == set(second)
    for name, table in first.items():
        if table is None:
            assert second[name] is None
        else:
            pd.testing.assert_frame_equal(table, second[name])


def test_events_that_viewers_read(tmp_path):
    job = open_trace(write(tmp_path / "rank-0.json", EVENTS), progress=False)
    (path,) = write_traces_with_counters(job)
    assert path == tmp_path / "rank-0_with_counters.json"
    queue = {"ph": "C", "name": "Queue Length", "pid": 0}
    speed = {"ph": "C", "name": "Memcpy HtoD", "pid": 0}
    assert counters(path) == [
        queue | {"ts": 10.001, "id": 7, "args": {"Queue Length": 1}},
        queue | {"ts": 20.002, "id": 7, "args": {"Queue Length": 0}},
        queue | {"ts": 13.0, "id": 20, "args": {"Queue Length": 1}},
        queue | {"ts": 40.5, "id": 20, "args": {"Queue Length": 0}},
        speed | {"ts": 40.5, "args": {"Memcpy BW": 2.0}},
        speed | {"ts": 48.5, "args": {"Memcpy BW": 0.0}},
    ]
    assert b'"ts": 10.001,' in path.read_bytes()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["rank-0.json", "rank-0.json.gz"])
def test_the_rest_is_unchanged(tmp_path, layout, name):
    source = write(tmp_path / name, EVENTS, layout=layout, distributedInfo={"rank": 0})
    before = source.read_bytes()
    (path,) = write_traces_with_counters(open_trace(source, progress=False))
    assert source.read_bytes() == before
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")
    copy = read(path)
    assert copy.pop("hta_widgets") == {"derived_from": name}
    copy["traceEvents"] = [event for event in copy["traceEvents"] if event["ph"] != "C"]
    assert copy == read(source)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([name, path.name])


def test_bytes_are_kept_where_pieces_meet(tmp_path, monkeypatch):
    monkeypatch.setattr("hta_widgets.trace.loaders.kineto.text.BLOCK_BYTES", 97)
    source = write(tmp_path / "rank-0.json", EVENTS * 20, layout="indent4")
    (path,) = write_traces_with_counters(open_trace(source, progress=False))
    text, copy = source.read_bytes(), path.read_bytes()
    end = text.rindex(b"}", 0, text.rindex(b"]")) + 1
    assert copy[copy.index(b',\n    "schemaVersion"') + 1 :].startswith(text[1:end])
    assert copy.endswith(text[end:])


@pytest.mark.parametrize("base", [None, 1_712_000_000_123_456_789])
def test_times_are_on_the_clock_of_the_file(tmp_path, base):
    metadata = {} if base is None else {"baseTimeNanoseconds": base}
    late = [event | {"ts": f"1712195495502{number:03}.095"} for number, event in enumerate(EVENTS)]
    write(tmp_path / "rank-0.json", late, **metadata)
    write(tmp_path / "rank-1.json", [call(5, 1, 1), kernel("7.123", 1, correlation=1)], **metadata)
    paths = write_traces_with_counters(open_trace(tmp_path, progress=False))
    assert b'"ts": 1712195495502000.095, "id": 7' in paths[0].read_bytes()
    assert [event["ts"] for event in counters(paths[1])] == [5.0, 7.123]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_bare_array_becomes_an_object(tmp_path, layout):
    source = write(tmp_path / "rank-0.json", EVENTS, layout=layout, bare=True)
    job = open_trace(source, progress=False)
    (path,) = write_traces_with_counters(job)
    copy = read(path)
    assert list(copy) == ["hta_widgets", "traceEvents"]
    assert [event for event in copy["traceEvents"] if event["ph"] != "C"] == read(source)


def test_a_file_that_ends_in_the_middle_is_closed(tmp_path):
    events = [
        each | {"ts": float(each["ts"]) + 1000 * times} for times in range(3) for each in EVENTS
    ]
    source = write(tmp_path / "rank-0.json", events)
    source.write_bytes(source.read_bytes()[:-150])
    job = open_trace(source, progress=False)
    (path,) = write_traces_with_counters(job)
    recorded = [event for event in read(path)["traceEvents"] if event["ph"] != "C"]
    assert recorded == events[: len(recorded)]
    assert len(recorded) == len(job.rank(0).trace.events)


def test_a_comma_after_the_last_event(tmp_path):
    source = tmp_path / "rank-0.json"
    source.write_text(f'{{"traceEvents": [{json.dumps(EVENTS)[1:-1]}, ]}}')
    (path,) = write_traces_with_counters(open_trace(source, progress=False))
    assert len(read(path)["traceEvents"]) == len(EVENTS) + 6


def test_names_of_threads_and_hostile_ones_are_text(tmp_path):
    labelled = [event | {"pid": 'GPU "0"\n'} for event in EVENTS]
    (path,) = write_traces_with_counters(open_trace(write(tmp_path / "a.json", labelled)))
    assert {event["pid"] for event in counters(path)} == {'GPU "0"\n'}


@pytest.mark.parametrize("name", UNLIKE)
def test_the_copy_gives_the_same_numbers(tmp_path, name):
    source = trace_files(name)[0]
    trace = tmp_path / source.name
    trace.write_bytes(source.read_bytes())
    before = TraceAnalysis({0: trace}, progress=False)
    before.generate_trace_with_counters()
    copies = [path for path in tmp_path.iterdir() if path != trace]
    if name == "cupti_counters":
        assert copies == []
        return
    (copy,) = copies
    assert_same_numbers(before, TraceAnalysis({0: copy}, progress=False))
    recorded = len(read(trace)["traceEvents"])
    for event in read(copy)["traceEvents"][recorded:]:
        assert event["ph"] == "C"
        assert isinstance(event["name"], str)
        assert isinstance(event["ts"], float)
        assert all(isinstance(value, int | float) for value in event["args"].values())


class TestChoice:
    @pytest.fixture
    def job(self, tmp_path):
        write(tmp_path / "rank-0.json", EVENTS)
        write(tmp_path / "rank-1.json", [host(0, 1, "op")])
        return open_trace(tmp_path, progress=False)

    @pytest.mark.parametrize(
        ("series", "names"),
        [
            (TimeSeriesTypes.QUEUE_LENGTH, {"Queue Length"}),
            (TimeSeriesTypes.MEMCPY_BANDWIDTH, {"Memcpy HtoD"}),
            (None, {"Queue Length", "Memcpy HtoD"}),
        ],
    )
    def test_time_series(self, job, series, names):
        (path,) = write_traces_with_counters(job, series, [0])
        assert {event["name"] for event in counters(path)} == names

    def test_a_rank_without_counters_gets_no_copy(self, job, tmp_path, caplog):
        with caplog.at_level(logging.WARNING):
            assert write_traces_with_counters(job, ranks=[1]) == []
        assert "rank 1 has no counters; no file is written for it" in caplog.text
        assert not (tmp_path / "rank-1_with_counters.json").exists()

    def test_all_ranks_by_default(self, job):
        assert [path.name for path in write_traces_with_counters(job)] == [
            "rank-0_with_counters.json"
        ]

    def test_an_unknown_rank(self, job):
        with pytest.raises(UnknownRankError):
            write_traces_with_counters(job, ranks=[2])


class TestNames:
    @pytest.mark.parametrize(
        ("name", "suffix", "copy"),
        [
            ("a.json", "", "a_with_counters.json"),
            ("a.json.gz", "_q", "a_q.json.gz"),
            ("a.json.gz", "_q.json.gz", "a_q.json.gz"),
            ("trace.gz", "_q", "trace_q.gz"),
            ("trace", "_q", "trace_q"),
            ("a.json.json", "_q", "a.json_q.json"),
        ],
    )
    def test_suffix_goes_into_the_name(self, tmp_path, name, suffix, copy):
        folder = tmp_path / "x.json.d"
        folder.mkdir()
        source = write(folder / name, EVENTS)
        (path,) = write_traces_with_counters(open_trace(source), output_suffix=suffix)
        assert path == folder / copy

    @pytest.mark.parametrize("suffix", ["/../evil", "a/b"])
    def test_a_suffix_is_no_path(self, tmp_path, suffix):
        job = open_trace(write(tmp_path / "a.json", EVENTS))
        with pytest.raises(ParameterError, match="does not give a new file name"):
            write_traces_with_counters(job, output_suffix=suffix)

    @pytest.mark.parametrize("text", ['{"traceEvents": []}', "no trace"])
    def test_only_copies_are_overwritten(self, tmp_path, text):
        job = open_trace(write(tmp_path / "a.json", EVENTS))
        other = tmp_path / "a_1.json"
        other.write_text(text)
        with pytest.raises(
            ParameterError, match=r"a_1\.json exists and was not written by hta_widg"
        ):
            write_traces_with_counters(job, output_suffix="_1")
        assert other.read_text() == text

    def test_a_copy_of_the_job_itself_is_not_written_over_itself(self, tmp_path):
        source = write(tmp_path / "a.json", EVENTS)
        (copy,) = write_traces_with_counters(open_trace(source))
        (second,) = write_traces_with_counters(open_trace({0: source, 1: copy}), ranks=[1])
        assert second.name == "a_with_counters_with_counters.json"

    def test_an_earlier_copy_is_replaced(self, tmp_path):
        job = open_trace(write(tmp_path / "a.json", EVENTS))
        first = write_traces_with_counters(job)
        assert write_traces_with_counters(job) == first
        assert len(list(tmp_path.iterdir())) == 2

    def test_nothing_is_left_behind_when_writing_fails(self, tmp_path, monkeypatch):
        job = open_trace(write(tmp_path / "a.json", EVENTS))
        monkeypatch.setattr(extended_trace, "add_mark", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            write_traces_with_counters(job)
        assert [path.name for path in tmp_path.iterdir()] == ["a.json"]

    def test_the_file_has_become_something_else(self, tmp_path):
        job = open_trace(write(tmp_path / "a.json", EVENTS))
        (tmp_path / "a.json").write_text("no trace")
        with pytest.raises(TraceChangedError):
            write_traces_with_counters(job)


class TestFolders:
    def test_copies_are_left_out_and_noticed(self, tmp_path):
        write(tmp_path / "rank-0.json", EVENTS)
        write_traces_with_counters(open_trace(tmp_path), output_suffix="_whatever")
        job = open_trace(tmp_path)
        assert [source.path.name for source in job.sources.values()] == ["rank-0.json"]
        notice = "copies written by hta_widgets are left out: rank-0_whatever.json"
        assert notice in job.notices

    def test_copies_alone_are_traces(self, tmp_path):
        source = write(tmp_path / "rank-0.json.gz", EVENTS)
        write_traces_with_counters(open_trace(source))
        source.unlink()
        job = open_trace(tmp_path)
        assert [source.path.name for source in job.sources.values()] == [
            "rank-0_with_counters.json.gz"
        ]

    def test_a_copy_that_is_named_is_opened(self, tmp_path):
        source = write(tmp_path / "rank-0.json", EVENTS)
        (path,) = write_traces_with_counters(open_trace(source))
        assert len(open_trace(path).gpu_work(0)) == 2

    def test_a_copy_of_a_copy_has_one_mark(self, tmp_path):
        source = write(tmp_path / "rank-0.json", EVENTS)
        (first,) = write_traces_with_counters(open_trace(source))
        (second,) = write_traces_with_counters(open_trace(first))
        assert second.read_bytes().count(b'"hta_widgets"') == 1
        assert read(second)["hta_widgets"] == {"derived_from": "rank-0.json"}
