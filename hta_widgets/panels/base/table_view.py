"""Tables as messages: headings with units, and the values of some rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pandas as pd

from hta_widgets.names.readable import distinct_labels
from hta_widgets.panels.base.protocol import Cell, Column, Table
from hta_widgets.quantities import data_unit, flop_unit, number, time_unit

MAX_ROWS: Final = 20
"""Number of rows that a view brings; the page asks for the others as it needs them."""

LABEL_WIDTH: Final = 56
"""Characters of what stands for the name of a kernel."""

MOST_NAMES: Final = 5_000
"""More kernels than this are shown by their names."""

SELECTS: Final[Mapping[str, str]] = {
    "rank": "ranks",
    "stream": "streams",
    "step": "steps",
    "kernel": "kernel",
}
"""Columns that identify what a row is about, and the fields of the selection that they set."""

_IDENTIFIERS: Final = {"rank", "device", "stream", "step", "node", "pid", "tid", "correlation"}
_NUMBER_KINDS: Final = {"i", "u", "f"}
_LARGEST_EXACT: Final = 2**53
_DIGITS: Final = 9
"""Significant digits of a number with a fraction; the browser shows three."""

_UNITS: Final = (
    ("_gb_per_s", "GB/s"),
    ("_percent", "%"),
    ("_us", "µs"),
    ("_ms", "ms"),
)


@dataclass(frozen=True)
class TableLook:
    """How a panel shows its tables.

    Parameters
    ----------
    selects : mapping of str to str
        Fields of the selection that the column of a name sets. A row sets all of its.
    labels : mapping of str to str
        Headings that are not the column's name in words; the unit follows.
    besides : tuple of str
        Texts that stand for nothing that could be selected.
    """

    selects: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    besides: tuple[str, ...] = ()


def table_view(
    table: pd.DataFrame,
    look: TableLook | None = None,
    names: Mapping[str, str] | None = None,
    max_rows: int = MAX_ROWS,
) -> Table:
    """Describe the columns of a table, and give the values of its first rows.

    Parameters
    ----------
    table : DataFrame
    look : TableLook, optional
    names : mapping of str to str, optional
        See `kernel_labels`.
    max_rows : int
    """
    look = look or TableLook()
    rows = rows_of(table.head(max_rows))
    return {
        "columns": [_column(str(name), column, look) for name, column in table.items()],
        "rows": rows,
        "total": len(table),
        "names": names_in(rows, names or {}),
    }


def kernel_labels(table: pd.DataFrame, look: TableLook) -> dict[str, str]:
    """What is shown in place of the names of kernels in a table; different ones stay different."""
    columns = [
        name for name in map(str, table) if name == "kernel" or look.selects.get(name) == "kernel"
    ]
    every = dict.fromkeys(name for column in columns for name in table[column].dropna().unique())
    names = [name for name in every if isinstance(name, str)]
    if len(names) > MOST_NAMES:
        return {}
    labels = distinct_labels(names, LABEL_WIDTH)
    return {name: label for name, label in zip(names, labels, strict=True) if name != label}


def names_in(rows: Iterable[Sequence[Cell]], names: Mapping[str, str]) -> dict[str, str]:
    """Those of the names that occur in some rows."""
    cells = dict.fromkeys(cell for row in rows for cell in row if isinstance(cell, str))
    return {cell: names[cell] for cell in cells if cell in names}


def rows_of(table: pd.DataFrame) -> list[list[Cell]]:
    """Values by row, as JSON has them."""
    columns = [[plain(value) for value in column.tolist()] for _, column in table.items()]
    return [list(row) for row in zip(*columns, strict=True)]


def plain(value: object) -> Cell:
    """Return a value as JSON has it.

    Integers that no browser holds exactly become text, and what is missing None.

    Examples
    --------
    >>> plain(12), plain(2**60), plain(1 / 3), plain(float("nan")), plain(pd.NA)
    (12, '1152921504606846976', 0.333333333, None, None)
    """
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _LARGEST_EXACT else str(value)
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return None if value is None or value is pd.NA or value is pd.NaT else str(value)


def _column(name: str, column: pd.Series[Any], look: TableLook) -> Column:
    is_number = column.dtype.kind in _NUMBER_KINDS
    label, unit, scale = _heading(name, column if is_number else None)
    return {
        "name": name,
        "label": look.labels.get(name, label),
        "unit": unit,
        "scale": scale,
        "kind": ("id" if name in _IDENTIFIERS else "number") if is_number else "text",
        "select": look.selects.get(name, ""),
        "besides": list(look.besides) if name in look.selects else [],
    }


def _heading(name: str, numbers: pd.Series[Any] | None) -> tuple[str, str, float]:
    """The name of a column in words, its unit, and what a value is divided by."""
    if numbers is None:
        return _words(name), "", 1
    if name.endswith("_ns"):
        unit = time_unit(_largest(numbers))
        return _words(name.removesuffix("_ns")), unit.symbol, unit.ns
    if name == "bytes" or name.endswith("_bytes") or name.startswith("bytes_"):
        largest = _largest(numbers)
        scale, symbol = data_unit(largest)
        return _words(name.removesuffix("_bytes").removeprefix("bytes_")), symbol, scale
    if name == "flop":
        power, symbol = flop_unit(_largest(numbers))
        return "computed", symbol, power
    for ending, symbol in _UNITS:
        if name.endswith(ending):
            return _words(name.removesuffix(ending)), symbol, 1
    return _words(name), "", 1


def _largest(numbers: pd.Series[Any]) -> float:
    largest = numbers.abs().max()
    return 0 if pd.isna(largest) else float(largest)


def _words(name: str) -> str:
    return name.replace("_", " ").strip() or name


def cell_text(value: Cell, column: Column) -> str:
    """Write a value for people, as the front end does: three digits, separated thousands.

    Examples
    --------
    >>> sums = table_view(pd.DataFrame({"sum_ns": [1_234_567]}))["columns"][0]
    >>> cell_text(1_234_567, sums), cell_text(None, sums)
    ('1.23', '')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    return str(value) if column["kind"] == "id" else number(value / column["scale"])


def shown_cells(row: Sequence[Cell], table: Table) -> list[str]:
    """Write a row for people."""
    names = table["names"]
    return [
        cell_text(names.get(value, value) if isinstance(value, str) else value, column)
        for value, column in zip(row, table["columns"], strict=True)
    ]


def heading_text(column: Column) -> str:
    """Heading with its unit."""
    return f"{column['label']} ({column['unit']})" if column["unit"] else column["label"]
