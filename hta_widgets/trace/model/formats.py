"""Description of a trace format; each format is defined next to its loader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from hta_widgets.progress import OnRead
    from hta_widgets.trace.model.details import DetailGroup
    from hta_widgets.trace.model.events import SideTable, Trace


UNPROFILED_STEP: Final = "unprofiledStepNanoseconds"
"""Key beside the events of a Kineto file: mean length of the steps before the profiler ran, which
`hta_widgets.profile` measures."""

LOST_WORK: Final = "recorderLostGpuWork"
"""Key of the metadata: what a recorder says of GPU work that it may have lost."""

RANK_LIMIT: Final = 2**31
"""Ranks are below; a greater number is something else, such as a time."""


class Recorded(Enum):
    """What a profiler can record; the value is its name in messages."""

    KERNELS = "kernels with names, streams and launches"
    OPERATORS = "operators"
    PROFILER_STEPS = "ProfilerSteps"
    COUNTERS = "CUPTI counters"
    MEMORY = "memory events"


class FoundRank(NamedTuple):
    """The trace of one rank that was found, before its rank is known."""

    path: Path
    """File or folder."""
    stem: str
    """Name of the file or folder, without the prefix and suffix of the format."""
    process: int | None = None
    """The process, in a trace with several."""
    devices: tuple[int, ...] = ()
    """Devices with work, if known."""


class Stated(NamedTuple):
    """What the first bytes of a file, or its metadata, state of where and when it was recorded."""

    rank: int | None = None
    world_size: int | None = None
    """Number of ranks of the job."""
    process: int | None = None
    """Id that the system gave to the recorded process."""
    start_ns: int | None = None
    """Start of an early event (ns), to a microsecond or so."""
    is_since_epoch: bool = False
    """Whether `start_ns` counts from 1970; else from a zero that is the same for all recordings of
    a process."""
    step: int | None = None
    """Number of an early ProfilerStep."""


Load: TypeAlias = "Callable[[Path, int, int | None, OnRead | None], Trace]"
ReadDetails: TypeAlias = "Callable[[Path, Trace, int | None, DetailGroup], SideTable]"
Metadata: TypeAlias = Mapping[str, object]


def _one_rank(path: Path, notices: list[str]) -> list[FoundRank]:  # noqa: ARG001
    return [FoundRank(path, path.stem)]


def _accept_any(path: Path) -> None:
    """Accept any path."""


def _never_a_part(name: str) -> bool:  # noqa: ARG001
    return False


@dataclass(frozen=True)
class Format:
    """A trace format: how to recognise it, find its ranks and load them.

    The functions are defined at module level, so that a format can be sent to workers.
    """

    name: str
    """Short and permanent: it is part of cache keys."""
    noun: str
    """Name of one trace of the format in a sentence."""
    example: str
    """What a trace looks like on disk, for the list of all formats in messages."""
    matches: Callable[[Path], bool]
    """Whether a path, a file or a folder, is a trace of the format, by its content."""
    load: Load
    """Load one rank, given the path, the rank, the process (in traces with several) and a function
    to call with the number of bytes read since the last call, or None."""
    find_ranks: Callable[[Path, list[str]], list[FoundRank]] = _one_rank
    """Find the ranks of one trace, appending notices on what is missing. One rank by default."""
    refuse: Callable[[Path], None] = _accept_any
    """Raise `TraceFormatError` for a path that belongs to the format but is unreadable, such as a
    report that must be exported first."""
    lacks: frozenset[Recorded] = field(default_factory=frozenset)
    """What the format itself does not record; NVTX ranges may supply it."""
    suffixes: tuple[str, ...] = ()
    """Suffixes of files that may be a trace each; none if traces are folders."""
    is_part: Callable[[str], bool] = _never_a_part
    """Whether a file, by its name, may be part of a trace that is a folder."""
    in_folders: bool = False
    """Whether a folder of such folders is a job."""
    stated_in: Callable[[Path, Callable[[], Metadata]], Stated] | None = None
    """What a file states of where and when it was recorded, for formats that do. It takes the file
    and a function that returns the metadata after the events."""
    has_gpu_work: Callable[[Path], bool] | None = None
    """Whether a file has GPU work; it may read all of it. Of formats with `stated_in`."""
    is_copy: Callable[[Path], bool] | None = None
    """Whether a file is a copy that hta_widgets wrote of another trace; such copies are ignored
    next to other traces."""
    details: ReadDetails | None = None
    """Read fields of a rank that loading leaves out, given its path, its trace and the process."""

    def __repr__(self) -> str:
        """Show only the name."""
        return f"Format({self.name!r})"
