"""Columns of any length in one memory-mapped Arrow file, opened without copying.

The file has one row, and each of its columns is a list with the values of one stored column. This
keeps every stored column contiguous in the file, whatever its length.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from hta_widgets.lazy_modules import pa
from hta_widgets.trace.model.events import TextColumn

Column = NDArray[Any] | TextColumn

_HEADER: Final = b"hta_widgets"
_CHECKSUM: Final = b"checksum"
_PAGE: Final = 2**12
_STRIDE: Final = 2**20
_TEXTS: Final = "\t\ttexts"
_TEXT_ERRORS: Final = "surrogatepass"
_NUMBERS: Mapping[str, np.dtype[Any]] = {
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
    **{
        name: np.dtype(name)
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
}
"""Types that columns may have, by their Arrow name."""


def unreadable() -> tuple[type[Exception], ...]:
    """Exceptions from reading a file that is truncated or was written by something else."""
    ours = (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError)
    return (*ours, pa.ArrowException)


def write_columns(columns: Mapping[str, pa.Array], header: Mapping[str, Any], path: Path) -> None:
    """Write columns with metadata."""
    lists = [_as_list(values) for values in columns.values()]
    text = json.dumps(header).encode()
    metadata = {_HEADER: text, _CHECKSUM: b"%d" % _checksum(text, columns.values())}
    table = pa.Table.from_arrays(lists, names=list(columns), metadata=metadata)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read_columns(path: Path) -> tuple[Any, dict[str, pa.Array]]:
    """Open a file: its metadata and columns. Raises one of `unreadable`."""
    batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
    batch.validate(full=True)
    columns = {name: _single_list(batch.column(name)) for name in batch.schema.names}
    metadata = batch.schema.metadata
    if int(metadata[_CHECKSUM]) != _checksum(metadata[_HEADER], columns.values()):
        msg = "the checksum differs"
        raise ValueError(msg)
    return _header(batch.schema), columns


def read_header(path: Path) -> Any:  # noqa: ANN401
    """Metadata of a file, without reading its columns. Raises one of `unreadable`."""
    return _header(pa.ipc.open_file(pa.memory_map(str(path))).schema)


def arrays_of(columns: Mapping[str, Column]) -> dict[str, pa.Array]:
    """Convert columns to Arrow arrays; a column of text becomes two, its codes and its texts."""
    arrays: dict[str, pa.Array] = {}
    for name, column in columns.items():
        if isinstance(column, TextColumn):
            texts = [text.encode("utf-8", _TEXT_ERRORS) for text in column.values]
            arrays |= {name: array_of(column.codes), name + _TEXTS: array_of_texts(texts)}
        else:
            arrays[name] = array_of(column)
    return arrays


def columns_of(arrays: Mapping[str, pa.Array]) -> dict[str, Any]:
    """Inverse of `arrays_of`, for columns that `read_columns` read; numbers are not copied."""
    columns: dict[str, Any] = {}
    for name, values in arrays.items():
        if not name.endswith(_TEXTS):
            numbers, texts = numbers_of(values), arrays.get(name + _TEXTS)
            columns[name] = numbers if texts is None else TextColumn(numbers, _decoded(texts))
    return columns


def _decoded(texts: pa.Array) -> tuple[str, ...]:
    return tuple(text.decode("utf-8", _TEXT_ERRORS) for text in texts.to_pylist())


def array_of(numbers: NDArray[Any]) -> pa.Array:
    """Convert numbers to an Arrow array, without pandas, which `pyarrow.array` imports."""
    content = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), numbers.size, [None, content])


def array_of_texts(texts: Sequence[bytes]) -> pa.Array:
    """Convert texts to an Arrow array, without pandas."""
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(pa.large_binary(), len(texts), buffers)


def numbers_of(values: pa.Array) -> NDArray[Any]:
    """View the numbers of an array without copying, and without pandas, which `to_numpy` imports.

    Raises `ValueError` if it is not an array of numbers, or has missing values.
    """
    if values.null_count or str(values.type) not in _NUMBERS:
        msg = f"a column of {values.type} with {values.null_count} missing values"
        raise ValueError(msg)
    dtype = _NUMBERS[str(values.type)]
    if not len(values):
        return np.frombuffer(b"\0" * dtype.itemsize, dtype)[:0]
    start = values.offset * dtype.itemsize
    return np.frombuffer(values.buffers()[1], dtype, len(values), start)


def _header(schema: pa.Schema) -> Any:  # noqa: ANN401
    return json.loads((schema.metadata or {})[_HEADER])


def _checksum(header: bytes, columns: Iterable[pa.Array]) -> int:
    """Checksum of the header, all texts, and one page in each `_STRIDE` of the numbers.

    Checking all numbers of a long trace would take longer than opening it.
    """
    sum_ = crc32(header)
    for values in columns:
        if str(values.type) in _NUMBERS:
            numbers = numbers_of(values).view(np.uint8).data
            for start in (*range(0, len(numbers), _STRIDE), max(0, len(numbers) - _PAGE)):
                sum_ = crc32(numbers[start : start + _PAGE], sum_)
        else:
            sum_ = crc32(b"\0".join(values.to_pylist()), sum_)
    return sum_


def _single_list(lists: pa.Array) -> pa.Array:
    """Values of the only list, without `flatten`, which imports `pyarrow.compute`."""
    first, end = lists.offsets.tolist()
    return lists.values.slice(first, end - first)


def _as_list(values: pa.Array) -> pa.Array:
    edges = array_of(np.array([0, len(values)], dtype=np.int64))
    return pa.LargeListArray.from_arrays(edges, values)
