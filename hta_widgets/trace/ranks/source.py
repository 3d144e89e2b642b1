"""Where the trace of one rank is, and how to read it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hta_widgets.errors import TraceFormatError
from hta_widgets.lazy_modules import LazyModule
from hta_widgets.progress import OnRead
from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.model.events import Trace
from hta_widgets.trace.model.formats import TraceFormat
from hta_widgets.trace.remote.copies import Origin, named_by_url

if TYPE_CHECKING:
    from hta_widgets.trace.loaders.cupti import load as cupti_csv
    from hta_widgets.trace.loaders.nsys import load as nsys
    from hta_widgets.trace.loaders.nsys import overlap_recipe as nsys_recipe
else:  # a worker begins sooner without the loaders that it does not need
    cupti_csv, nsys, nsys_recipe = (
        LazyModule(f"hta_widgets.trace.loaders.{name}")
        for name in ("cupti.load", "nsys.load", "nsys.overlap_recipe")
    )


@dataclass(frozen=True)
class RankSource:
    """The trace of one rank.

    Attributes
    ----------
    path : Path
        A file, or the folder of an export that is a folder.
    format : TraceFormat
    process : int, optional
        The process of an export that holds several.
    origin : Origin, optional
        Where `path` was fetched from, if it was.
    """

    path: Path
    format: TraceFormat = TraceFormat.KINETO
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
        if self.origin is not None and self.format is TraceFormat.KINETO:
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
        if self.format is TraceFormat.KINETO:
            return self.here().path
        msg = (
            f"{self.name} is {self.format.value}; only PyTorch-profiler traces can be written "
            "again with something added"
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
        match self.format:
            case TraceFormat.NSYS:
                return nsys.load_nsys(self.path, rank, self.process, on_read)
            case TraceFormat.NSYS_RECIPE:
                return nsys_recipe.load_nsys_recipe(self.path, rank, on_read)
            case TraceFormat.CUPTI_CSV:
                return cupti_csv.load_cupti_csv(self.path, rank, on_read)
        return load_kineto(self.path, rank, on_read)
