"""State of a trace's files: what shows whether they have changed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from hta_widgets.errors import TraceChangedError, TraceNotFoundError

_TRAILER_BYTES: Final = 8


class LocalFileState(NamedTuple):
    """Name, size, modification time and last bytes, which are the checksum of a gzip file."""

    name: str
    size: int
    changed_ns: int
    trailer: str

    @classmethod
    def of(cls, file: Path) -> LocalFileState:
        """State of a file now."""
        state = file.stat()
        with file.open("rb") as content:
            content.seek(-min(_TRAILER_BYTES, state.st_size), os.SEEK_END)
            return cls(file.name, state.st_size, state.st_mtime_ns, content.read().hex())


def file_states(path: Path) -> tuple[LocalFileState, ...]:
    """States of a file, or of the files in a folder."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return tuple(LocalFileState.of(file) for file in files if file.is_file())


def require_unchanged(path: Path, states: Iterable[LocalFileState]) -> None:
    """Refuse a file, or a folder of files, that has changed.

    Files that are new in a folder are not of the trace.

    Raises
    ------
    TraceNotFoundError
        If a file does not exist any more.
    TraceChangedError
        If it is another one.
    """
    for then in states:
        file = path / then.name if path.is_dir() else path
        if not file.is_file():
            msg = f"{file} no longer exists; open the job again"
            raise TraceNotFoundError(msg)
        if LocalFileState.of(file) != then:
            msg = f"{file} has changed since the job was opened; open the job again"
            raise TraceChangedError(msg)
