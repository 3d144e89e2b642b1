"""Read the tables of an Nsight Systems export that is a folder of Parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Int64Array
from hta_widgets.lazy_modules import pa, pq
from hta_widgets.trace.loaders.columns import ColumnBlock
from hta_widgets.trace.loaders.nsys.tables import (
    MISSING,
    READABLE,
    STRINGS,
    TEXT_COLUMNS,
    NsysTables,
    damaged_export,
    owner_column,
    process_of,
    to_integer,
)
from hta_widgets.trace.loaders.parquet_texts import TextBudget, is_text, opened_parquet

_ROWS_AT_ONCE = 65536
_ROWS_AT_LEAST, _ROWS_PER_BYTE = 2**20, 8
"""Files with more rows are refused: compressed, any number of rows can take a few bytes."""


class ParquetTables(NsysTables):
    """The readable tables of a folder with one Parquet file per table; no other file is opened."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def distinct(self, table: str, *columns: str) -> set[tuple[int, ...]]:
        """Return the distinct combinations of numbers."""
        there = [column for column in columns if column in self.columns(table)]
        combinations: set[tuple[int, ...]] = set()
        for found, size in self._pieces(table, there) if there else ():
            missing = np.full(size, MISSING)
            values = np.stack([found.get(column, missing) for column in columns], axis=1)
            combinations.update(map(tuple, np.unique(values, axis=0).tolist()))
        return combinations

    def views(self) -> tuple[str, ...]:
        """Views that have the name of a readable table: there are none among files."""
        return ()

    def _all_columns(self, table: str) -> list[str]:
        if not self._file(table).is_file():
            return []
        with self._open(table) as file:
            names: list[str] = file.schema_arrow.names
            return names

    def _size_of(self, table: str) -> int:
        with self._open(table) as file:
            return int(file.metadata.num_rows)

    def _texts_of(self, ids: Iterable[int]) -> dict[int, str]:
        wanted = np.fromiter(ids, dtype=np.int64)
        texts: dict[int, str] = {}
        for batch in self._batches(STRINGS, READABLE[STRINGS]):
            keys = _numbers(batch.column("id"))
            rows = np.flatnonzero(np.isin(keys, wanted))
            values = _texts(batch.column("value").take(pa.array(rows)))
            pairs = zip(keys[rows].tolist(), values, strict=True)
            texts |= {key: text for key, text in pairs if text is not None}
        return texts

    def _pieces(
        self, table: str, columns: Sequence[str], process: int | None = None
    ) -> Iterator[tuple[ColumnBlock, int]]:
        owner = owner_column(table)
        for batch in self._batches(table, columns):
            piece = {name: _column(name, batch.column(name)) for name in columns}
            size = batch.num_rows
            if process is not None and owner in piece:
                owners = piece[owner]
                rows = np.flatnonzero((owners == MISSING) | (process_of(owners) == process))
                piece, size = {name: values[rows] for name, values in piece.items()}, rows.size
            yield piece, size

    def _batches(self, table: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with self._open(table) as file:
            budget = TextBudget(self._file(table))
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=list(columns)):
                for column in batch.columns:
                    budget.spend(column)
                yield batch

    @contextmanager
    def _open(self, table: str) -> Iterator[pq.ParquetFile]:
        path = self._file(table)
        try:
            with opened_parquet(path, TEXT_COLUMNS) as file:
                _require_few_rows(file, path.stat().st_size)
                yield file
        except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError) as error:
            raise damaged_export(path, error) from error

    def _file(self, table: str) -> Path:
        return self._folder / f"{table}.parquet"


def _require_few_rows(file: pq.ParquetFile, size: int) -> None:
    rows = file.metadata.num_rows
    if rows > _ROWS_AT_LEAST + _ROWS_PER_BYTE * size:
        msg = f"it has {rows:,} rows in {size:,} bytes"
        raise ValueError(msg)


def _column(name: str, values: pa.Array) -> NDArray[Any]:
    if name not in TEXT_COLUMNS:
        return _numbers(values)
    texts = _texts(values)
    return np.fromiter(texts, dtype=object, count=len(texts))


def _numbers(values: pa.Array) -> Int64Array:
    """Integers of any width, signed or unsigned; other types are converted value by value."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not pa.types.is_integer(values.type):
        others = _texts(values) if is_text(values.type) else values.to_pylist()
        return np.array([to_integer(value) for value in others], dtype=np.int64)
    filled = values.fill_null(0).to_numpy(zero_copy_only=False)
    numbers: Int64Array = filled.astype(np.int64)
    numbers[values.is_null().to_numpy(zero_copy_only=False)] = MISSING
    return numbers


def _texts(values: pa.Array) -> list[str | None]:
    """Decoded texts, with invalid UTF-8 replaced; None for values that are not text."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not is_text(values.type):
        return [None] * len(values)
    raw = values.cast(pa.large_binary()).to_pylist()
    return [None if text is None else text.decode("utf-8", "replace") for text in raw]
