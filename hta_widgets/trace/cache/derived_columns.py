"""Columns that are derived from a rank, kept in files next to the rank's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.atomic_write import atomic_write
from hta_widgets.trace.cache.code_version import DERIVING, code_version
from hta_widgets.trace.cache.column_file import (
    array_of,
    array_of_texts,
    numbers_of,
    read_columns,
    unreadable,
    write_columns,
)
from hta_widgets.trace.cache.files import SUFFIX

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

    def read(self, name: str) -> dict[str, NDArray[Any]] | None:
        """Memory-map the columns kept under a name; None if there are none that are usable."""
        file = self._file(name)
        try:
            if not file.exists():
                return None
            header, arrays = read_columns(file)
            if header["key"] != self._key(name):
                return None
            columns = {name: numbers_of(values) for name, values in arrays.items()}
            return columns if header["columns"] == _shape(columns) else None
        except unreadable():
            return None

    def write(self, name: str, columns: Columns) -> None:
        """Keep columns of numbers under a name if they are large; failures are ignored."""
        if sum(column.nbytes for column in columns.values()) < WORTH_KEEPING:
            return
        if any(column.dtype == np.object_ for column in columns.values()):
            return
        arrays = {name: array_of(column) for name, column in columns.items()}
        with suppress(OSError), atomic_write(self._file(name), private=True) as partial:
            write_columns(arrays, {"key": self._key(name), "columns": _shape(columns)}, partial)

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


def _shape(columns: Columns) -> dict[str, list[Any]]:
    """Type and length of each column."""
    return {name: [str(column.dtype), column.size] for name, column in columns.items()}
