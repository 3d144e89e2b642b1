"""From file to events table: kinds, times, ids, side tables, and what is left out."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal

import numpy as np
import pytest

from hta_widgets.errors import TraceFormatError
from hta_widgets.trace.loaders.kineto import text as event_text
from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks.identity import described_gpus
from tests.kineto_text import call, host, kernel, read_exactly, step, write


def load(tmp_path, events, **options):
    return load_kineto(write(tmp_path / "trace.json", events, **options), rank=0)


def test_one_of_each_kind(tmp_path):
    events = [
        *(kernel(i, 1, cat=cat) for i, cat in enumerate(("kernel", "Kernel", "mtia_ccp_events"))),
        kernel(3, 1, cat="gpu_memcpy", bytes=64),
        kernel(4, 1, cat="Memset", bytes="2560"),
        kernel(5, 1, cat="cuda_sync"),
        call(6, 1, 1),
        call(7, 1, 2, cat="cuda_driver"),
        call(8, 1, 3, cat="hip_runtime"),
        host(9, 1, "aten::add"),
        host(10, 1, "step", cat="user_annotation"),
        host(11, 1, "step", cat="gpu_user_annotation"),
        host(12, 1, "forward", cat="python_function"),
        host(13, 1, "flush", cat="overhead"),
        host(14, 1, "what", cat="never seen"),
        {"ph": "C", "name": "Queue Length", "pid": 1, "ts": 15, "args": {"7": 3}},
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "ts": 16},
    ]
    loaded = load(tmp_path, events).events
    assert [Kind(kind) for kind in loaded.kind] == [
        *(Kind.KERNEL,) * 3,
        *(Kind.MEMCPY, Kind.MEMSET, Kind.SYNC, Kind.RUNTIME, Kind.DRIVER, Kind.RUNTIME),
        *(Kind.CPU_OP, Kind.ANNOTATION, Kind.GPU_ANNOTATION, Kind.PYTHON, Kind.OVERHEAD),
        *(Kind.OTHER, Kind.COUNTER, Kind.INSTANT),
    ]
    assert loaded.side["transfers"].columns["bytes"].tolist() == [64, 2560]


def test_waits_of_mtia_are_no_work(tmp_path):
    """They lie on its streams, among its kernels, and would be the longest of these."""
    mtia = {"cat": "mtia_ccp_events"}
    events = [
        kernel(0, 5, name="pe_exe", **mtia),
        kernel(5, 60, name="event_wait", stream=108, wait_on_stream=104, **mtia),
        kernel(70, 1, name="event_record", **mtia),
        kernel(80, 5, name="event_wait"),
        host(90, 5, "event_wait"),
    ]
    path = write(tmp_path / "trace.json", events)
    kinds = [Kind(kind) for kind in load_kineto(path, rank=0).events.kind]
    assert kinds == [Kind.KERNEL, Kind.SYNC, Kind.SYNC, Kind.KERNEL, Kind.CPU_OP]
    job = open_trace(path, progress=False)
    assert job.gpu_work(0).busy.length == 10_000
    awaited = job.rank(0).details(DetailGroup.SYNCHRONISATION).table
    assert awaited.columns["wait_on_stream"].tolist() == [104]


def test_what_is_no_event_in_time_leaves_no_row(tmp_path):
    events = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 1, "pid": 1, "tid": 1, "ts": 1},
        host(0, 100, "PyTorch Profiler (0)", cat="Trace"),
        host(5, 1, "aten::add"),
    ]
    trace = load(tmp_path, events)
    assert trace.events.names_at(np.array([0])) == ["aten::add"]
    assert len(trace.events) == 1
    assert trace.events.index.tolist() == [3]
    assert trace.notices == ()


def test_events_left_out_are_counted(tmp_path):
    events = [
        host(0, 1, "good"),
        {**host(1, 1, "no duration"), "dur": None},
        host(2, -1, "negative"),
        host("soon", 1, "no time"),
        {"ph": "B", "name": "half", "pid": 1, "tid": 1, "ts": 3},
        {"ph": "E", "name": "half", "pid": 1, "tid": 1, "ts": 4},
    ]
    trace = load(tmp_path, events)
    assert len(trace.events) == 1
    halves, timeless = (notice.text() for notice in trace.notices)
    assert halves.startswith("2 begin and end events (phases B and E) are left out")
    assert timeless == "3 events without a readable time and duration are left out"


def test_rows_are_in_order_of_start_and_side_tables_follow(tmp_path, monkeypatch):
    monkeypatch.setattr(event_text, "BLOCK_BYTES", 300)
    events = [
        kernel(10 * ((7 * i) % 40), 1, cat="gpu_memcpy", name=f"copy {i}", bytes=i)
        for i in range(40)
    ]
    table = load(tmp_path, events).events
    assert np.all(np.diff(table.start_ns) > 0)
    transfers = table.side["transfers"]
    assert transfers.rows.tolist() == list(range(40))
    assert [f"copy {i}" for i in transfers.columns["bytes"]] == table.names_at(transfers.rows)
    assert table.index.tolist() == transfers.columns["bytes"].tolist()


def test_odd_ids(tmp_path):
    events = [
        kernel(0, 1, stream="7", correlation="0x1f", device=1.0),
        kernel(1, 1, stream=2**32 - 1, correlation=2**63 + 5),
        {**kernel(2, 1), "tid": "stream 7", "pid": "GPU 0"},
        {**kernel(3, 1), "args": {}, "pid": 2, "tid": 13},
        {**kernel(4, 1), "args": None, "pid": 2, "tid": 13},
    ]
    table = load(tmp_path, events).events
    assert table.stream[:2].tolist() == [7, -1]
    assert table.correlation[0] == 31
    assert table.correlation[1] == 5 - 2**63
    assert (table.labels[-2 - table.pid[2]], table.labels[-2 - table.tid[2]]) == (
        "GPU 0",
        "stream 7",
    )
    assert table.device.tolist()[3:] == [2, 2]
    assert table.stream.tolist()[3:] == [13, 13]


def test_arguments_say_the_device_and_stream_and_lanes_do_where_they_do_not(tmp_path):
    said = {**kernel(0, 1), "pid": 5, "tid": 9, "args": {"device": 2, "stream": 3}}
    unsaid = {**kernel(1, 1), "pid": 5, "tid": 9, "args": {}}
    events = load(tmp_path, [said, unsaid, host(2, 1, "aten::add")]).events
    assert events.device.tolist()[:2] == [2, 5]
    assert events.stream.tolist()[:2] == [3, 9]


def test_what_is_null_is_as_if_it_were_not_there(tmp_path):
    keys = ("device", "stream", "correlation", "bytes", "memory bandwidth (GB/s)")
    copy = kernel(0, 1, cat="gpu_memcpy", name="Memcpy HtoD")
    absent = load(tmp_path, [{**copy, "args": {}}]).events
    null = load(tmp_path, [{**copy, "args": dict.fromkeys(keys)}]).events
    for table in (absent, null):
        assert table.correlation.tolist() == [-1]
        assert table.side["transfers"].columns["bytes"].tolist() == [-1]
        assert np.isnan(table.side["transfers"].columns["bandwidth_gb_per_s"]).all()
    assert null.device.tolist() == absent.device.tolist()
    assert null.stream.tolist() == absent.stream.tolist()


def test_times_are_exact_and_count_from_the_first_event(tmp_path):
    events = [kernel("1732611000000000.123", 0.001), kernel("1732611000000000.124", 60.512)]
    trace = load(tmp_path, events, baseTimeNanoseconds=7)
    assert trace.events.start_ns.tolist() == [0, 1]
    assert trace.events.duration_ns.tolist() == [1, 60512]
    assert trace.origin_ns == 1_732_611_000_000_000_123 + 7


@pytest.mark.parametrize("key", ["Input Dims", "Input dims"])
def test_operator_shapes_are_kept_as_text(tmp_path, key):
    event = host(0, 1, "aten::mm") | {"args": {"Sequence number": 3, key: [[2, 3], []]}}
    operators = load(tmp_path, [event]).events.side["operators"].to_frame()
    assert json.loads(operators["input_dims"].iloc[0]) == [[2, 3], []]
    assert operators["sequence_number"].tolist() == [3]


def test_counters(tmp_path):
    ranges = [
        kernel(i, 1, cat="cuda_profiler_range", **{"inst.sum": 10 + i, "note": "x"})
        for i in range(3)
    ]
    counters = load(tmp_path, ranges).events.side["counters"].to_frame()
    assert counters[counters["counter"] == "inst.sum"]["value"].tolist() == [10, 11, 12]


def test_cut_off_file_says_so(tmp_path):
    path = write(tmp_path / "trace.json", [host(i, 1, "op") for i in range(9)])
    path.write_text(path.read_text()[:-200])
    trace = load_kineto(path, rank=0)
    assert 0 < len(trace.events) < 9
    assert f"its {len(trace.events)} complete events are loaded" in trace.notices[0].text()


def test_empty_list_of_events(tmp_path):
    assert len(load(tmp_path, []).events) == 0


def test_source_file_is_not_modified(tmp_path):
    path = write(tmp_path / "trace.json.gz", [step(1, 0, 10), kernel(1, 2)])
    before = path.read_bytes()
    load_kineto(path, rank=0)
    assert path.read_bytes() == before


def test_not_a_trace(tmp_path):
    path = tmp_path / "notes.json"
    path.write_text("some notes")
    with pytest.raises(TraceFormatError, match=r"notes\.json is not a JSON trace"):
        load_kineto(path, rank=0)


def test_every_real_trace_has_all_its_events_to_the_ns(kineto_jobs):
    """Independent reading with the standard library and exact decimals."""
    paths = sorted(path for folder in kineto_jobs.values() for path in folder.glob("*.json.gz"))
    assert paths
    for path in paths:
        table = load_kineto(path, rank=0).events
        events = [
            event
            for event in read_exactly(path)["traceEvents"]
            if event.get("ph") == "X" and event.get("cat") != "Trace"
        ]
        complete = ~np.isin(table.kind, (Kind.INSTANT, Kind.COUNTER))
        assert complete.sum() == len(events), path
        assert table.duration_ns.sum() == sum(_ns(event["dur"]) for event in events), path
        starts = np.sort(np.array([_ns(event["ts"]) for event in events]))
        ours = np.sort(table.start_ns[complete])
        assert np.array_equal(ours - ours[0], starts - starts[0]), path
        names = Counter(event["name"] for event in events)
        rows = np.flatnonzero(complete)
        assert Counter(table.names_at(rows)) == names, path


def _ns(microseconds) -> int:
    return round(Decimal(microseconds) * 1000)


def test_bare_array(tmp_path):
    assert len(load(tmp_path, [host(0, 1, "op")], bare=True).events) == 1


def test_a_gpu_that_rocm_leaves_unnamed_is_known_by_the_rest():
    """A server's recording had all of an MI300X but its name, so that no peak was known."""
    known = {"computeMajor": 9, "computeMinor": 4, "numSms": 304, "totalGlobalMem": 206141652992}
    unnamed, named, other = (
        {"name": "", **known},
        {"name": "mine", **known},
        {"name": "", **known, "numSms": 228},
    )
    found = described_gpus({"deviceProperties": [unnamed, named, other]})
    names = [each["name"] for each in found.values()]
    assert names == ["AMD Instinct MI300X", "mine", ""]
