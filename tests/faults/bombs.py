"""Small files that would take all time or memory if nothing bounded them."""

from __future__ import annotations

import lzma
import sqlite3
import struct
import zlib
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.nsys_export import KERNEL

PAGE = 4096
LEVELS = 6
MEBIBYTE = 1 << 20
ROW_GROUPS = 16


def blanks(path: Path, mebibytes: int) -> Path:
    """A gzip file of blanks: a thousandth of its text."""
    return _packed(path, b'{"traceEvents": [', b" " * MEBIBYTE, mebibytes)


def one_string(path: Path, mebibytes: int) -> Path:
    """A gzip file with one event that has a long name."""
    return _packed(path, b'{"traceEvents": [{"ph": "X", "name": "', b"n" * MEBIBYTE, mebibytes)


def opening_brackets(path: Path, mebibytes: int) -> Path:
    """A gzip file of lists in lists."""
    return _packed(path, b'{"traceEvents": [{"ph": "X", "args": ', b"[" * MEBIBYTE, mebibytes)


def equal_events(path: Path, mebibytes: int) -> Path:
    """A gzip or xz file of events that are all equal."""
    event = b'{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "args": {}},'
    events = event * (MEBIBYTE // len(event))
    if path.suffix == ".gz":
        return _packed(path, b'{"traceEvents": [', events, mebibytes, level=9)
    with lzma.open(path, "wb") as file:
        file.write(b'{"traceEvents": [')
        for _ in range(mebibytes):
            file.write(events)
    return path


def _packed(path: Path, head: bytes, block: bytes, count: int, level: int = 1) -> Path:
    packer = zlib.compressobj(level, wbits=31)
    with path.open("wb") as file:
        file.write(packer.compress(head))
        for _ in range(count):
            file.write(packer.compress(block))
        file.write(packer.flush())
    return path


def pages_in_pages(path: Path) -> Path:
    """An SQLite export whose table has pages that contain the next page hundreds of times each."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE}")
        connection.execute(f'CREATE TABLE "{KERNEL}" (start INTEGER, "end" INTEGER)')
        connection.execute(f'INSERT INTO "{KERNEL}" VALUES (1, 2)')  # noqa: S608
        connection.execute("CREATE TABLE more (x BLOB)")
        connection.executemany("INSERT INTO more VALUES (zeroblob(4000))", [()] * LEVELS * 2)
        connection.commit()
        (root,) = next(
            connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", [KERNEL])
        )
    content = bytearray(path.read_bytes())
    leaf = content[(root - 1) * PAGE : root * PAGE]
    pages = [root, *range(len(content) // PAGE - LEVELS + 1, len(content) // PAGE + 1)]
    for page, inside in pairwise(pages):
        content[(page - 1) * PAGE : page * PAGE] = _interior_page(inside)
    content[(pages[-1] - 1) * PAGE : pages[-1] * PAGE] = leaf
    path.write_bytes(content)
    return path


def _interior_page(inside: int) -> bytes:
    """A page of a table's tree that names one other page as often as there is room."""
    count = (PAGE - 12) // 7
    cells = b"".join(struct.pack(">IB", inside, 1) for _ in range(count))
    begin = PAGE - len(cells)
    pointers = b"".join(struct.pack(">H", begin + 5 * number) for number in range(count))
    header = struct.pack(">BHHHBI", 5, 0, count, begin, 0, inside)
    return (header + pointers).ljust(begin, b"\0") + cells


def rows_of_nothing(path: Path, columns: dict[str, object], rows: int) -> Path:
    """A Parquet file of equal rows, of which millions take a few bytes."""
    group = rows // ROW_GROUPS
    table = pa.table({name: pa.repeat(value, group) for name, value in columns.items()})
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(ROW_GROUPS):
            writer.write_table(table, row_group_size=group)
    return path


def one_long_text(path: Path, name: str, rows: int, **columns: pa.Array) -> Path:
    """A Parquet file with a text of 1 MiB in every row, which it holds once."""
    codes = pa.array([0] * rows, pa.int32())
    texts = pa.DictionaryArray.from_arrays(codes, pa.array(["n" * MEBIBYTE]))
    table = pa.table({**columns, name: texts})
    pq.write_table(table, path, store_schema=False, compression="zstd")
    return path
