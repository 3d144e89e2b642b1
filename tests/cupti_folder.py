"""Folders of CUPTI tables, written as the tools around CUPTI write them."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path

KERNEL_COLUMNS = (
    *("start", "device", "context", "block", "name", "stream"),
    *("shared memory", "grid", "end", "cat", "correlation", "dur"),
)
CALL_COLUMNS = ("start", "pid", "tid", "cbid", "name", "end", "cat", "correlation", "dur")
COPY_COLUMNS = (
    *("start", "device", "context", "name", "stream"),
    *("bytes", "end", "cat", "correlation", "dur"),
)
COLUMNS = {
    "conc_kernel.csv": KERNEL_COLUMNS,
    "kernel.csv": KERNEL_COLUMNS,
    "cuda_runtime.csv": CALL_COLUMNS,
    "cuda_driver.csv": CALL_COLUMNS,
    "gpu_memcpy.csv": COPY_COLUMNS,
    "gpu_memset.csv": COPY_COLUMNS,
}


def exact(ns: int) -> str:
    """µs with all digits."""
    return f"{ns // 1000}.{ns % 1000:03d}"


def through_float(ns: int) -> str:
    """µs as pandas writes a column of float64."""
    return repr(ns / 1000)


def row(start_ns: int, duration_ns: int, name: str, **fields: object) -> dict[str, object]:
    """One event; fields that are not given are left empty."""
    return {"start_ns": start_ns, "duration_ns": duration_ns, "name": name, **fields}


def write_cupti_folder(
    folder: Path,
    tables: Mapping[str, Iterable[Mapping[str, object]]],
    *,
    text: object = exact,
    columns: Mapping[str, tuple[str, ...]] = COLUMNS,
) -> Path:
    """Write tables of `row`, with times in the form that `text` gives them."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, rows in tables.items():
        with (folder / file).open("w", newline="", encoding="utf-8") as opened:
            writer = csv.writer(opened, lineterminator="\n")
            writer.writerow(columns[file])
            for event in rows:
                values = dict(event)
                start, length = values.pop("start_ns"), values.pop("duration_ns")
                values |= {"start": text(start), "end": text(start + length), "dur": text(length)}
                writer.writerow([values.get(column, "") for column in columns[file]])
    return folder
