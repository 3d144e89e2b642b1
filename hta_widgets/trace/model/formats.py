"""What a format of traces is; each one is described beside its loader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from hta_widgets.progress import OnRead
    from hta_widgets.trace.model.events import Trace


class Recorded(Enum):
    """What a profiler may record; the value names it in a sentence."""

    KERNELS = "kernels with names, streams and launches"
    OPERATORS = "operators"
    PROFILER_STEPS = "ProfilerSteps"
    COUNTERS = "CUPTI counters"


class FoundRank(NamedTuple):
    """The trace of one rank, as it was found.

    Attributes
    ----------
    path : Path
        Its file or folder.
    stem : str
        Name of the file or folder, without what all names of the format have.
    process : int, optional
        The process of a trace that holds several.
    devices : tuple of int
        Devices that it has work on, where that is known.
    """

    path: Path
    stem: str
    process: int | None = None
    devices: tuple[int, ...] = ()


Load: TypeAlias = "Callable[[Path, int, int | None, OnRead | None], Trace]"
Metadata: TypeAlias = Mapping[str, object]


def _one_rank(path: Path, notices: list[str]) -> list[FoundRank]:  # noqa: ARG001
    return [FoundRank(path, path.stem)]


def _nothing_to_say(path: Path) -> None:
    """Take any path."""


def _no_part(name: str) -> bool:  # noqa: ARG001
    return False


@dataclass(frozen=True)
class Format:
    """A format of traces: how it is recognised, where its ranks are, how they are loaded.

    The functions are defined at the top of modules, so that a format can be sent to workers.

    Attributes
    ----------
    name : str
        Short and lasting: the cache knows traces by it.
    noun : str
        Names one trace of it in a sentence.
    example : str
        What a trace of it looks like on disk, in a list of all formats.
    matches : callable
        Whether a path, a file or a folder, is a trace of the format, by its content.
    load : callable
        Load one rank: path, rank, process (of traces that hold several), and, optionally, what is
        called with the number of bytes read since the last call.
    find_ranks : callable
        The ranks of one trace; notices on what is missing are appended. One rank by default.
    refuse : callable
        Raises `TraceFormatError` for a path that belongs to the format and cannot be read, such
        as a recording that its own tools must export first.
    lacks : frozenset of Recorded
        What no trace of it holds of its own; NVTX ranges may make up for it.
    suffixes : tuple of str
        Endings of the names of files that may be a trace each; none where traces are folders.
    is_part : callable
        Whether a file of this name may be a part of a folder that is a trace.
    in_folders : bool
        Whether a folder of such folders is a job.
    rank_in : callable, optional
        The rank that a file says it is of, for formats whose files do. It takes the file and a
        function that returns the metadata which the beginning of the file does not hold.
    is_copy : callable, optional
        Whether hta_widgets wrote a file from another trace: it counts only where it is alone.
    """

    name: str
    noun: str
    example: str
    matches: Callable[[Path], bool]
    load: Load
    find_ranks: Callable[[Path, list[str]], list[FoundRank]] = _one_rank
    refuse: Callable[[Path], None] = _nothing_to_say
    lacks: frozenset[Recorded] = field(default_factory=frozenset)
    suffixes: tuple[str, ...] = ()
    is_part: Callable[[str], bool] = _no_part
    in_folders: bool = False
    rank_in: Callable[[Path, Callable[[], Metadata]], int | None] | None = None
    is_copy: Callable[[Path], bool] | None = None

    def __repr__(self) -> str:
        """Name only: the rest is code."""
        return f"Format({self.name!r})"
