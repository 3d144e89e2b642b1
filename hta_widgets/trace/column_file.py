"""Columns of any length in one Arrow file that is opened by memory map, without copying any.

The file has one row; each of its columns is a list as long as a column that it holds. So each of
them lies in one piece.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hta_widgets.lazy_modules import LazyModule

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = LazyModule("pyarrow")

_HEADER: Final = b"hta_widgets"


def unreadable() -> tuple[type[Exception], ...]:
    """What reading a file raises that was cut off, or that something else wrote."""
    ours = (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError)
    return (*ours, pa.ArrowException)


def write_columns(columns: Mapping[str, pa.Array], header: Mapping[str, Any], path: Path) -> None:
    """Write columns, and what is to be said of them."""
    table = pa.table({name: _as_list(values) for name, values in columns.items()})
    table = table.replace_schema_metadata({_HEADER: json.dumps(header).encode()})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read_columns(path: Path) -> tuple[Any, dict[str, pa.Array]]:
    """Open a file: what is said of its columns, and the columns.

    Raises
    ------
    Exception
        One of `unreadable`.
    """
    batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
    batch.validate(full=True)
    columns = {name: batch.column(name).flatten() for name in batch.schema.names}
    return _header(batch.schema), columns


def read_header(path: Path) -> Any:  # noqa: ANN401
    """What is said of the columns of a file; they are not read.

    Raises
    ------
    Exception
        One of `unreadable`.
    """
    return _header(pa.ipc.open_file(pa.memory_map(str(path))).schema)


def _header(schema: pa.Schema) -> Any:  # noqa: ANN401
    return json.loads((schema.metadata or {})[_HEADER])


def _as_list(values: pa.Array) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)
