"""Columns that are derived from a rank, kept in files next to the rank's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.atomic_write import atomic_write
from hta_widgets.trace.cache.code_version import DERIVING, code_version
from hta_widgets.trace.cache.column_file import (
    Column,
    array_of_texts,
    arrays_of,
    columns_of,
    read_columns,
    unreadable,
    write_columns,
)
from hta_widgets.trace.cache.files import SUFFIX

if TYPE_CHECKING:
    import pyarrow as pa

Columns = Mapping[str, NDArray[Any]]

WORTH_KEEPING: Final = 2**20
"""Smallest columns (bytes) that are kept; deriving smaller ones again is as fast."""


class DerivedColumnCache(NamedTuple):
    """The files of columns derived from one rank."""

    folder: Path
    """Folder of the rank's own file."""
    stem: str
    """Common start of the names of the rank's files."""
    key: str
    """Key that the rank's own file was written with."""

    def read(self, name: str) -> dict[str, Any] | None:
        """Memory-map the columns kept under a name; None if there are none that are usable."""
        file = self._file(name)
        try:
            if not file.exists():
                return None
            header, arrays = read_columns(file)
            if header["key"] != self._key(name) or header["columns"] != _shape(arrays):
                return None
            return columns_of(arrays)
        except unreadable():
            return None

    def write(self, name: str, columns: Mapping[str, Column]) -> None:
        """Keep columns under a name if they are large; failures are ignored."""
        if any(getattr(column, "dtype", None) == np.object_ for column in columns.values()):
            return
        arrays = arrays_of(columns)
        if sum(values.nbytes for values in arrays.values()) < WORTH_KEEPING:
            return
        with suppress(OSError), atomic_write(self._file(name), private=True) as partial:
            write_columns(arrays, {"key": self._key(name), "columns": _shape(arrays)}, partial)

    def read_text(self, name: str, made_of: str) -> bytes:
        """The text that `write_text` kept; empty if there is none that is usable."""
        with suppress(*unreadable()):
            header, arrays = read_columns(self._file(name))
            if header["key"] == self._key(f"{name}; {made_of}"):
                return bytes(arrays["text"][0].as_py())
        return b""

    def write_text(self, name: str, made_of: str, text: str) -> None:
        """Keep a text under a name; it can be read while `made_of` is the same."""
        header = {"key": self._key(f"{name}; {made_of}")}
        with suppress(OSError), atomic_write(self._file(name), private=True) as partial:
            write_columns({"text": array_of_texts([text.encode()])}, header, partial)

    def _key(self, name: str) -> str:
        """Everything that the columns depend on."""
        rank = json.loads(self.key)
        return json.dumps({**rank, "derived": name, "by": code_version(DERIVING)}, sort_keys=True)

    def _file(self, name: str) -> Path:
        return self.folder / f"{self.stem}-{sha256(name.encode()).hexdigest()[:16]}{SUFFIX}"


def _shape(arrays: Mapping[str, pa.Array]) -> dict[str, list[Any]]:
    """Type and length of each column."""
    return {name: [str(values.type), len(values)] for name, values in arrays.items()}
