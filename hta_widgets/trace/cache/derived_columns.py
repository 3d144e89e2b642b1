"""What was derived from a rank, kept beside the rank's file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.trace.cache.column_file import (
    array_of,
    numbers_of,
    read_columns,
    unreadable,
    write_columns,
)
from hta_widgets.trace.cache.files import SUFFIX, appearing_when_whole, stem_of

Columns = Mapping[str, NDArray[Any]]

WORTH_KEEPING: Final = 2**20
"""Bytes of columns below which deriving them again is as fast."""


class Shelf(NamedTuple):
    """Place for columns that are derived from one rank.

    Attributes
    ----------
    folder : Path
        Where the rank's own file lies.
    key : str
        What that file was written under.
    """

    folder: Path
    key: str

    def read(self, name: str) -> dict[str, NDArray[Any]] | None:
        """Open what was kept under a name, by memory map; None where there is nothing usable."""
        file = self._file(name)
        if not file.exists():
            return None
        try:
            header, columns = read_columns(file)
            if header["key"] != self._key(name):
                return None
            return {name: numbers_of(values) for name, values in columns.items()}
        except unreadable():
            return None

    def write(self, name: str, columns: Columns) -> None:
        """Keep columns of numbers under a name, if they are many; failing to is no error."""
        if sum(column.nbytes for column in columns.values()) < WORTH_KEEPING:
            return
        if any(column.dtype == np.object_ for column in columns.values()):
            return
        arrays = {name: array_of(column) for name, column in columns.items()}
        with suppress(OSError), appearing_when_whole(self._file(name)) as partial:
            write_columns(arrays, {"key": self._key(name)}, partial)

    def _key(self, name: str) -> str:
        return json.dumps({**json.loads(self.key), "derived": name}, sort_keys=True)

    def _file(self, name: str) -> Path:
        derived = sha256(f"{self.key} {name}".encode()).hexdigest()[:16]
        return self.folder / f"{stem_of(self.key)}-{derived}{SUFFIX}"


class Derivations(NamedTuple):
    """Derives columns that no parameter changes, and keeps them where the rank is in the cache.

    Attributes
    ----------
    shelf : Shelf, optional
        Where to keep them; they are built each time when there is none.
    settings : str
        What they depend on besides the rank, in words.
    """

    shelf: Shelf | None = None
    settings: str = ""

    def __call__(self, name: str, build: Callable[[], Columns]) -> Columns:
        """Return the columns of a name: those that were kept, or what `build` returns."""
        if self.shelf is None:
            return build()
        kept_as = f"{name}; {self.settings}"
        columns: Columns | None = self.shelf.read(kept_as)
        if columns is None:
            columns = build()
            self.shelf.write(kept_as, columns)
        return columns

    def within(self, part: str) -> Derivations:
        """Derive of a part of the rank, and keep it under names of its own."""
        return self._replace(settings=f"{part}, {self.settings}")
