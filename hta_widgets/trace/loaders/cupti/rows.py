"""The rows of a CUPTI table whose times can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hta_widgets.arrays import Mask
from hta_widgets.intervals import Times
from hta_widgets.lazy_modules import LazyModule
from hta_widgets.trace.loaders.cupti.csv_table import (
    CsvTable,
    any_matches,
    has_exponent,
    nanoseconds,
)
from hta_widgets.trace.loaders.timestamps import UNREADABLE

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = LazyModule("pyarrow")

_IN_FULL = r"\.[28]0"
"""A fraction that is rounded only where it is printed with a single digit."""

_EARLIEST_NS, _LATEST_NS, _LONGEST_NS = -(2**61), 2**62, 2**60


class Rows(NamedTuple):
    """Readable rows of a block of a table.

    Attributes
    ----------
    start_ns, duration_ns : ndarray of int64
    columns : mapping of str to pyarrow.Array
        The columns that were asked for and are there, as bytes.
    coarse, unreadable : int
        Rows left out because their times have too few digits, or for another reason.
    in_full : bool
        Whether a time is written with more digits than a rounded one has.
    """

    start_ns: Times
    duration_ns: Times
    columns: Mapping[str, pa.Array]
    coarse: int
    unreadable: int
    in_full: bool


def readable_rows(
    table: CsvTable, names: Iterable[str], on_read: Callable[[int], object] | None = None
) -> Iterator[Rows]:
    """Yield the readable rows of a table with the named columns, block by block.

    Raises
    ------
    TraceFormatError
        If the file cannot be read.
    """
    length = "dur" if "dur" in table.columns else "end"
    for columns in table.blocks(dict.fromkeys(("start", length, *names)), on_read):
        coarse = _is_coarse(columns["start"])
        start_ns, duration_ns = _times(columns, coarse)
        readable = duration_ns != UNREADABLE
        in_full = any_matches(columns["start"], _IN_FULL)
        kept = columns
        if not readable.all():
            mask = pa.array(readable)
            kept = {name: column.filter(mask) for name, column in columns.items()}
        left_out = int((~readable & ~coarse).sum())
        times = start_ns[readable], duration_ns[readable]
        yield Rows(*times, kept, int(coarse.sum()), left_out, in_full)


def _is_coarse(start: pa.Array) -> Mask:
    """Mask of the times written with too few digits for whole µs."""
    coarse = has_exponent(start)
    for row in np.flatnonzero(coarse).tolist():
        try:
            exponent = Decimal(start[row].as_py().decode("ascii", "replace")).as_tuple().exponent
        except InvalidOperation:
            exponent = 0
        coarse[row] = isinstance(exponent, int) and exponent > 0
    return coarse


def _times(columns: Mapping[str, pa.Array], coarse: Mask) -> tuple[Times, Times]:
    """Start and duration of each row; the duration is `UNREADABLE` where either cannot be read."""
    start_ns = nanoseconds(columns["start"])
    readable = ~coarse & (start_ns > _EARLIEST_NS) & (start_ns < _LATEST_NS)
    if "dur" in columns:
        duration_ns = nanoseconds(columns["dur"])
    else:
        end_ns = nanoseconds(columns["end"])
        readable &= (end_ns >= start_ns) & (end_ns < _LATEST_NS)
        duration_ns = end_ns - start_ns
    readable &= (duration_ns >= 0) & (duration_ns < _LONGEST_NS)
    return start_ns, np.where(readable, duration_ns, UNREADABLE)
