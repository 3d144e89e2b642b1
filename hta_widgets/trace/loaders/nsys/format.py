"""The format of Nsight Systems exports."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hta_widgets.errors import TraceFormatError
from hta_widgets.trace.loaders.nsys.details import read_details
from hta_widgets.trace.loaders.nsys.load import gpu_processes, is_nsys_export, load_nsys
from hta_widgets.trace.loaders.nsys.sqlite import is_sqlite
from hta_widgets.trace.loaders.nsys.tables import READABLE
from hta_widgets.trace.model.formats import Format, FoundRank, Recorded

RECORDINGS: Final = (".nsys-rep", ".qdrep")
"""Reports of Nsight Systems, which only its own tools can read."""

_TABLE = ".parquet"


def refuse_recording(path: Path) -> None:
    """Refuse an Nsight Systems report, by its name.

    Raises
    ------
    TraceFormatError
        If it has the suffix of a report.
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
    return name.endswith(_TABLE) and name.removesuffix(_TABLE) in READABLE


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
