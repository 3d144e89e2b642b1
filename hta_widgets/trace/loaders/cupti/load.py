"""Load a folder of CUPTI activity tables: one CSV file per category of events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from hta_widgets.arrays import Int64Array
from hta_widgets.errors import TraceFormatError
from hta_widgets.intervals import Times
from hta_widgets.lazy_modules import pa
from hta_widgets.names.demangling import demangled, is_mangled
from hta_widgets.names.shorten import api_name
from hta_widgets.trace.loaders.columns import ABSENT, NO_STREAM
from hta_widgets.trace.loaders.cupti.csv_table import (
    CsvTable,
    distinct_texts,
    readable_rows,
    whole_numbers,
)
from hta_widgets.trace.loaders.event_blocks import EventBlocks, Values, transfer_columns
from hta_widgets.trace.model.events import LAUNCH_CALLS, RESOLUTION, Events, Kind, Trace
from hta_widgets.trace.model.notices import Notice

CONCURRENT_KERNELS = "conc_kernel.csv"
SERIAL_KERNELS = "kernel.csv"
TABLES = {
    CONCURRENT_KERNELS: Kind.KERNEL,
    SERIAL_KERNELS: Kind.KERNEL,
    "cuda_runtime.csv": Kind.RUNTIME,
    "cuda_driver.csv": Kind.DRIVER,
    "gpu_memcpy.csv": Kind.MEMCPY,
    "gpu_memset.csv": Kind.MEMSET,
}

FLOAT_STEP_NS = 250
"""Spacing of float64 values of µs since 1970, in the years 2005 to 2041."""

_FLOAT_STEPS_SINCE_NS = 2**50 * 1000
_ROUNDED = {0: 0, 200: 250, 250: 250, 500: 500, 750: 750, 800: 750}
"""Fraction of a µs (ns) as float64s are printed, in full or shortest: its exact value."""

_CONTENTS = {
    Kind.KERNEL: "kernels",
    Kind.RUNTIME: "CUDA runtime API calls",
    Kind.DRIVER: "CUDA driver API calls",
    Kind.MEMCPY: "copies",
    Kind.MEMSET: "memsets",
}
_NEEDED_COLUMNS = "start, name, and dur or end"
_IDS = {"pid": 0, "tid": 0, "device": ABSENT, "stream": ABSENT, "correlation": ABSENT}

_SERIAL_NOTICE = (
    f"the kernels are from {SERIAL_KERNELS}, whose collector serialises them: overlaps and launch "
    "delays are not comparable with other recordings"
)
_BOTH_NOTICE = f"{SERIAL_KERNELS} is ignored because {CONCURRENT_KERNELS} has the kernels"
_FLOAT_NOTICE = (
    "timestamps were rounded to 0.25 µs when they were written as float64; durations come from a "
    "separate column, but launch delays and gaps of up to 0.5 µs cannot be distinguished from 0"
)
_COARSE = "timestamps such as 1.732611e+15 are too coarse; write all digits of the µs"
_COARSE_NOTICE = f"{{}} events are left out: {_COARSE}"


def is_cupti_folder(path: Path) -> bool:
    """Whether a path is a folder with at least one CUPTI activity table."""
    return path.is_dir() and any(_has_events(table) for table in _tables_in(path))


def load_cupti_csv(path: Path, rank: int, on_read: Callable[[int], object] | None = None) -> Trace:
    """Load the tables that a folder has.

    They are ``conc_kernel.csv`` (or ``kernel.csv``), ``cuda_runtime.csv``, ``cuda_driver.csv``,
    ``gpu_memcpy.csv`` and ``gpu_memset.csv``, with columns in any order: ``start`` (µs since 1970),
    ``name``, and ``dur`` or ``end`` (µs); optionally ``pid``, ``tid``, ``device``, ``stream``,
    ``correlation`` and ``bytes``. ``dur`` takes precedence over ``end``. Mangled names of kernels
    are demangled; the side table ``mangled`` keeps them. ``metadata["resolution_ns"]`` is 250 if
    the times were stored as float64.

    `on_read` is called with the number of bytes read since the last call. Raises `TraceFormatError`
    if there is no such table, or one is unreadable.
    """
    tables, notices = _select_tables(path)
    blocks = EventBlocks()
    left_out: Counter[str] = Counter()
    in_full = [_add_table(blocks, table, left_out, on_read) for table in tables]
    if not blocks and left_out[_COARSE_NOTICE]:
        msg = f"{path} cannot be loaded: {_COARSE}"
        raise TraceFormatError(msg)
    exact = [TABLES[table.path.name] for table in tables if "dur" in table.columns]
    events, first_ns = blocks.finish()
    is_rounded = not any(in_full) and _are_from_floats(events.start_ns + first_ns)
    if is_rounded:
        events, first_ns = _repair_float_times(events, first_ns, exact)
    notices += [Notice(words, (count,)) for words, count in left_out.items() if count]
    notices += [Notice(_FLOAT_NOTICE)] if is_rounded else []
    return Trace(
        rank=rank,
        source=str(path),
        events=events,
        origin_ns=first_ns,
        metadata={RESOLUTION: FLOAT_STEP_NS} if is_rounded else {},
        notices=tuple(notices),
    )


def kernel_table(path: Path) -> CsvTable | None:
    """Return the table that a folder's kernels are loaded from, before all other tables."""
    tables, _ = _select_tables(path)
    return next((each for each in tables if TABLES[each.path.name] is Kind.KERNEL), None)


def _tables_in(path: Path) -> list[CsvTable]:
    return [CsvTable(path / file) for file in TABLES if (path / file).is_file()]


def _has_events(table: CsvTable) -> bool:
    return {"start", "name"} <= set(table.columns) and bool({"dur", "end"} & set(table.columns))


def _select_tables(path: Path) -> tuple[list[CsvTable], list[Notice]]:
    """Tables to load, and notices about those that are missing or left out."""
    found = _tables_in(path)
    usable = {table.path.name: table for table in found if _has_events(table)}
    if not usable:
        msg = (
            f"{path} has no CUPTI activity table: it needs at least one of {', '.join(TABLES)} "
            f"with the columns {_NEEDED_COLUMNS}"
        )
        raise TraceFormatError(msg)
    unusable = [table.path.name for table in found if table.path.name not in usable]
    words = [f"{file} is left out: it needs the columns {_NEEDED_COLUMNS}" for file in unusable]
    if CONCURRENT_KERNELS in usable and SERIAL_KERNELS in usable:
        del usable[SERIAL_KERNELS]
        words.append(_BOTH_NOTICE)
    words += [_SERIAL_NOTICE] if SERIAL_KERNELS in usable else []
    words += _missing_tables(usable)
    return list(usable.values()), [Notice(each) for each in words]


def _missing_tables(usable: Iterable[str]) -> list[str]:
    lacking = set(_CONTENTS) - {TABLES[file] for file in usable}
    return [
        f"{file} is missing, so there are no {_CONTENTS[kind]}"
        for file, kind in TABLES.items()
        if kind in lacking and file != SERIAL_KERNELS
    ]


def _add_table(
    blocks: EventBlocks,
    table: CsvTable,
    left_out: Counter[str],
    on_read: Callable[[int], object] | None,
) -> bool:
    """Add the readable rows; return whether any time has more digits than a rounded one."""
    in_full = False
    kind = TABLES[table.path.name]
    for rows in readable_rows(table, ("name", "bytes", *_IDS), on_read):
        in_full = in_full or rows.in_full
        left_out[_COARSE_NOTICE] += rows.coarse
        left_out[f"{{}} unreadable rows of {table.path.name} are left out"] += rows.unreadable
        _add_rows(blocks, kind, rows.start_ns, rows.duration_ns, rows.columns)
    left_out[f"{{}} unreadable rows of {table.path.name} are left out"] += table.malformed
    return in_full


def _add_rows(
    blocks: EventBlocks,
    kind: Kind,
    start_ns: Times,
    duration_ns: Times,
    columns: Mapping[str, pa.Array],
) -> None:
    """Add readable rows."""
    texts, codes = distinct_texts(columns["name"])
    display_names = [api_name(text) if kind in LAUNCH_CALLS else demangled(text) for text in texts]
    side: dict[str, dict[str, Values]] = {}
    if kind in (Kind.MEMCPY, Kind.MEMSET) and "bytes" in columns:
        side["transfers"] = transfer_columns(whole_numbers(columns["bytes"]), duration_ns)
    if kind is Kind.KERNEL and any(map(is_mangled, texts)):
        mangled = [text if is_mangled(text) else "" for text in texts]
        side["mangled"] = {"mangled": [mangled[code] for code in codes]}
    names = [display_names[code] for code in codes]
    blocks.add(kind, start_ns, duration_ns, names, side=side, **_ids(columns))


def _ids(columns: Mapping[str, pa.Array]) -> dict[str, Int64Array | int]:
    ids: dict[str, Int64Array | int] = dict(_IDS)
    ids |= {key: whole_numbers(columns[key]) for key in _IDS if key in columns}
    ids["stream"] = np.where(np.equal(ids["stream"], NO_STREAM), ABSENT, ids["stream"])
    return ids


def _repair_float_times(events: Events, first_ns: int, exact: Iterable[Kind]) -> tuple[Events, int]:
    """Restore the float64 values that times were printed from.

    Shortest round-trip printing writes the float64 1732611000000000.25 as 1732611000000000.2, and
    .75 as .8. Durations of the `exact` kinds come from a separate column.
    """
    printed_ns = events.start_ns + first_ns
    start_ns = _as_float64(printed_ns)
    between_ns = _as_float64(printed_ns + events.duration_ns) - start_ns
    duration_ns = np.where(np.isin(events.kind, list(exact)), events.duration_ns, between_ns)
    first_ns = int(start_ns[0])
    return replace(events, start_ns=start_ns - first_ns, duration_ns=duration_ns), first_ns


def _are_from_floats(start_ns: Times) -> bool:
    if not start_ns.size or start_ns[0] < _FLOAT_STEPS_SINCE_NS:
        return False
    fractions = set(np.flatnonzero(np.bincount(start_ns % 1000)).tolist())
    return fractions <= set(_ROUNDED) and fractions != {0}


def _as_float64(time_ns: Times) -> Times:
    exact = np.arange(1000)
    exact[list(_ROUNDED)] = list(_ROUNDED.values())
    fraction = time_ns % 1000
    return np.asarray(time_ns - fraction + exact[fraction], np.int64)
