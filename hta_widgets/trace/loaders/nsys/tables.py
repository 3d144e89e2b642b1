"""What may be read of an Nsight Systems export, and the interface to its tables.

An export also contains the environment, the output and the command line of the profiled program,
and these can contain secrets. Only the columns of `READABLE` are ever read, and the others of
`ALLOWED` only when they are asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Int64Array
from hta_widgets.errors import TraceFormatError
from hta_widgets.trace.loaders.columns import ColumnBlock

MISSING = int(np.iinfo(np.int64).min)
"""Value in columns of numbers for null, not a number, or out of range."""

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSETS = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
SYNCS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
RANGES = "NVTX_EVENTS"
OS_CALLS = "OSRT_API"
STRINGS = "StringIds"
SESSION = "TARGET_INFO_SESSION_START_TIME"
GPUS = "TARGET_INFO_GPU"
GPUS_OF_CUDA = "TARGET_INFO_CUDA_GPU"
"""What releases until early 2021 described GPUs in, with or without names in `GPUS`."""
DIAGNOSTICS = "DIAGNOSTIC_EVENT"
SAMPLES = "COMPOSITE_EVENTS"
STACKS = "SAMPLING_CALLCHAINS"

GPU_WORK_TABLES = (KERNELS, COPIES, MEMSETS, GRAPHS)

_TIMES = ("start", "end")
_ON_GPU = (*_TIMES, "deviceId", "streamId", "correlationId", "globalPid")

READABLE: Mapping[str, tuple[str, ...]] = {
    KERNELS: (*_ON_GPU, "demangledName", "shortName", "mangledName"),
    COPIES: (*_ON_GPU, "bytes", "copyKind", "srcKind", "dstKind"),
    MEMSETS: (*_ON_GPU, "bytes", "memKind"),
    GRAPHS: (*_ON_GPU, "graphId"),
    SYNCS: (*_ON_GPU, "syncType"),
    CALLS: (*_TIMES, "correlationId", "globalTid", "eventClass", "nameId"),
    RANGES: (*_TIMES, "globalTid", "eventType", "text", "textId"),
    OS_CALLS: (*_TIMES, "globalTid", "nameId"),
    STRINGS: ("id", "value"),
    SESSION: ("utcEpochNs",),
    DIAGNOSTICS: ("text", "globalPid"),
    GPUS: (
        *("id", "cuDevice", "name", "totalMemory", "smCount", "threadsPerWarp", "maxWarpsPerSm"),
        *("maxRegistersPerSm", "maxShmemPerSm", "computeMajor", "computeMinor"),
    ),
    GPUS_OF_CUDA: (
        *("deviceId", "name", "numMultiprocessors", "numThreadsPerWarp"),
        *("maxWarpsPerMultiprocessor", "maxRegistersPerMultiprocessor"),
        *("maxSharedMemoryPerMultiprocessor", "computeCapabilityMajor", "computeCapabilityMinor"),
    ),
}
"""The columns that are read if they exist.

`STRINGS` also contains environment variables: only the texts that the other columns refer to are
read. `DIAGNOSTICS` names paths and commands: only known phrases are kept.
"""

LAUNCH_COLUMNS = (
    *("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"),
    *("registersPerThread", "staticSharedMemory", "dynamicSharedMemory"),
)
"""How kernels are launched: columns of `KERNELS` that loading leaves out."""

ALLOWED: Mapping[str, tuple[str, ...]] = {
    **READABLE,
    KERNELS: (*READABLE[KERNELS], *LAUNCH_COLUMNS),
    SAMPLES: ("id", "start", "globalTid"),
    STACKS: ("id", "symbol", "module", "stackDepth", "unresolved"),
}
"""All columns that may be read."""

TEXT_COLUMNS = ("text", "value", "name")

_PROCESS_SHIFT = 24


IntegerOrColumn = TypeVar("IntegerOrColumn", int, Int64Array)


class NsysTables:
    """The readable tables of one export; each way of storing them says how they are read.

    Every method raises `TraceFormatError` if the export is damaged.
    """

    def __init__(self) -> None:
        self._columns: dict[str, tuple[str, ...]] = {}

    def columns(self, table: str) -> tuple[str, ...]:
        """The `ALLOWED` columns that exist; none if the table is missing."""
        if table not in self._columns:
            there = self._all_columns(table)
            self._columns[table] = tuple(name for name in ALLOWED[table] if name in there)
        return self._columns[table]

    def size(self, table: str) -> int:
        """Approximate number of rows of a table."""
        return self._size_of(table) if self.columns(table) else 0

    def chunks(
        self, table: str, process: int | None = None, *, wanted: Iterable[str] = ()
    ) -> Iterator[ColumnBlock]:
        """Yield the rows in pieces with the wanted columns, whether they exist or not.

        By default, these are all `READABLE` ones. Numbers are int64 (`MISSING` if there is none);
        texts are objects, str or None. With a process, its rows and those without a process id.
        """
        columns = tuple(wanted) or READABLE[table]
        there = [name for name in self.columns(table) if name in columns]
        for found, size in self._pieces(table, there, process) if there else ():
            yield {
                name: found[name] if name in found else _missing_column(table, name, size, process)
                for name in columns
            }

    def strings(self, ids: Iterable[int]) -> dict[int, str]:
        """Text of each given id that exists."""
        is_whole = len(self.columns(STRINGS)) == len(READABLE[STRINGS])
        return self._texts_of(ids) if is_whole else {}

    def distinct(self, table: str, *columns: str) -> set[tuple[int, ...]]:
        """Return the distinct combinations of numbers."""
        raise NotImplementedError

    def views(self) -> tuple[str, ...]:
        """Views that have the name of a readable table; they are not read."""
        raise NotImplementedError

    def _all_columns(self, table: str) -> Collection[str]:
        raise NotImplementedError

    def _size_of(self, table: str) -> int:
        raise NotImplementedError

    def _pieces(
        self, table: str, columns: Sequence[str], process: int | None
    ) -> Iterator[tuple[ColumnBlock, int]]:
        """Yield columns that exist, piece by piece, with the number of rows."""
        raise NotImplementedError

    def _texts_of(self, ids: Iterable[int]) -> dict[int, str]:
        raise NotImplementedError


def owner_column(table: str) -> str:
    """Column that identifies the process of a row."""
    return "globalTid" if table in (CALLS, RANGES, OS_CALLS, SAMPLES) else "globalPid"


def process_of(owner: IntegerOrColumn) -> IntegerOrColumn:
    """Process, with its machine in the upper bits, of values of the `owner_column`."""
    return owner >> _PROCESS_SHIFT


def _missing_column(table: str, column: str, size: int, process: int | None) -> NDArray[Any]:
    """Stand-in for a missing column; for the owner column, all rows belong to the process."""
    if column in TEXT_COLUMNS:
        return np.full(size, None, object)
    if process is not None and column == owner_column(table):
        return np.full(size, process << _PROCESS_SHIFT, np.int64)
    return np.full(size, MISSING, np.int64)


def to_integer(value: object) -> int:
    """Integer of a value of any type; `MISSING` if it is not an integer in range."""
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return MISSING
    return number if MISSING < number <= np.iinfo(np.int64).max else MISSING


def damaged_export(path: Path, error: Exception) -> TraceFormatError:
    """Error for an export that cannot be read."""
    msg = (
        f"{path} cannot be read as an Nsight Systems export ({error}). It may be truncated or "
        "still being written; export the report again (nsys export --type sqlite, or parquetdir)"
    )
    return TraceFormatError(msg)
