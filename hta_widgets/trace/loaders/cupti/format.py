"""The format of folders of CUPTI tables: how one is recognised, and its details read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from hta_widgets.arrays import Int64Array
from hta_widgets.errors import TraceFormatError
from hta_widgets.progress import OnRead
from hta_widgets.trace.loaders.columns import ABSENT, ColumnBlock
from hta_widgets.trace.loaders.cupti.csv_table import distinct_texts, readable_rows, whole_numbers
from hta_widgets.trace.loaders.cupti.load import (
    TABLES,
    is_cupti_folder,
    kernel_table,
    load_cupti_csv,
)
from hta_widgets.trace.loaders.event_blocks import shared_bytes
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.model.events import NO_FIELDS, Kind, SideTable, Trace
from hta_widgets.trace.model.formats import Format, Recorded

if TYPE_CHECKING:
    import pyarrow as pa

_AXES: Final = "xyz"
_SIZES: Final = ("grid", "block")
_REGISTERS: Final = "registersperthread"
_SHARED: Final = "sharedmemory"
_PARTS_OF_SHARED: Final = (f"static{_SHARED}", f"dynamic{_SHARED}")
_FACTS: Final = (
    *_SIZES,
    *(f"{size}{axis}" for size in _SIZES for axis in _AXES),
    *(_REGISTERS, _SHARED, *_PARTS_OF_SHARED),
)
"""Columns of `CUPTI_ACTIVITY_KIND_KERNEL` and of CUPTI's samples, in small letters and digits."""

_OTHERS: Final = re.compile("[^a-z0-9]")
_NUMBERS: Final = re.compile(r"-?[0-9]+")
_LONGEST: Final = 18
"""Most characters of a number that is sure to fit."""


def read_details(path: Path, trace: Trace, _process: int | None, group: DetailGroup) -> SideTable:
    """Read the fields of a group; only launch configurations of kernels can exist.

    Raises `TraceFormatError` if such tables have none, or cannot be read.
    """
    if group is not DetailGroup.LAUNCH_CONFIGURATION:
        msg = f"a folder of CUPTI tables has no {group.value}"
        raise TraceFormatError(msg)
    blocks = [*_blocks(path)]
    if not blocks:
        return NO_FIELDS
    rows = trace.events.rows_of(Kind.KERNEL)
    of_table = trace.events.index[rows]  # kernels are loaded before all other tables
    columns = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    return SideTable(rows, {name: column[of_table] for name, column in columns.items()})


def _blocks(path: Path) -> Iterator[ColumnBlock]:
    """Yield the fields of the kernels that are loaded, in their order in the table."""
    table = kernel_table(path)
    if table is None:
        return
    known = {_OTHERS.sub("", name): name for name in reversed(table.columns)}
    wanted = {fact: known[fact] for fact in _FACTS if fact in known}
    if not wanted:
        return
    for rows in readable_rows(table, wanted.values()):
        yield _launches({fact: rows.columns[name] for fact, name in wanted.items()})


def _launches(columns: Mapping[str, pa.Array]) -> ColumnBlock:
    launches = {name: each for size in _SIZES for name, each in _along_axes(columns, size).items()}
    if _REGISTERS in columns:
        launches["registers"] = _counts(columns[_REGISTERS])
    shared = _shared_bytes(columns)
    return launches if shared is None else {**launches, "shared_bytes": shared}


def _along_axes(columns: Mapping[str, pa.Array], size: str) -> ColumnBlock:
    """Sizes along each axis: from one column each, or from one text with all three.

    Digits that run together, such as 25611 for [256, 1, 1], cannot be separated.
    """
    of_axes = {axis: f"{size}{axis}" for axis in _AXES}
    if columns.keys() >= {*of_axes.values()}:
        return {f"{size}_{axis}": _counts(columns[name]) for axis, name in of_axes.items()}
    if size not in columns:
        return {}
    texts, codes = distinct_texts(columns[size])
    sizes = np.array([_three(text) for text in texts], dtype=np.int64).reshape(-1, len(_AXES))
    return {f"{size}_{axis}": sizes[codes, place] for place, axis in enumerate(_AXES)}


def _shared_bytes(columns: Mapping[str, pa.Array]) -> Int64Array | None:
    """Shared memory of a block: one number, or the static and the dynamic part."""
    parts = [_counts(columns[name]) for name in _PARTS_OF_SHARED if name in columns]
    if not parts:
        return _counts(columns[_SHARED]) if _SHARED in columns else None
    return shared_bytes(*parts)


def _counts(column: pa.Array) -> Int64Array:
    return np.maximum(whole_numbers(column), ABSENT)


def _three(text: str) -> list[int]:
    found = [int(digits[:_LONGEST]) for digits in _NUMBERS.findall(text)]
    is_size = len(found) == len(_AXES) and min(found) >= 0
    return found if is_size else [ABSENT] * len(_AXES)


def _load(path: Path, rank: int, _process: int | None, on_read: OnRead | None) -> Trace:
    return load_cupti_csv(path, rank, on_read)


def _is_part(name: str) -> bool:
    return name in TABLES


CUPTI_CSV: Final = Format(
    name="CUPTI_CSV",
    noun="a folder of CUPTI tables",
    example="a folder of CUPTI tables (conc_kernel.csv, cuda_runtime.csv, ...)",
    matches=is_cupti_folder,
    load=_load,
    details=read_details,
    lacks=frozenset(Recorded) - {Recorded.KERNELS},
    is_part=_is_part,
    in_folders=True,
)
