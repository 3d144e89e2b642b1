"""The trace of one rank: its location, how to load it, and whether it has changed since."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from hta_widgets.errors import (
    HtaWidgetsError,
    TraceChangedError,
    TraceFormatError,
    TraceNotFoundError,
    UnreadableError,
    os_errors_as_ours,
)
from hta_widgets.progress import OnRead
from hta_widgets.trace.loaders.kineto.format import KINETO
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.model.events import SideTable, Trace
from hta_widgets.trace.model.formats import Format
from hta_widgets.trace.model.health.wrong_events import without_wrong_events
from hta_widgets.trace.remote.copies import RemoteSource, urls_in_errors

_TRAILER_BYTES: Final = 8


class LocalFileState(NamedTuple):
    """Name, size, modification time and last bytes (in a gzip file, its checksum)."""

    name: str
    size: int
    changed_ns: int
    trailer: str

    @classmethod
    def of(cls, file: Path) -> LocalFileState:
        """Current state of a file."""
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

    New files in a folder do not belong to the trace.

    Raises `TraceNotFoundError` if a file no longer exists and `TraceChangedError` if it has
    changed.
    """
    for then in states:
        file = path / then.name if path.is_dir() else path
        if not file.is_file():
            msg = f"{file} no longer exists; open the job again"
            raise TraceNotFoundError(msg)
        if LocalFileState.of(file) != then:
            msg = f"{file} has changed since the job was opened; open the job again"
            raise TraceChangedError(msg)


@dataclass(frozen=True)
class RankSource:
    """The trace of one rank."""

    path: Path
    """A file, or a folder for formats whose traces are folders."""
    format: Format = KINETO
    process: int | None = None
    """The process, in an export with several."""
    remote: RemoteSource | None = None
    """The URL that `path` is a copy of, if it is one."""
    files: tuple[LocalFileState, ...] = ()
    """The files of a local trace when the job was opened; if empty, any state is accepted."""
    captures: tuple[RankSource, ...] = ()
    """Recordings of the captures of the graphs that the trace replays."""
    captures_given: bool = False
    """Whether the user named the captures, which may then also be matched by order alone."""
    first_step: int = 0
    """Number of the first step of a server, if the recording of another rank started earlier."""

    @property
    def name(self) -> str:
        """The path, or the URL that it is a copy of, for display."""
        return str(self.path) if self.remote is None else self.remote.name

    @property
    def folder_name(self) -> str:
        """Name of the folder that contains it, or the URL of that folder, for display."""
        return self.path.resolve().parent.name if self.remote is None else self.remote.folder

    def as_opened(self) -> RankSource:
        """Return the source with the state of its files, which are refused once they change."""
        return self if self.remote is not None else replace(self, files=file_states(self.path))

    @property
    def is_as_opened(self) -> bool:
        """Whether its files are here, and known not to have changed since the job was opened."""
        if not self.files:
            return False
        with suppress(HtaWidgetsError, OSError):
            require_unchanged(self.path, self.files)
            return True
        return False

    def fetch(self, *, progress: bool = False) -> RankSource:
        """Return the source with a path on this machine, fetching the trace if necessary.

        Raises `TraceNotFoundError` or `TraceChangedError` if the trace is not the one that was
        opened.
        """
        with os_errors_as_ours(self.path):
            require_unchanged(self.path, self.files)
        if self.remote is None or self.remote.has_copy_at(self.path):
            return self
        return replace(self, path=self.remote.fetch(self.path, progress=progress))

    def drop_copy(self) -> None:
        """Remove a fetched file that only this rank uses; it can be fetched again."""
        if self.remote is not None and self.format == KINETO:
            with suppress(OSError):
                self.path.unlink()

    @property
    def size(self) -> int:
        """Bytes of the file, or of all files of the folder."""
        if self.remote is not None:
            return self.remote.size
        if not self.path.is_dir():
            return self.path.stat().st_size
        return sum(file.stat().st_size for file in self.path.iterdir() if file.is_file())

    @property
    def kineto_file(self) -> Path:
        """The file, for writing a copy with added events.

        Raises `TraceFormatError` if it is not a PyTorch-profiler trace.
        """
        if self.format == KINETO:
            return self.fetch().path
        msg = (
            f"{self.name} is {self.format.noun}; only PyTorch-profiler traces can be copied "
            "with added events"
        )
        raise TraceFormatError(msg)

    def load(self, rank: int, on_read: OnRead | None = None) -> Trace:
        """Load the trace; `on_read` is called with the number of bytes read since the last call.

        Raises `TraceFormatError` if the file or folder is not of the format, and
        `TraceNotFoundError` or `TraceChangedError` if the trace is not the one that was opened.
        """
        if self.remote is None:
            require_unchanged(self.path, self.files)
            trace = self._load(rank, on_read)
            require_unchanged(self.path, self.files)
            return trace
        try:
            trace = self._load_copy(rank, on_read)
        except UnreadableError:  # another process dropped the copy meanwhile
            trace = self._load_copy(rank, on_read)
        return replace(trace, source=self.name)

    def details(self, trace: Trace, group: DetailGroup) -> SideTable:
        """Read fields that loading leaves out, from the same files.

        Raises `TraceFormatError` if the format has none and `TraceNotFoundError` or
        `TraceChangedError` if the trace is not the one that was opened.
        """
        if self.format.details is None:
            msg = f"{self.format.noun} has no {group.value}"
            raise TraceFormatError(msg)
        source = self.fetch()
        with urls_in_errors({source.path: self.name}), os_errors_as_ours(source.path):
            found = self.format.details(source.path, trace, self.process, group)
        require_unchanged(self.path, self.files)
        return found

    def _load_copy(self, rank: int, on_read: OnRead | None) -> Trace:
        source = self.fetch()
        with urls_in_errors({source.path: self.name}):
            return source._load(rank, on_read)  # noqa: SLF001  # of the same class

    def _load(self, rank: int, on_read: OnRead | None) -> Trace:
        with os_errors_as_ours(self.path):
            return without_wrong_events(self.format.load(self.path, rank, self.process, on_read))
