"""The format of folders of CUPTI tables."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hta_widgets.progress import OnRead
from hta_widgets.trace.loaders.cupti.details import read_details
from hta_widgets.trace.loaders.cupti.load import TABLES, is_cupti_folder, load_cupti_csv
from hta_widgets.trace.model.events import Trace
from hta_widgets.trace.model.formats import Format, Recorded


def _matches(path: Path) -> bool:
    return path.is_dir() and is_cupti_folder(path)


def _load(path: Path, rank: int, _process: int | None, on_read: OnRead | None) -> Trace:
    return load_cupti_csv(path, rank, on_read)


def _is_part(name: str) -> bool:
    return name in TABLES


CUPTI_CSV: Final = Format(
    name="CUPTI_CSV",
    noun="a folder of CUPTI tables",
    example="a folder of CUPTI tables (conc_kernel.csv, cuda_runtime.csv, ...)",
    matches=_matches,
    load=_load,
    details=read_details,
    lacks=frozenset(Recorded) - {Recorded.KERNELS},
    is_part=_is_part,
    in_folders=True,
)
