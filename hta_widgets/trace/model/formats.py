"""Description of a trace format: how its traces are recognised, found and loaded."""

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
"""Key next to the events of a Kineto file: the mean length of steps before the profiler ran, which
`hta_widgets.profile` measures."""

LOST_WORK: Final = "recorderLostGpuWork"
"""Metadata key for what a recorder says about GPU work that it may have lost."""

RANK_LIMIT: Final = 2**31
"""Limit of rank numbers; a number from here on is something else, such as a time."""


class Recorded(Enum):
    """What a profiler can record; the value is its name in messages."""

    KERNELS = "kernels with names, streams and launches"
    OPERATORS = "operators"
    COUNTERS = "CUPTI counters"
    MEMORY = "memory events"


class FoundRank(NamedTuple):
    """A trace that was found, before its rank is known."""

    path: Path
    """File or folder."""
    stem: str
    """Name of the file or folder, without the prefix and suffix of the format."""
    process: int | None = None
    """The process, if the trace has several."""
    devices: tuple[int, ...] = ()
    """Devices with work, if known."""


class Stated(NamedTuple):
    """Where and when a file was recorded, as its first bytes or its metadata state it."""

    rank: int | None = None
    world_size: int | None = None
    """Number of ranks of the job."""
    process: int | None = None
    """The system's id of the recorded process."""
    start_ns: int | None = None
    """Start of an early event (ns), to about a microsecond."""
    is_since_epoch: bool = False
    """Whether `start_ns` counts from 1970, or from a zero that all recordings of a process
    share."""
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

    The functions are defined at module level, so that a format can be sent to workers. There it is
    equal to itself, but not the same object: compare formats with ``==``.
    """

    name: str
    """Short and permanent, because it is part of cache keys."""
    noun: str
    """Name of one trace of the format in a sentence."""
    example: str
    """How a trace looks on disk, for the list of all formats in messages."""
    matches: Callable[[Path], bool]
    """Whether the content of a file or folder is a trace of the format."""
    load: Load
    """Load one rank, given the path, the rank, the process (in traces with several) and a function
    to call with the number of bytes read since the last call, or None."""
    find_ranks: Callable[[Path, list[str]], list[FoundRank]] = _one_rank
    """Find the ranks of one trace, one by default, and append notices about what is missing."""
    refuse: Callable[[Path], None] = _accept_any
    """Raise `TraceFormatError` for a path that belongs to the format but is unreadable, such as a
    report that must be exported first."""
    lacks: frozenset[Recorded] = field(default_factory=frozenset)
    """What the format itself does not record, although NVTX ranges may supply it."""
    suffixes: tuple[str, ...] = ()
    """Suffixes of files that may each be a trace; none if traces are folders."""
    is_part: Callable[[str], bool] = _never_a_part
    """Whether a file may, judging by its name, be part of a trace that is a folder."""
    in_folders: bool = False
    """Whether a folder of such folders is a job."""
    stated_in: Callable[[Path, Callable[[], Metadata]], Stated] | None = None
    """Returns where and when a file was recorded, for formats that state it. It takes the file and
    a function that returns the metadata after the events."""
    has_gpu_work: Callable[[Path], bool] | None = None
    """Whether a file has GPU work, for formats with `stated_in`. It may read the whole file."""
    is_copy: Callable[[Path], bool] | None = None
    """Whether hta_widgets wrote a file as a copy of another trace; such copies are ignored next to
    other traces."""
    details: ReadDetails | None = None
    """Read fields that loading leaves out, given the path, the trace and the process of a rank."""

    def __repr__(self) -> str:
        """Show only the name."""
        return f"Format({self.name!r})"
