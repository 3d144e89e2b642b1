"""Where the trace of one rank is, and how to read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hta_widgets.errors import TraceFormatError
from hta_widgets.trace.cupti_csv import load_cupti_csv
from hta_widgets.trace.events import Trace
from hta_widgets.trace.formats import TraceFormat
from hta_widgets.trace.kineto import load_kineto
from hta_widgets.trace.nsys import load_nsys
from hta_widgets.trace.nsys_recipe import load_nsys_recipe

OnRead = Callable[[int], object]


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
    """

    path: Path
    format: TraceFormat = TraceFormat.KINETO
    process: int | None = None

    @property
    def size(self) -> int:
        """Bytes of the file, or of all files of the folder."""
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
            return self.path
        msg = (
            f"{self.path} is {self.format.value}; only PyTorch-profiler traces can be written "
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
        if self.format is TraceFormat.NSYS:
            return load_nsys(self.path, rank, self.process, on_read)
        return _LOADERS[self.format](self.path, rank, on_read)


_LOADERS: dict[TraceFormat, Callable[[Path, int, OnRead | None], Trace]] = {
    TraceFormat.KINETO: load_kineto,
    TraceFormat.NSYS_RECIPE: load_nsys_recipe,
    TraceFormat.CUPTI_CSV: load_cupti_csv,
}
