"""Load Nsight Systems exports: SQLite files, and folders of Parquet files."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final, NamedTuple

from hta_widgets.garbage_collection import no_garbage_collection
from hta_widgets.progress import OnRead
from hta_widgets.trace.loaders.columns import ColumnBlock
from hta_widgets.trace.loaders.nsys.events import TABLES_IN_ORDER, NsysEvents
from hta_widgets.trace.loaders.nsys.parquet import ParquetTables
from hta_widgets.trace.loaders.nsys.sqlite import is_sqlite, sqlite_tables
from hta_widgets.trace.loaders.nsys.tables import (
    CALLS,
    DIAGNOSTICS,
    GPU_WORK_TABLES,
    GPUS,
    GPUS_OF_CUDA,
    MISSING,
    RANGES,
    SESSION,
    STRINGS,
    NsysTables,
    owner_column,
    process_of,
)
from hta_widgets.trace.model.events import Kind, Trace
from hta_widgets.trace.model.formats import LOST_WORK
from hta_widgets.trace.model.notices import Notice

_ACTIVITY = "CUPTI_ACTIVITY_KIND_"
_NVPROF = "StringTable"
"""Table that only nvprof files have; their other tables are named as in Nsight Systems."""

_PARQUET = ".parquet"
_LOST_WORK: Final = re.compile(
    r"CUDA profiling might have not been started correctly|No CUDA events collected"
    r"|Not all CUDA events might have been collected|Some CUPTI events might be missing"
    r"|Installed CUDA driver version \([\d.]{1,9}\) is not supported by this build of Nsight "
    r"Systems"
)
"""What the recorder says about GPU work that it may have lost. Nothing else of its texts is kept,
because they hold paths and commands."""

_PID_BITS = 0xFFFFFF
_NO_PID = -1


_NAMES: Final = {
    "totalMemory": "totalGlobalMem",
    "smCount": "numSms",
    "threadsPerWarp": "warpSize",
    "maxRegistersPerSm": "regsPerMultiprocessor",
    "maxShmemPerSm": "sharedMemPerMultiprocessor",
    "computeMajor": "computeMajor",
    "computeMinor": "computeMinor",
}
_NAMES_OF_CUDA: Final = {
    "deviceId": "id",
    "numMultiprocessors": "smCount",
    "numThreadsPerWarp": "threadsPerWarp",
    "maxWarpsPerMultiprocessor": "maxWarpsPerSm",
    "maxRegistersPerMultiprocessor": "maxRegistersPerSm",
    "maxSharedMemoryPerMultiprocessor": "maxShmemPerSm",
    "computeCapabilityMajor": "computeMajor",
    "computeCapabilityMinor": "computeMinor",
}
"""Columns of `GPUS_OF_CUDA` by those of `GPUS`; its memory is in bytes or in MiB, so it is not
read."""


class GpuProcess(NamedTuple):
    """A process of an export."""

    process: int | None
    """Argument of `load_nsys`: the process id, with its machine in the upper bits. None if the
    export does not distinguish processes."""
    pid: int
    """Process id on its machine, -1 if unknown."""
    devices: tuple[int, ...]
    """Devices that it uses, as numbered within the process."""


def is_nsys_export(path: Path) -> bool:
    """Whether a path is an Nsight Systems export, SQLite or Parquet."""
    try:
        if path.is_dir():
            return _are_tables(each.stem for each in path.iterdir() if each.suffix == _PARQUET)
        if not (path.is_file() and is_sqlite(path)):
            return False
        with sqlite_tables(path) as tables:
            return _are_tables(tables.names)
    except (OSError, ValueError):
        return False


def gpu_processes(path: Path) -> tuple[GpuProcess, ...]:
    """List the processes of an export that used a GPU, in order of `process`.

    Without GPU work, these are the processes that called CUDA, or else one entry for the whole
    export. Raises `TraceFormatError` if it cannot be read.
    """
    with open_tables(path) as tables:
        found = _processes(tables, GPU_WORK_TABLES) or _processes(tables, (CALLS,))
    return tuple(found) or (GpuProcess(None, _NO_PID, ()),)


def load_nsys(
    path: Path, rank: int, process: int | None = None, on_read: OnRead | None = None
) -> Trace:
    """Load an export, or one of its processes (`gpu_processes`).

    Only the tables with GPU work, CUDA calls, NVTX ranges and GPUs are read, and only the texts
    that they refer to: the rest can contain secrets. The path is an SQLite file, or a folder of
    Parquet files (``nsys export --type parquetdir``).

    `on_read` is called with the number of bytes read since the last call. Raises `TraceFormatError`
    if the export cannot be read.
    """
    with open_tables(path) as tables, no_garbage_collection():
        builder = NsysEvents(tables.strings, process)
        for table, rows in _rows(tables, process, _bytes_of(path), on_read or _ignore):
            builder.add(table, rows)
        session_ns = start_of_session(tables)
        metadata = device_properties(tables)
        warnings = _lost_work(tables, process)
        views = [
            Notice(f"{name} is a view, which may show tables with secrets; it is not read")
            for name in tables.views()
        ]
    events, first_ns = builder.finish()
    if events.rows_of(Kind.KERNEL, Kind.GRAPH).size:
        warnings = []
    return Trace(
        rank=rank,
        source=str(path),
        events=events,
        origin_ns=session_ns + first_ns,
        metadata=metadata | ({LOST_WORK: warnings} if warnings else {}),
        notices=(
            *views,
            *builder.notices(),
            *(Notice(f"Nsight Systems warns: {each}") for each in warnings),
        ),
    )


def open_tables(path: Path) -> AbstractContextManager[NsysTables]:
    """Context manager that opens the tables of an export."""
    return nullcontext(ParquetTables(path)) if path.is_dir() else sqlite_tables(path)


def _are_tables(names: Iterable[str]) -> bool:
    known = set(names)
    has_activity = any(name.startswith(_ACTIVITY) for name in known)
    return _NVPROF not in known and (has_activity or bool(known & {STRINGS, RANGES}))


def _processes(tables: NsysTables, names: Iterable[str]) -> list[GpuProcess]:
    devices: defaultdict[int, set[int]] = defaultdict(set)
    for table in names:
        for owner, device in tables.distinct(table, owner_column(table), "deviceId"):
            devices[owner if owner == MISSING else process_of(owner)].add(device)
    if len(devices) > 1:
        devices.pop(MISSING, None)
    return [
        GpuProcess(
            process=None if process == MISSING else process,
            pid=_NO_PID if process == MISSING else process & _PID_BITS,
            devices=tuple(sorted(used - {MISSING})),
        )
        for process, used in sorted(devices.items())
    ]


def _rows(
    tables: NsysTables, process: int | None, file_bytes: int, on_read: OnRead
) -> Iterator[tuple[str, ColumnBlock]]:
    """Yield the rows of all tables, reporting bytes of the file in proportion to the rows."""
    sizes = {table: tables.size(table) for table in TABLES_IN_ORDER}
    rows_in_all = max(1, sum(sizes.values()))
    reported = passed = 0
    for table, size in sizes.items():
        read = 0
        for rows in tables.chunks(table, process):
            yield table, rows
            read = min(size, read + rows["start"].size)
            now = file_bytes * (passed + read) // rows_in_all
            on_read(now - reported)
            reported = now
        passed += size
    on_read(file_bytes - reported)


def _bytes_of(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.iterdir() if file.is_file())


def _ignore(_: int) -> None:
    """Report nothing."""


def start_of_session(tables: NsysTables) -> int:
    """Start of the session in ns since the Unix epoch; 0 if the export does not record it."""
    for rows in tables.chunks(SESSION):
        for start in rows["utcEpochNs"].tolist():
            return 0 if start == MISSING else int(start)
    return 0


def _lost_work(tables: NsysTables, process: int | None) -> list[str]:
    """What Nsight Systems says about GPU work that it may have lost, in its own words."""
    texts = [
        text
        for rows in tables.chunks(DIAGNOSTICS, process)
        for text in rows["text"].tolist()
        if isinstance(text, str)
    ]
    found = (_LOST_WORK.search(text) for text in texts)
    return sorted({each[0] for each in found if each})


def device_properties(tables: NsysTables) -> dict[str, Any]:
    """Metadata on the GPUs; empty if the export does not describe them."""
    for table in (GPUS, GPUS_OF_CUDA):
        found: list[dict[str, Any]] = []
        for rows in tables.chunks(table):
            names = [_NAMES_OF_CUDA.get(name, name) for name in rows]
            columns = [column.tolist() for column in rows.values()]
            each = (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))
            # on Windows, other adapters are listed as well, each as the first device of CUDA
            found.extend(
                _described(row) for row in each if _number(row) != MISSING and row["smCount"]
            )
        if found:
            return {"deviceProperties": found}
    return {}


def _number(row: dict[str, Any]) -> int:
    """The number that CUDA gives a GPU."""
    return int(row["id"] if row.get("cuDevice", MISSING) == MISSING else row["cuDevice"])


def _described(row: dict[str, Any]) -> dict[str, Any]:
    known = {ours: row[name] for name, ours in _NAMES.items() if row.get(name, MISSING) != MISSING}
    if MISSING not in (row["maxWarpsPerSm"], row["threadsPerWarp"]):
        known["maxThreadsPerMultiprocessor"] = row["maxWarpsPerSm"] * row["threadsPerWarp"]
    return {
        "id": _number(row),
        **({"name": row["name"]} if row["name"] else {}),
        **known,
    }
