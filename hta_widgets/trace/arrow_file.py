"""One rank's trace as an Arrow file that is opened by memory map, without copying a column.

The file has one row; each of its columns is a list as long as a column of the trace. So columns of
any length lie in one file, each in one piece.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hta_widgets.trace.events import Events, SideTable, TextColumn, Trace
from hta_widgets.trace.formats import TraceFormat
from hta_widgets.trace.notices import Notice

Column = NDArray[Any] | TextColumn

_HEADER = b"hta_widgets"
_TEXT_ERRORS = "surrogatepass"
_MAIN = (
    "start_ns",
    "duration_ns",
    "kind",
    "pid",
    "tid",
    "device",
    "stream",
    "correlation",
    "index",
)
_SIDE = "side"
_LINKS = "links"
_SEPARATOR = "\t"


class StoredTrace(NamedTuple):
    """A trace, and what is derived from it once.

    Attributes
    ----------
    trace : Trace
    links : mapping of str to ndarray of int64
        One value per event each.
    """

    trace: Trace
    links: Mapping[str, NDArray[np.int64]]


def write_trace(stored: StoredTrace, key: str, path: Path) -> None:
    """Write a trace; `key` is what a reader has to ask for."""
    header = json.dumps({"key": key, "trace": _about(stored.trace)})
    arrays: dict[str, pa.Array] = {}
    for name, column in _columns(stored):
        arrays |= _as_lists(name, column)
    table = pa.table(arrays).replace_schema_metadata({_HEADER: header.encode()})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read_trace(path: Path, key: str) -> StoredTrace | None:
    """Open a file that `write_trace` wrote under this key; None for any other."""
    try:
        batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
        batch.validate(full=True)
        header = json.loads((batch.schema.metadata or {}).get(_HEADER, b"{}"))
        return _opened(batch, header["trace"]) if header["key"] == key else None
    except (
        OSError,
        pa.ArrowException,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
    ):
        return None


def read_key(path: Path) -> str:
    """Key that `write_trace` wrote a file under, read without its columns; empty for any other."""
    try:
        schema = pa.ipc.open_file(pa.memory_map(str(path))).schema
        return str(json.loads((schema.metadata or {})[_HEADER])["key"])
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError):
        return ""


def _columns(stored: StoredTrace) -> Iterator[tuple[str, Column]]:
    events = stored.trace.events
    yield from ((name, getattr(events, name)) for name in _MAIN)
    yield "name", events.name
    for table, side in events.side.items():
        yield _SEPARATOR.join((_SIDE, table)), side.rows
        for column, values in side.columns.items():
            yield _SEPARATOR.join((_SIDE, table, column)), values
    yield from ((_SEPARATOR.join((_LINKS, name)), rows) for name, rows in stored.links.items())


def _about(trace: Trace) -> dict[str, Any]:
    return {
        "rank": trace.rank,
        "source": trace.source,
        "origin_ns": trace.origin_ns,
        "metadata": trace.metadata,
        "notices": [[notice.words, list(notice.counts)] for notice in trace.notices],
        "format": trace.format.name,
        "labels": list(trace.events.labels),
    }


def _as_lists(name: str, column: Column) -> dict[str, pa.Array]:
    if not isinstance(column, TextColumn):
        return {name: _as_list(pa.array(column))}
    texts = [text.encode("utf-8", _TEXT_ERRORS) for text in column.values]
    texts_name = _SEPARATOR.join((name, "", "texts"))
    return {
        name: _as_list(pa.array(column.codes)),
        texts_name: _as_list(pa.array(texts, pa.large_binary())),
    }


def _as_list(values: pa.Array) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)


def _opened(batch: pa.RecordBatch, about: Mapping[str, Any]) -> StoredTrace:
    columns = _stored_columns(batch)
    main = {name: columns.pop(name) for name in (*_MAIN, "name")}
    sides: dict[str, dict[str, Any]] = {}
    links: dict[str, NDArray[np.int64]] = {}
    for name, column in columns.items():
        where, table, *rest = name.split(_SEPARATOR)
        if where == _LINKS:
            links[table] = column
        else:
            sides.setdefault(table, {})["".join(rest)] = column
    side = {table: SideTable(of.pop(""), of) for table, of in sides.items()}
    _require_equal_lengths(main["name"].codes, *(main[name] for name in _MAIN), *links.values())
    events = Events(**main, labels=tuple(about["labels"]), side=side)
    trace = Trace(
        rank=about["rank"],
        source=about["source"],
        events=events,
        origin_ns=about["origin_ns"],
        metadata=about["metadata"],
        notices=tuple(Notice(words, tuple(counts)) for words, counts in about["notices"]),
        format=TraceFormat[about["format"]],
    )
    return StoredTrace(trace, links)


def _require_equal_lengths(*columns: NDArray[Any]) -> None:
    if len({column.size for column in columns}) > 1:
        msg = "columns of different lengths"
        raise ValueError(msg)


def _stored_columns(batch: pa.RecordBatch) -> dict[str, Any]:
    lists = {name: batch.column(name).flatten() for name in batch.schema.names}
    columns: dict[str, Any] = {}
    for name, values in lists.items():
        if name.endswith(f"{_SEPARATOR}{_SEPARATOR}texts"):
            continue
        numbers = values.to_numpy(zero_copy_only=True)
        texts = lists.get(_SEPARATOR.join((name, "", "texts")))
        columns[name] = numbers if texts is None else TextColumn(numbers, _decoded(texts))
    return columns


def _decoded(texts: pa.Array) -> tuple[str, ...]:
    return tuple(text.decode("utf-8", _TEXT_ERRORS) for text in texts.to_pylist())
