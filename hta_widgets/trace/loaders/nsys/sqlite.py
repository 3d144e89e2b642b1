"""Read the tables of an Nsight Systems export that is an SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hta_widgets.trace.loaders.columns import Columns
from hta_widgets.trace.loaders.nsys.tables import (
    MISSING,
    READABLE,
    STRINGS,
    TEXT_COLUMNS,
    damaged,
    integer,
    missing_column,
    owner_column,
)

_MAGIC = b"SQLite format 3\x00"
_PAGE_BYTES = slice(16, 18)
_LARGEST_PAGE_BYTES = 2**16
"""A size of page that does not fit into its two bytes: 1 stands for it."""

_WRITE_VERSION = slice(18, 19)
_WRITE_AHEAD = b"\x02"
_PATIENCE_S = 1.0
"""How long to wait for another program to end its writing."""

_ROWS_AT_ONCE = 4096
_IDS_AT_ONCE = 500
_SCHEMA_TABLES = ("sqlite_master", "sqlite_schema")
_SCHEMA_COLUMNS = ("name", "type")
_FUNCTIONS = ("ifnull", "max")
_COUNTABLE = ("", "ROWID")
"""As what SQLite knows the number of a row, and a table of which no column is read."""


class SqliteTables:
    """The readable tables of an SQLite file; SQLite itself refuses to read any other."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        self._columns: dict[str, tuple[str, ...]] = {}

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of all tables, readable or not."""
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        return frozenset(name for (name,) in self._rows(query))

    def columns(self, table: str) -> tuple[str, ...]:
        """Those columns of `READABLE` that are there; none where the table is not."""
        if table not in self.names:
            return ()
        if table not in self._columns:
            there = {row[1] for row in self._rows(f'PRAGMA table_info("{table}")')}
            self._columns[table] = tuple(name for name in READABLE[table] if name in there)
        return self._columns[table]

    def size(self, table: str) -> int:
        """Return about how many rows a table has: the number of its last row."""
        if not self.columns(table):
            return 0
        [(last,)] = self._rows(f'SELECT max(rowid) FROM "{table}"')  # noqa: S608
        return max(0, integer(last))

    def chunks(self, table: str, process: int | None = None) -> Iterator[Columns]:
        """Yield the rows in pieces, with all columns of `READABLE`, whether they are there or not.

        Numbers are int64 (`MISSING` where there is none), texts are objects, str or None. With a
        process, its rows and those that name none.
        """
        there = self.columns(table)
        if not there:
            return
        query = f'SELECT {", ".join(map(_selected, there))} FROM "{table}"'  # noqa: S608
        owner = owner_column(table)
        if process is not None and owner in there:
            query += f' WHERE "{owner}" >> 24 = {process} OR "{owner}" IS NULL'
        for rows in self._pieces(query):
            found = dict(zip(there, zip(*rows, strict=True), strict=True))
            yield {
                column: _column(column, found[column])
                if column in found
                else missing_column(table, column, len(rows), process)
                for column in READABLE[table]
            }

    def distinct(self, table: str, *columns: str) -> set[tuple[int, ...]]:
        """Return the combinations of numbers that occur."""
        there = self.columns(table)
        if not there:
            return set()
        wanted = ", ".join(f'"{column}"' if column in there else "NULL" for column in columns)
        rows = self._rows(f'SELECT DISTINCT {wanted} FROM "{table}"')  # noqa: S608
        return {tuple(map(integer, row)) for row in rows}

    def strings(self, ids: Iterable[int]) -> dict[int, str]:
        """Texts of the given ids, as far as there are any."""
        if len(self.columns(STRINGS)) < len(READABLE[STRINGS]):
            return {}
        texts: dict[int, str] = {}
        remaining = iter(ids)
        while some := list(islice(remaining, _IDS_AT_ONCE)):
            marks = ", ".join("?" * len(some))
            query = f'SELECT "id", "value" FROM "{STRINGS}" WHERE "id" IN ({marks})'  # noqa: S608
            texts |= {key: text for key, text in self._rows(query, *some) if isinstance(text, str)}
        return texts

    def _rows(self, query: str, *values: int) -> Iterator[Any]:
        return chain.from_iterable(self._pieces(query, *values))

    def _pieces(self, query: str, *values: int) -> Iterator[list[Any]]:
        with _readable(self._path), closing(self._connection.execute(query, values)) as cursor:
            while rows := cursor.fetchmany(_ROWS_AT_ONCE):
                yield rows


def is_sqlite(path: Path) -> bool:
    """Tell whether a file begins as SQLite files do."""
    return _beginning(path).startswith(_MAGIC)


@contextmanager
def sqlite_tables(path: Path) -> Iterator[SqliteTables]:
    """Open an SQLite file for reading, as long as the context lasts.

    The locks of SQLite stay on, so that an export under way is noticed. Only a file in write-ahead
    mode whose log is empty is opened without: SQLite would make new files beside it.

    Raises
    ------
    TraceFormatError
        If it cannot be read.
    """
    with _readable(path):
        connection = sqlite3.connect(_uri(path), uri=True, timeout=_PATIENCE_S)
    with closing(connection):
        connection.set_authorizer(_authorise)
        connection.text_factory = _decoded
        yield SqliteTables(path, connection)


def _uri(path: Path) -> str:
    beginning = _beginning(path)
    if not beginning.startswith(_MAGIC):
        msg = "it is not an SQLite file"
        raise ValueError(msg)
    page_bytes = int.from_bytes(beginning[_PAGE_BYTES], "big")
    if path.stat().st_size % (page_bytes if page_bytes > 1 else _LARGEST_PAGE_BYTES):
        msg = "it is truncated"
        raise ValueError(msg)
    log = path.with_name(f"{path.name}-wal")
    is_logged = log.exists() and log.stat().st_size > 0
    is_at_rest = beginning[_WRITE_VERSION] == _WRITE_AHEAD and not is_logged
    return f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if is_at_rest else ''}"


def _authorise(action: int, what: str | None, detail: str | None, *_: object) -> int:
    """Tell SQLite whether a statement may do something: only read what is `READABLE`."""
    allowed = {
        sqlite3.SQLITE_SELECT: True,
        sqlite3.SQLITE_READ: _may_read(what or "", detail or ""),
        sqlite3.SQLITE_PRAGMA: what == "table_info" and detail in READABLE,
        sqlite3.SQLITE_FUNCTION: detail in _FUNCTIONS,
    }
    return sqlite3.SQLITE_OK if allowed.get(action, False) else sqlite3.SQLITE_DENY


def _may_read(table: str, column: str) -> bool:
    if table in _SCHEMA_TABLES:
        return column in _SCHEMA_COLUMNS
    return table in READABLE and column in (*READABLE[table], *_COUNTABLE)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError, ValueError, MemoryError) as error:
        raise damaged(path, error) from error


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_WRITE_VERSION.stop)


def _decoded(text: bytes) -> str:
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
        return np.array([integer(value) for value in values], dtype=np.int64)
