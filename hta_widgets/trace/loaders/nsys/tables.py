"""What may be read of an Nsight Systems export, and in which form its tables are handed over.

An export also holds the environment, the output and the command line of what was profiled: secrets.
Nothing but the columns of `READABLE` is ever read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from hta_widgets.errors import TraceFormatError
from hta_widgets.trace.loaders.columns import Columns

MISSING = int(np.iinfo(np.int64).min)
"""In columns of numbers: null, no number, or too large for one."""

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
FILLS = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
SYNCS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
RANGES = "NVTX_EVENTS"
STRINGS = "StringIds"
SESSION = "TARGET_INFO_SESSION_START_TIME"

GPU_WORK_TABLES = (KERNELS, COPIES, FILLS, GRAPHS)

_TIMES = ("start", "end")
_ON_GPU = (*_TIMES, "deviceId", "streamId", "correlationId", "globalPid")

READABLE: Mapping[str, tuple[str, ...]] = {
    KERNELS: (*_ON_GPU, "demangledName", "shortName", "mangledName"),
    COPIES: (*_ON_GPU, "bytes", "copyKind", "srcKind", "dstKind"),
    FILLS: (*_ON_GPU, "bytes", "memKind"),
    GRAPHS: (*_ON_GPU, "graphId"),
    SYNCS: (*_ON_GPU, "syncType"),
    CALLS: (*_TIMES, "correlationId", "globalTid", "eventClass", "nameId"),
    RANGES: (*_TIMES, "globalTid", "eventType", "text", "textId"),
    STRINGS: ("id", "value"),
    SESSION: ("utcEpochNs",),
}
"""The columns that are read, where a table and the columns are there at all.

Of `STRINGS`, which holds environment variables, too, only what the other columns refer to is read.
"""

TEXT_COLUMNS = ("text", "value")

_PROCESS_SHIFT = 24


IntegerOrColumn = TypeVar("IntegerOrColumn", int, NDArray[np.int64])


class NsysTables(Protocol):
    """The readable tables of one export.

    Every method raises `TraceFormatError` where the export is damaged.
    """

    def columns(self, table: str) -> tuple[str, ...]:
        """Those columns of `READABLE` that are there; none where the table is not."""

    def size(self, table: str) -> int:
        """Return about how many rows a table has."""

    def chunks(self, table: str, process: int | None = None) -> Iterator[Columns]:
        """Yield the rows in pieces, with all columns of `READABLE`, whether they are there or not.

        Numbers are int64 (`MISSING` where there is none), texts are objects, str or None. With a
        process, its rows and those that name none.
        """

    def distinct(self, table: str, *columns: str) -> set[tuple[int, ...]]:
        """Return the combinations of numbers that occur."""

    def strings(self, ids: Iterable[int]) -> dict[int, str]:
        """Texts of the given ids, as far as there are any."""


def owner_column(table: str) -> str:
    """Column that holds the process of a row."""
    return "globalTid" if table in (CALLS, RANGES) else "globalPid"


def process_of(owner: IntegerOrColumn) -> IntegerOrColumn:
    """Process, with its machine in the upper bits, of values of the `owner_column`."""
    return owner >> _PROCESS_SHIFT


def missing_column(table: str, column: str, size: int, process: int | None) -> NDArray[Any]:
    """Column that a table lacks; where it would name the process, all rows are of the one asked."""
    if column in TEXT_COLUMNS:
        return np.full(size, None, object)
    if process is not None and column == owner_column(table):
        return np.full(size, process << _PROCESS_SHIFT, np.int64)
    return np.full(size, MISSING, np.int64)


def integer(value: object) -> int:
    """Whole number of a value of any type, `MISSING` where it is none that fits."""
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return MISSING
    return number if MISSING < number <= np.iinfo(np.int64).max else MISSING


def damaged(path: Path, error: Exception) -> TraceFormatError:
    """Say that an export cannot be read, and what to do."""
    msg = (
        f"{path} cannot be read as an Nsight Systems export ({error}). It may be truncated or "
        "still being written; export the report again (nsys export --type sqlite, or parquetdir)"
    )
    return TraceFormatError(msg)
