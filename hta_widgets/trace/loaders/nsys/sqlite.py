"""Read the tables of an Nsight Systems export that is an SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hta_widgets.errors import TraceFormatError
from hta_widgets.trace.loaders.columns import ColumnBlock
from hta_widgets.trace.loaders.nsys.tables import (
    ALLOWED,
    MISSING,
    READABLE,
    STRINGS,
    TEXT_COLUMNS,
    NsysTables,
    damaged_export,
    owner_column,
    to_integer,
)

_MAGIC = b"SQLite format 3\x00"
_PAGE_BYTES = slice(16, 18)
_LARGEST_PAGE_BYTES = 2**16
"""This page size does not fit into its two bytes and is stored as 1."""

_WRITE_VERSION = slice(18, 19)
_WRITE_AHEAD = b"\x02"
_LOCK_TIMEOUT_S = 1.0
"""How long to wait for another program to finish writing."""

_ROWS_AT_ONCE = 4096
_LEAST_ROW_BYTES = 4
_STEPS_AT_ONCE = 100_000
_STEPS_AT_LEAST, _STEPS_PER_BYTE = 10_000_000, 64
"""How long a query may run. In a corrupted file, pages may contain each other over and over."""

_IDS_AT_ONCE = 500
_SCHEMA_TABLES = ("sqlite_master", "sqlite_schema")
_SCHEMA_COLUMNS = ("name", "type")
_FUNCTIONS = ("ifnull", "max", "typeof")
_TOO_MANY = "it has more rows than fit into a file of its size"
_COUNTABLE = ("", "ROWID")
"""SQLite's names for the row number, and for a table without any column that is read."""


class SqliteTables(NsysTables):
    """The readable tables of an SQLite file; SQLite's authorizer denies reading any other."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        super().__init__()
        self._path = path
        self._connection = connection
        self._steps_left = 0
        self._size = path.stat().st_size + _log_size(path)
        connection.set_progress_handler(self._count_steps, _STEPS_AT_ONCE)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of all tables, readable or not."""
        return self._names_of("table")

    def distinct(self, table: str, *columns: str) -> set[tuple[int, ...]]:
        """Return the distinct combinations of numbers."""
        there = self.columns(table)
        if not there:
            return set()
        wanted = ", ".join(f'"{column}"' if column in there else "NULL" for column in columns)
        rows = self._rows(f'SELECT DISTINCT {wanted} FROM "{table}"')  # noqa: S608
        return {tuple(map(to_integer, row)) for row in rows}

    def views(self) -> tuple[str, ...]:
        """Views that have the name of a readable table; they are not read."""
        return tuple(sorted(self._names_of("view") & READABLE.keys()))

    def _names_of(self, kind: str) -> frozenset[str]:
        query = f"SELECT name FROM sqlite_master WHERE type = '{kind}'"  # noqa: S608
        return frozenset(name for (name,) in self._rows(query))

    def _all_columns(self, table: str) -> set[str]:
        if table not in self.names:
            return set()
        return {row[1] for row in self._rows(f'PRAGMA table_info("{table}")')}

    def _size_of(self, table: str) -> int:
        """Return the number of the last row."""
        try:
            [(last,)] = self._rows(f'SELECT max(rowid) FROM "{table}"')  # noqa: S608
        except TraceFormatError:  # a table may have no row numbers
            return 0
        return max(0, to_integer(last))

    def _pieces(
        self, table: str, columns: Sequence[str], process: int | None
    ) -> Iterator[tuple[ColumnBlock, int]]:
        query = f'SELECT {", ".join(map(_selected, columns))} FROM "{table}"'  # noqa: S608
        owner = owner_column(table)
        if process is not None and owner in columns:
            no_number = f"typeof(\"{owner}\") NOT IN ('integer', 'real')"
            query += f' WHERE "{owner}" >> 24 = {process} OR {no_number}'
        left = self._size // _LEAST_ROW_BYTES
        for rows in self._fetched(query):
            left -= len(rows)
            if left < 0:
                raise damaged_export(self._path, ValueError(_TOO_MANY))
            by_column = zip(columns, zip(*rows, strict=True), strict=True)
            yield {name: _column(name, values) for name, values in by_column}, len(rows)

    def _texts_of(self, ids: Iterable[int]) -> dict[int, str]:
        texts: dict[int, str] = {}
        remaining = iter(ids)
        while some := list(islice(remaining, _IDS_AT_ONCE)):
            marks = ", ".join("?" * len(some))
            query = f'SELECT "id", "value" FROM "{STRINGS}" WHERE "id" IN ({marks})'  # noqa: S608
            texts |= {key: text for key, text in self._rows(query, *some) if isinstance(text, str)}
        return texts

    def _count_steps(self) -> bool:
        self._steps_left -= _STEPS_AT_ONCE
        return self._steps_left < 0  # SQLite then interrupts the query

    def _rows(self, query: str, *values: int) -> Iterator[Any]:
        return chain.from_iterable(self._fetched(query, *values))

    def _fetched(self, query: str, *values: int) -> Iterator[list[Any]]:
        self._steps_left = _STEPS_AT_LEAST + _STEPS_PER_BYTE * self._size
        with (
            _damaged_if_unreadable(self._path),
            closing(self._connection.execute(query, values)) as cursor,
        ):
            while rows := cursor.fetchmany(_ROWS_AT_ONCE):
                yield rows


def is_sqlite(path: Path) -> bool:
    """Whether a file starts with SQLite's magic bytes."""
    return _first_bytes(path).startswith(_MAGIC)


@contextmanager
def sqlite_tables(path: Path) -> Iterator[SqliteTables]:
    """Context manager that opens an SQLite file for reading.

    SQLite's locks stay on, so that an export in progress is detected. Only a file in write-ahead
    mode with an empty log is opened without locks: SQLite would create new files next to it.

    Raises `TraceFormatError` if it cannot be read.
    """
    with _damaged_if_unreadable(path):
        connection = sqlite3.connect(_uri(path), uri=True, timeout=_LOCK_TIMEOUT_S)
    with closing(connection):
        connection.set_authorizer(_authorise)
        connection.text_factory = _decode
        yield SqliteTables(path, connection)


def _uri(path: Path) -> str:
    beginning = _first_bytes(path)
    if not beginning.startswith(_MAGIC):
        msg = "it is not an SQLite file"
        raise ValueError(msg)
    page_bytes = int.from_bytes(beginning[_PAGE_BYTES], "big")
    if path.stat().st_size % (page_bytes if page_bytes > 1 else _LARGEST_PAGE_BYTES):
        msg = "it is truncated"
        raise ValueError(msg)
    is_at_rest = beginning[_WRITE_VERSION] == _WRITE_AHEAD and not _log_size(path)
    return f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if is_at_rest else ''}"


def _log_size(path: Path) -> int:
    """Bytes in the write-ahead log next to a file."""
    log = path.with_name(f"{path.name}-wal")
    return log.stat().st_size if log.exists() else 0


def _authorise(action: int, what: str | None, detail: str | None, *_: object) -> int:
    """SQLite authorizer: allow only reading, and only the `ALLOWED` tables."""
    allowed = {
        sqlite3.SQLITE_SELECT: True,
        sqlite3.SQLITE_READ: _may_read(what or "", detail or ""),
        sqlite3.SQLITE_PRAGMA: what == "table_info" and detail in ALLOWED,
        sqlite3.SQLITE_FUNCTION: detail in _FUNCTIONS,
    }
    return sqlite3.SQLITE_OK if allowed.get(action, False) else sqlite3.SQLITE_DENY


def _may_read(table: str, column: str) -> bool:
    if table in _SCHEMA_TABLES:
        return column in _SCHEMA_COLUMNS
    return table in ALLOWED and column in (*ALLOWED[table], *_COUNTABLE)


@contextmanager
def _damaged_if_unreadable(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError, ValueError, MemoryError) as error:
        raise damaged_export(path, error) from error


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_WRITE_VERSION.stop)


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _selected(column: str) -> str:
    return f'"{column}"' if column in TEXT_COLUMNS else f'ifnull("{column}", {MISSING})'


def _column(column: str, values: tuple[Any, ...]) -> NDArray[Any]:
    if column in TEXT_COLUMNS:
        texts = [value if isinstance(value, str) else None for value in values]
        return np.fromiter(texts, dtype=object, count=len(texts))
    try:
        return np.fromiter(values, dtype=np.int64, count=len(values))
    except (TypeError, ValueError, OverflowError):
        return np.array([to_integer(value) for value in values], dtype=np.int64)
