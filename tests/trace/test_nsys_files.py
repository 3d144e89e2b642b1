"""Nsight Systems exports as untrusted files: secrets, odd paths, odd types, damage."""

from __future__ import annotations

import logging
import os
import pickle
import sqlite3
from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.errors import TraceFormatError
from hta_widgets.trace.loaders.nsys.load import gpu_processes, is_nsys_export, load_nsys
from hta_widgets.trace.loaders.nsys.sqlite import sqlite_tables
from hta_widgets.trace.model.events import Kind
from tests.nsys_export import (
    KERNEL,
    MEMCPY,
    NVTX,
    RUNTIME,
    SESSION,
    STRINGS,
    call,
    kernel,
    nvtx,
    on_gpu,
    owner,
    process,
    strings,
    write_parquetdir,
    write_sqlite,
)

PLANTED = "sk-planted"
TABLES = {
    STRINGS: strings("add", "cudaLaunchKernel", f"TOKEN={PLANTED}", "range"),
    KERNEL: [kernel(20 + i, 21 + i, correlation=i) | {"note": PLANTED} for i in range(500)],
    RUNTIME: [call(0, 1, correlation=0), call(0, 1, 3, eventClass=67)],
    NVTX: [
        nvtx(0, 90, textId=4, jsonText=PLANTED, binaryData=PLANTED),
        nvtx(0, 9, PLANTED, eventType=75),
    ],
    SESSION: [{"utcEpochNs": 1000, "utcTime": PLANTED}],
    "DIAGNOSTIC_EVENT": [{"text": f"see /home/{PLANTED}/stdout.log", "globalPid": owner()}],
    "META_DATA_CAPTURE": [{"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": PLANTED}],
    "META_DATA_EXPORT": [{"name": "EXPORT_COMMAND", "value": PLANTED}],
    "TARGET_INFO_SYSTEM_ENV": [{"name": "TOKEN", "value": PLANTED}],
    "ProcessStreams": [{"contentId": 3, "content": PLANTED}],
    "PROCESSES": [{"globalPid": owner(), "name": PLANTED}],
    "ThreadNames": [{"globalTid": owner(), "nameId": 3}],
}


@pytest.fixture(params=[write_sqlite, write_parquetdir], ids=["sqlite", "parquetdir"])
def export(request, tmp_path):
    return request.param(tmp_path / "export", TABLES)


def test_no_secret_leaves_the_export(export, caplog, capsys):
    caplog.set_level(logging.DEBUG)
    everything = [is_nsys_export(export), gpu_processes(export)]
    traces = [load_nsys(export, 0), load_nsys(export, 0, process())]
    everything += [
        *(repr(trace) + str(trace.notices) + str(trace.metadata) for trace in traces),
        *(repr(trace.events.name.values) for trace in traces),
        *(trace.events.to_frame().to_csv() for trace in traces),
        *(side.to_frame().to_csv() for trace in traces for side in trace.events.side.values()),
        *(pickle.dumps(trace) for trace in traces),
        caplog.text,
        *capsys.readouterr(),
    ]
    assert [len(trace.events) for trace in traces] == [502, 502]
    assert set(traces[0].events.name.values) == {"add", "cudaLaunchKernel", "range"}
    assert not any(PLANTED in str(each) for each in everything)


def test_sqlite_itself_refuses_to_read_secrets(tmp_path):
    path = write_sqlite(tmp_path / "export.sqlite", TABLES)
    queries = [
        "SELECT value FROM TARGET_INFO_SYSTEM_ENV",
        "SELECT count(*) FROM META_DATA_CAPTURE",
        "SELECT jsonText FROM NVTX_EVENTS",
        "SELECT upper(text) FROM NVTX_EVENTS",
        "SELECT start FROM NVTX_EVENTS WHERE EXISTS (SELECT * FROM ProcessStreams)",
        "SELECT sql FROM sqlite_master",
        "PRAGMA table_info(TARGET_INFO_SYSTEM_ENV)",
        "PRAGMA user_version",
        "DELETE FROM NVTX_EVENTS",
        "ATTACH ':memory:' AS other",
    ]
    with sqlite_tables(path) as tables:
        for query in queries:
            with pytest.raises(sqlite3.DatabaseError, match=r"prohibited|not authorized"):
                tables._connection.execute(query)


def test_a_view_with_the_name_of_a_table_is_not_read(tmp_path):
    path = write_sqlite(tmp_path / "export.sqlite", {**TABLES, NVTX: []})
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE VIEW NVTX_EVENTS AS "
            "SELECT 1 AS start, 2 AS end, value AS text FROM META_DATA_CAPTURE"
        )
        connection.commit()
    assert load_nsys(path, 0).events.rows_of(Kind.ANNOTATION).size == 0


def test_only_the_tables_needed_are_opened(tmp_path):
    path = write_parquetdir(tmp_path / "export", TABLES)
    secret = set(TABLES) - {STRINGS, KERNEL, RUNTIME, NVTX, SESSION, "DIAGNOSTIC_EVENT"}
    for table in secret:
        (path / f"{table}.parquet").write_text("not Parquet")
    assert len(load_nsys(path, 0).events) == 502


@pytest.mark.parametrize(
    "name",
    ["a b.sqlite", "what?.sqlite", "a#b", "100%.sqlite", "%41.db", "x?mode=rwc", "ä'\"&.sqlite"],
)
def test_odd_names_of_files(tmp_path, name):
    for place in (tmp_path / name, tmp_path / "dir?#%41" / name):
        place.parent.mkdir(exist_ok=True)
        assert is_nsys_export(write_sqlite(place, TABLES))
        assert len(load_nsys(place, 0).events) == 502


def test_names_of_files_that_are_no_text(tmp_path):
    path = write_sqlite(tmp_path / "export.sqlite", TABLES)
    odd = path.rename(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.sqlite"))
    assert is_nsys_export(odd)
    assert len(load_nsys(odd, 0).events) == 502


def test_a_relative_name(tmp_path, monkeypatch):
    path = write_sqlite(tmp_path / "export.sqlite", TABLES)
    monkeypatch.chdir(tmp_path)
    assert gpu_processes(path.relative_to(tmp_path)) == gpu_processes(path)


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_reading_leaves_the_folder_as_it_was(tmp_path, journal):
    path = write_sqlite(tmp_path / "export.sqlite", TABLES)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode={journal}")
    path.chmod(0o444)
    before = path.read_bytes()
    assert is_nsys_export(path)
    with sqlite_tables(path) as tables:
        assert tables.size(KERNEL) == 500
        assert list(tmp_path.iterdir()) == [path]
    load_nsys(path, 0)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == before


def test_what_is_still_in_the_log_is_read(tmp_path):
    path = write_sqlite(tmp_path / "export.sqlite", TABLES)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL")
        connection.commit()
        assert len(load_nsys(path, 0).events) == 2


def test_what_is_no_export(tmp_path):
    nothing = tmp_path / "nothing"
    link = tmp_path / "link"
    link.symlink_to(nothing)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    text = tmp_path / "trace.json"
    text.write_text("{}")
    short = tmp_path / "short.sqlite"
    short.write_bytes(b"SQLite format 3\x00")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    empty = tmp_path / "empty"
    empty.touch()
    others = [
        write_sqlite(tmp_path / "mails.sqlite", {"mails": [{"id": 1}]}),
        write_sqlite(
            tmp_path / "nvprof.db", {KERNEL: [kernel(0, 1)], "StringTable": [{"_id_": 1}]}
        ),
        write_parquetdir(tmp_path / "recipe", {"files": [{"File": "rank0"}]}),
    ]
    for path in (nothing, link, loop, text, short, pipe, empty, tmp_path, *others):
        assert not is_nsys_export(path)
    for path in (nothing, link, text, short, empty):
        for read in (gpu_processes, lambda path: load_nsys(path, 0)):
            with pytest.raises(TraceFormatError, match="export the report again"):
                read(path)


def test_a_file_that_is_being_written_is_refused(tmp_path):
    path = write_sqlite(tmp_path / "export.sqlite", TABLES)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(TraceFormatError, match="still being written"):
            load_nsys(path, 0)


def test_odd_types_in_sqlite(tmp_path):
    odd = ["text", "12", b"\xff", 2.5, 1e300, float("inf"), 2**63 - 1, -(2**63), "\x00", "9" * 5000]
    rows = [
        kernel(10 + i, 50, name=v, correlation=v, device=v, stream=v, globalPid=owner())
        for i, v in enumerate(odd)
    ]
    rows += [kernel(value, 40) for value in odd] + [kernel(0, value) for value in odd]
    rows += [kernel(0, 5, globalPid=value) for value in odd]
    copies = [on_gpu(0, 9, bytes=v, copyKind=v, srcKind=v, dstKind=v) for v in odd]
    calls = [call(0, 9, v, globalTid=v, eventClass=v) for v in odd]
    ranges = [nvtx(0, 9, v, textId=v, globalTid=v) for v in odd]
    tables = {
        KERNEL: rows,
        MEMCPY: copies,
        RUNTIME: calls,
        NVTX: ranges,
        SESSION: [{"utcEpochNs": "x"}],
    }
    path = write_sqlite(tmp_path / "export.sqlite", {STRINGS: strings("add"), **tables})
    for each in gpu_processes(path):
        trace = load_nsys(path, 0, each.process)
        assert trace.events.duration_ns.min() >= 0
    assert len(load_nsys(path, 0).events) > 30


def test_text_that_is_no_utf8(tmp_path):
    path = write_sqlite(tmp_path / "export.sqlite", TABLES)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE NVTX_EVENTS SET text = CAST(x'61ff62' AS TEXT)")
        connection.execute("UPDATE StringIds SET value = CAST(x'63ff' AS TEXT)")
        connection.commit()
    assert set(load_nsys(path, 0).events.name.values) == {"a\ufffdb", "c\ufffd"}


def test_types_in_parquet(tmp_path):
    path = tmp_path / "export"
    path.mkdir()
    high = owner(machine=200)
    columns = {
        "start": pa.array([10, 20, None], pa.uint64()),
        "end": pa.array([15.0, 26.0, 30.0], pa.float64()),
        "deviceId": pa.array([0, 1, 1], pa.uint8()),
        "streamId": pa.array([2**32 - 1, 7, 7], pa.uint32()),
        "correlationId": pa.array([None, 5, 6], pa.int32()),
        "globalPid": pa.array([high, high, high], pa.uint64()),
        "demangledName": pa.array([1, 2, 2], pa.int16()).dictionary_encode(),
        "shortName": pa.array(["1", "x", None]),
        "mangledName": pa.nulls(3),
    }
    pq.write_table(pa.table(columns), path / f"{KERNEL}.parquet")
    odd = pa.Array.from_buffers(
        pa.large_string(),
        2,
        [None, pa.py_buffer(np.array([0, 2, 3], "<i8")), pa.py_buffer(b"a\xffb")],
    )
    ranges = {"start": [0, 1], "end": [9, 8], "text": odd, "binaryData": odd}
    pq.write_table(pa.table(ranges), path / f"{NVTX}.parquet")
    texts = {
        "id": pa.array([1, 2], pa.uint32()),
        "value": pa.array(["add", "mul"]).dictionary_encode(),
    }
    pq.write_table(pa.table(texts), path / f"{STRINGS}.parquet")
    [found] = gpu_processes(path)
    assert (found.pid, found.devices) == (100, (0, 1))
    trace = load_nsys(path, 0, found.process)
    events = trace.events
    assert events.names_at(np.arange(4)) == ["a\ufffd", "b", "add", "mul"]
    assert events.duration_ns.tolist() == [9, 7, 5, 6]
    assert events.stream.tolist() == [-1, -1, -1, 7]
    assert events.correlation.tolist() == [-1, -1, -1, 5]
    assert [notice.counts for notice in trace.notices] == [(1,)]


def read_all(path):
    """Read everything readable and return the error; only `TraceFormatError` is allowed."""
    is_nsys_export(path)
    try:
        for each in gpu_processes(path):
            load_nsys(path, 0, each.process)
    except TraceFormatError as error:
        return str(error)
    return ""


def test_cut_off_sqlite(tmp_path):
    whole = write_sqlite(tmp_path / "whole.sqlite", TABLES).read_bytes()
    cut = tmp_path / "cut.sqlite"
    sizes = range(0, len(whole), 1111)
    for size in sizes:
        cut.write_bytes(whole[:size])
        assert "export the report again" in read_all(cut)


def test_cut_off_parquet(tmp_path):
    path = write_parquetdir(tmp_path / "export", TABLES)
    file = path / f"{KERNEL}.parquet"
    whole = file.read_bytes()
    for size in range(0, len(whole), 997):
        file.write_bytes(whole[:size])
        assert "export the report again" in read_all(path)


@given(st.lists(st.tuples(st.integers(0, 2**20), st.binary(min_size=1, max_size=8)), max_size=6))
@pytest.mark.parametrize("kind", ["sqlite", "parquet"])
def test_damaged_bytes(tmp_path_factory, kind, changes):
    folder = tmp_path_factory.mktemp("damaged")
    if kind == "sqlite":
        path = file = write_sqlite(folder / "export.sqlite", TABLES)
    else:
        path = write_parquetdir(folder / "export", TABLES)
        file = path / f"{STRINGS}.parquet"
    content = bytearray(file.read_bytes())
    for place, replaced in changes:
        at = place % len(content)
        content[at : at + len(replaced)] = replaced
    file.write_bytes(content)
    assert PLANTED not in read_all(path)
