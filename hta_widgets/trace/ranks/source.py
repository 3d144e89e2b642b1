"""Where the trace of one rank is, and how to read it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hta_widgets.errors import TraceFormatError
from hta_widgets.progress import OnRead
from hta_widgets.trace.loaders.kineto.format import KINETO
from hta_widgets.trace.model.events import Trace
from hta_widgets.trace.model.formats import Format
from hta_widgets.trace.remote.copies import Origin, named_by_url


@dataclass(frozen=True)
class RankSource:
    """The trace of one rank.

    Attributes
    ----------
    path : Path
        A file, or the folder of an export that is a folder.
    format : Format
    process : int, optional
        The process of an export that holds several.
    origin : Origin, optional
        Where `path` was fetched from, if it was.
    """

    path: Path
    format: Format = KINETO
    process: int | None = None
    origin: Origin | None = None

    @property
    def name(self) -> str:
        """What to call it: its path, or the URL that it was fetched from."""
        return str(self.path) if self.origin is None else self.origin.name

    @property
    def folder_name(self) -> str:
        """What to call the folder that it is in."""
        return self.path.resolve().parent.name if self.origin is None else self.origin.folder

    def here(self, *, progress: bool = False) -> RankSource:
        """Return it with a path that exists on this machine, fetching it where it does not."""
        if self.origin is None or self.origin.is_at(self.path):
            return self
        return replace(self, path=self.origin.fetch(self.path, progress=progress))

    def drop_copy(self) -> None:
        """Remove the file if it was fetched, for this rank alone; it can be fetched again."""
        if self.origin is not None and self.format == KINETO:
            with suppress(OSError):
                self.path.unlink()

    @property
    def size(self) -> int:
        """Bytes of the file, or of all files of the folder."""
        if self.origin is not None:
            return self.origin.size
        if not self.path.is_dir():
            return self.path.stat().st_size
        return sum(file.stat().st_size for file in self.path.iterdir() if file.is_file())

    @property
    def kineto_file(self) -> Path:
        """The file, where it can be written again with something added.

        Raises
        ------
        TraceFormatError
            If it is no PyTorch-profiler trace.
        """
        if self.format == KINETO:
            return self.here().path
        msg = (
            f"{self.name} is {self.format.noun}; only PyTorch-profiler traces can be copied "
            "with events added"
        )
        raise TraceFormatError(msg)

    def load(self, rank: int, on_read: OnRead | None = None) -> Trace:
        """Load the trace.

        Parameters
        ----------
        rank : int
        on_read : callable, optional
            Called with the number of bytes read since the last call.

        Raises
        ------
        TraceFormatError
            If the file or folder is not of the format.
        """
        if self.origin is None:
            return self._load(rank, on_read)
        try:
            trace = self._load_copy(rank, on_read)
        except FileNotFoundError:  # another process dropped the copy meanwhile
            trace = self._load_copy(rank, on_read)
        return replace(trace, source=self.name)

    def _load_copy(self, rank: int, on_read: OnRead | None) -> Trace:
        source = self.here()
        with named_by_url({source.path: self.name}):
            return source._load(rank, on_read)  # noqa: SLF001  # another of its own

    def _load(self, rank: int, on_read: OnRead | None) -> Trace:
        return self.format.load(self.path, rank, self.process, on_read)
