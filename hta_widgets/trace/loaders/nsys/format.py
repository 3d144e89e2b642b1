"""The format of Nsight Systems exports: how one is recognised, and its details read."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from hta_widgets.arrays import Int64Array
from hta_widgets.errors import TraceFormatError
from hta_widgets.grouping import grouped
from hta_widgets.trace.loaders.columns import ColumnBlock
from hta_widgets.trace.loaders.event_blocks import shared_bytes
from hta_widgets.trace.loaders.nsys.events import ids
from hta_widgets.trace.loaders.nsys.load import (
    gpu_processes,
    is_nsys_export,
    load_nsys,
    open_tables,
    start_of_session,
)
from hta_widgets.trace.loaders.nsys.samples import read_samples
from hta_widgets.trace.loaders.nsys.sqlite import is_sqlite
from hta_widgets.trace.loaders.nsys.tables import ALLOWED, KERNELS, LAUNCH_COLUMNS
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.model.events import NO_FIELDS, Events, Kind, SideTable, Trace
from hta_widgets.trace.model.formats import Format, FoundRank, Recorded

_IDENTITY = ("start", "end", "deviceId", "correlationId", "globalPid")


RECORDINGS: Final = (".nsys-rep", ".qdrep")
"""Reports of Nsight Systems, which only its own tools can read."""

_TABLE = ".parquet"


def read_details(path: Path, trace: Trace, process: int | None, group: DetailGroup) -> SideTable:
    """Read the fields of a group; only launch configurations and samples of the CPU exist.

    Raises `TraceFormatError` if the export has none, or cannot be read.
    """
    if group is DetailGroup.CPU_SAMPLES:
        with open_tables(path) as tables:
            return read_samples(tables, process, trace.origin_ns - start_of_session(tables))
    if group is not DetailGroup.LAUNCH_CONFIGURATION:
        msg = f"an Nsight Systems export has no {group.value}"
        raise TraceFormatError(msg)
    with open_tables(path) as tables:
        first_ns = trace.origin_ns - start_of_session(tables)
        wanted = (*_IDENTITY, *LAUNCH_COLUMNS)
        blocks = [*tables.chunks(KERNELS, process, wanted=wanted)]
        has_sizes = {*LAUNCH_COLUMNS} & {*tables.columns(KERNELS)}
    if not blocks or not has_sizes:
        return NO_FIELDS
    table = {name: np.concatenate([block[name] for block in blocks]) for name in wanted}
    rows, places = _matched(trace.events, table, first_ns)
    return SideTable(rows, _launches({name: table[name][places] for name in LAUNCH_COLUMNS}))


def _matched(events: Events, table: ColumnBlock, first_ns: int) -> tuple[Int64Array, Int64Array]:
    """Ascending rows of kernels in the events table, and the position of each in the export's."""
    rows = events.rows_of(Kind.KERNEL)
    of_table = (
        *(table["start"] - first_ns, table["end"] - table["start"]),
        *(ids(table["deviceId"]), ids(table["correlationId"])),
    )
    of_events = (
        *(events.start_ns[rows], events.duration_ns[rows]),
        *(events.device[rows], events.correlation[rows]),
    )
    both = (np.concatenate(pair) for pair in zip(of_events, of_table, strict=True))
    alike = grouped(*both)  # the events of each group come before the rows of the table
    first, last = alike.first, alike.order[alike.edges[1:] - 1]
    found = (first < rows.size) & (last >= rows.size)
    order = np.argsort(first[found])
    return rows[first[found][order]], last[found][order] - rows.size


def _launches(table: ColumnBlock) -> dict[str, Int64Array]:
    columns = {
        f"{size}_{axis.lower()}": ids(table[f"{size}{axis}"])
        for size in ("grid", "block")
        for axis in "XYZ"
    }
    parts = (ids(table[f"{kind}SharedMemory"]) for kind in ("static", "dynamic"))
    return {
        **columns,
        "registers": ids(table["registersPerThread"]),
        "shared_bytes": shared_bytes(*parts),
    }


def refuse_recording(path: Path) -> None:
    """Refuse an Nsight Systems report, by its name.

    Raises `TraceFormatError` if it has the suffix of a report.
    """
    if path.suffix in RECORDINGS:
        msg = (
            f"{path} is an Nsight Systems report, which only Nsight's own tools can read; "
            f"export it: nsys export --type sqlite '{path.name}'"
        )
        raise TraceFormatError(msg)


def _refuse(path: Path) -> None:
    refuse_recording(path)
    if path.is_file() and is_sqlite(path):
        gpu_processes(path)  # raises the error of a damaged export
        msg = (
            f"{path} is an SQLite database but not an Nsight Systems export; "
            "make one with nsys export --type sqlite"
        )
        raise TraceFormatError(msg)


def _find_ranks(path: Path, _notices: list[str]) -> list[FoundRank]:
    stem = path.stem if path.is_file() else path.name.removesuffix("_pqtdir")
    return [
        FoundRank(path, stem, process.process, process.devices) for process in gpu_processes(path)
    ]


def _is_part(name: str) -> bool:
    return name.endswith(_TABLE) and name.removesuffix(_TABLE) in ALLOWED


NSYS: Final = Format(
    name="NSYS",
    noun="an Nsight Systems export",
    example="an Nsight Systems export (*.sqlite, or a folder *_pqtdir)",
    matches=is_nsys_export,
    load=load_nsys,
    details=read_details,
    find_ranks=_find_ranks,
    refuse=_refuse,
    lacks=frozenset(Recorded) - {Recorded.KERNELS},
    suffixes=(".sqlite", ".sqlite3", ".db"),
    is_part=_is_part,
    in_folders=True,
)
