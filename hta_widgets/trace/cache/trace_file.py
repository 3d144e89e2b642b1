"""One rank's trace as a memory-mapped Arrow file, which opens without copying columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Int32Array
from hta_widgets.trace.cache.column_file import (
    Column,
    arrays_of,
    columns_of,
    read_columns,
    read_header,
    unreadable,
    write_columns,
)
from hta_widgets.trace.cache.derived_columns import DerivedColumnCache
from hta_widgets.trace.model.events import Events, Faults, Kind, SideTable, TextColumn, Trace
from hta_widgets.trace.model.notices import Notice

if TYPE_CHECKING:
    import pyarrow as pa

_MAIN: dict[str, type[np.generic]] = {
    "start_ns": np.int64,
    "duration_ns": np.int64,
    "kind": np.int8,
    "pid": np.signedinteger,
    "tid": np.signedinteger,
    "device": np.signedinteger,
    "stream": np.signedinteger,
    "correlation": np.signedinteger,
    "index": np.int32,
}
_HEADER: dict[str, type | tuple[type, ...]] = {
    "rank": int,
    "source": str,
    "origin_ns": int,
    "base_ns": (int, type(None)),
    "metadata": dict,
    "notices": list,
    "faults": list,
    "labels": list,
}
_SIDE = "side"
_LINKS = "links"
_SEPARATOR = "\t"


_AT_ONCE: Final = 1 << 15
"""Number of values that stay in the CPU cache while they are read several times."""

_FARTHEST_NS: Final = 1 << 62


class LoadedTrace(NamedTuple):
    """A trace with its links and, if it is cached, its derived-column cache."""

    trace: Trace
    links: Mapping[str, Int32Array]
    """One value per event each."""
    derived: DerivedColumnCache | None = None
    """Cache for columns derived from the trace."""


def write_trace(stored: LoadedTrace, key: str, path: Path) -> None:
    """Write a trace; only readers with the same key can open it."""
    arrays = arrays_of(dict(_columns(stored)))
    header = {"key": key, "trace": _trace_header(stored.trace), "columns": _types(arrays)}
    write_columns(arrays, header, path)


def read_trace(path: Path, key: str) -> LoadedTrace | None:
    """Open a file that `write_trace` wrote with this key; None for any other file."""
    try:
        header, arrays = read_columns(path)
        if header["key"] != key or header["columns"] != _types(arrays):
            return None
        return _open_trace(arrays, header["trace"])
    except unreadable():
        return None


def read_key(path: Path) -> str:
    """Key that a file was written with, without reading its columns; empty for any other file."""
    try:
        return str(read_header(path)["key"])
    except unreadable():
        return ""


def _columns(stored: LoadedTrace) -> Iterator[tuple[str, Column]]:
    events = stored.trace.events
    yield from ((name, getattr(events, name)) for name in _MAIN)
    yield "name", events.name
    for table, side in events.side.items():
        yield _SEPARATOR.join((_SIDE, table)), side.rows
        for column, values in side.columns.items():
            yield _SEPARATOR.join((_SIDE, table, column)), values
    yield from ((_SEPARATOR.join((_LINKS, name)), rows) for name, rows in stored.links.items())


def _trace_header(trace: Trace) -> dict[str, Any]:
    return {
        "rank": trace.rank,
        "source": trace.source,
        "origin_ns": trace.origin_ns,
        "base_ns": trace.base_ns,
        "metadata": trace.metadata,
        "notices": [[notice.words, list(notice.counts)] for notice in trace.notices],
        "faults": [*trace.faults],
        "labels": list(trace.events.labels),
    }


def _types(arrays: Mapping[str, pa.Array]) -> dict[str, str]:
    return {name: str(values.type) for name, values in arrays.items()}


def _open_trace(arrays: Mapping[str, pa.Array], header: Mapping[str, Any]) -> LoadedTrace:
    columns = columns_of(arrays)
    main = {name: columns.pop(name) for name in (*_MAIN, "name")}
    sides: dict[str, dict[str, Any]] = {}
    links: dict[str, Int32Array] = {}
    for name, column in columns.items():
        where, table, *rest = name.split(_SEPARATOR)
        if where == _LINKS:
            links[table] = column
        else:
            sides.setdefault(table, {})["".join(rest)] = column
    count = main["name"].codes.size
    for name, dtype in _MAIN.items():
        _require(main[name], count, dtype)
    _require(main["name"], count, np.signedinteger)
    for column in links.values():
        _require(column, count, np.int32)
    side = {table: _side_table(of) for table, of in sides.items()}
    if not all(isinstance(header[name], kind) for name, kind in _HEADER.items()):
        msg = "the header has other types than that of a trace"
        raise TypeError(msg)
    events = Events(**main, labels=tuple(header["labels"]), side=side)
    trace = Trace(
        rank=header["rank"],
        source=header["source"],
        events=events,
        origin_ns=header["origin_ns"],
        metadata=header["metadata"],
        notices=tuple(Notice(words, tuple(counts)) for words, counts in header["notices"]),
        base_ns=header["base_ns"],
        faults=Faults(*header["faults"]),
    )
    return LoadedTrace(trace, links)


def _side_table(columns: dict[str, Any]) -> SideTable:
    rows = columns.pop("")
    _require(rows, rows.size, np.signedinteger)
    for column in columns.values():
        _require(column, rows.size, np.signedinteger if isinstance(column, TextColumn) else None)
    return SideTable(rows, columns)


def _require(column: Column, size: int, dtype: type[np.generic] | None) -> None:
    """Refuse a column of another length, or of another type if one is given."""
    values = column.codes if isinstance(column, TextColumn) else column
    if values.size != size or not issubclass(values.dtype.type, dtype or np.generic):
        msg = "a column has another type or length than in a trace"
        raise ValueError(msg)


def is_sound(stored: LoadedTrace) -> bool:
    """Whether all codes and rows are in range, and events and rows in order."""
    events = stored.trace.events
    count = len(events)
    texts, edges_ns = [events.name], events.start_ns[[0, -1]] if count else events.start_ns
    for table in events.side.values():
        if not (_within(table.rows, 0, count) and _is_ascending(table.rows)):
            return False
        texts += [each for each in table.columns.values() if isinstance(each, TextColumn)]
    return (
        _within(events.kind, 0, len(Kind))
        and all(_within(each.codes, -1, len(each.values)) for each in texts)
        and all(_within(rows, -1, count) for rows in stored.links.values())
        and _within(events.duration_ns, 0, _FARTHEST_NS)
        and _within(edges_ns, -_FARTHEST_NS, _FARTHEST_NS)
        and _is_ascending(events.start_ns)
    )


def _within(values: NDArray[Any], least: int, end: int) -> bool:
    return all(part.min() >= least and part.max() < end for part in _parts(values, 0))


def _is_ascending(values: NDArray[Any]) -> bool:
    return all(bool((part[1:] >= part[:-1]).all()) for part in _parts(values, 1))


def _parts(values: NDArray[Any], beyond: int) -> Iterator[NDArray[Any]]:
    """Parts of an array, each with the first `beyond` values of the next one."""
    return (values[at : at + _AT_ONCE + beyond] for at in range(0, values.size, _AT_ONCE))
