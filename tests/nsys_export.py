"""Write tiny Nsight Systems exports from literal rows, as SQLite and as a folder of Parquet."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, Any]
Tables = Mapping[str, Sequence[Row]]

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
SYNC = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
NVTX = "NVTX_EVENTS"
OS_CALLS = "OSRT_API"
STRINGS = "StringIds"
SESSION = "TARGET_INFO_SESSION_START_TIME"

PID = 100
TID = 101
NO_STREAM = 2**32 - 1


def owner(pid: int = PID, tid: int = 0, machine: int = 1) -> int:
    """A globalPid, or with a thread a globalTid."""
    return (machine << 48) | (pid << 24) | tid


def process(pid: int = PID, machine: int = 1) -> int:
    """The number by which `load_nsys` knows a process."""
    return owner(pid, machine=machine) >> 24


def on_gpu(
    start: Any,
    end: Any,
    *,
    correlation: Any = None,
    pid: int = PID,
    device: Any = 0,
    stream: Any = 7,
    **columns: Any,
) -> Row:
    """A row of any table of work on the GPU; times in ns."""
    return {
        "start": start,
        "end": end,
        "deviceId": device,
        "contextId": 1,
        "streamId": stream,
        "correlationId": correlation,
        "globalPid": owner(pid),
        **columns,
    }


def kernel(start: Any, end: Any, name: Any = 1, **columns: Any) -> Row:
    """A kernel, named by an id."""
    names = {"demangledName": name, "shortName": name, "mangledName": None}
    return on_gpu(start, end, **(names | columns))


def call(
    start: Any,
    end: Any,
    name: Any = 2,
    *,
    correlation: Any = None,
    pid: int = PID,
    **columns: Any,
) -> Row:
    """A call of the CUDA API, named by an id."""
    return {
        "start": start,
        "end": end,
        "eventClass": 0,
        "globalTid": owner(pid, TID),
        "correlationId": correlation,
        "nameId": name,
        "returnValue": 0,
        **columns,
    }


def nvtx(start: Any, end: Any, text: Any = None, **columns: Any) -> Row:
    """An NVTX range."""
    return {
        "start": start,
        "end": end,
        "eventType": 59,
        "text": text,
        "textId": None,
        "globalTid": owner(tid=TID),
        **columns,
    }


def strings(*texts: str) -> list[Row]:
    """The texts with the ids 1, 2, ..."""
    return [{"id": number, "value": text} for number, text in enumerate(texts, start=1)]


def write_sqlite(path: Path, tables: Tables) -> Path:
    """Write an SQLite export; tables without rows are left out, as `nsys export` does."""
    with closing(sqlite3.connect(path)) as connection:
        for table, rows in tables.items():
            if rows:
                columns = [f'"{name}" {_declared(values)}' for name, values in _columns(rows)]
                connection.execute(f'CREATE TABLE "{table}" ({", ".join(columns)})')
                marks = ", ".join("?" * len(columns))
                values = zip(*(values for _, values in _columns(rows)), strict=True)
                connection.executemany(f'INSERT INTO "{table}" VALUES ({marks})', values)  # noqa: S608
        connection.commit()
    return path


def write_parquetdir(folder: Path, tables: Tables) -> Path:
    """Write a folder with one Parquet file per table that has rows."""
    folder.mkdir()
    for table, rows in tables.items():
        if rows:
            columns = {name: _arrow(values) for name, values in _columns(rows)}
            pq.write_table(pa.table(columns), folder / f"{table}.parquet")
    return folder


def _columns(rows: Sequence[Row]) -> list[tuple[str, list[Any]]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return [(name, [row.get(name) for row in rows]) for name in names]


def _declared(values: Sequence[Any]) -> str:
    return "TEXT" if any(isinstance(value, str) for value in values) else "INTEGER"


def _arrow(values: Sequence[Any]) -> pa.Array:
    texts = any(isinstance(value, str) for value in values)
    return pa.array(values, pa.large_string() if texts else pa.int64())
