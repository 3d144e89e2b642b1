"""The data table of a panel: the first rows come with the view, the page asks for the others."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from csv import QUOTE_MINIMAL, QUOTE_NONNUMERIC
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.errors import ParameterError, reason
from hta_widgets.export.csv_file import safe_texts
from hta_widgets.lazy_modules import pa, pc
from hta_widgets.names.readable import distinct_labels
from hta_widgets.panels.base.memoize import MemoizeLast
from hta_widgets.panels.base.protocol import Cell, Column, Table
from hta_widgets.quantities import MINUS, NS_PER_MS, data_unit, flop_unit, number, time_unit

MAX_ROWS: Final = 20
"""Number of rows that come with a view; the page asks for others as it needs them."""

LABEL_WIDTH: Final = 56
"""Maximum characters of a label that replaces a kernel name."""

MOST_NAMES: Final = 5_000
"""With more kernels than this, the table shows full names instead of labels."""

SELECTS: Final[Mapping[str, str]] = {
    "rank": "ranks",
    "stream": "streams",
    "step": "steps",
    "kernel": "kernel",
}
"""Columns that identify what a row is about, and the selection fields that they set."""

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

LONGEST_FILTER: Final = 500
"""Maximum characters of a filter."""

_LIKE_A_REGEX: Final = 3
"""Minimum characters of a regular expression, including its slashes."""

ROWS: Final = "table-rows"

TEXT: Final = "table-text"

MOST_ROWS: Final = 1_000
"""Maximum rows in one answer."""

CHUNK_BYTES: Final = 500_000
"""Maximum packed text in one answer: a Jupyter server drops more than 3 MB in 3 seconds."""

_KINDS: Final[dict[str, type]] = {"id": str, "sort": str, "descending": bool, "filter": str}

_MORE: Final[dict[str, dict[str, type]]] = {
    ROWS: {"first": int, "count": int},
    TEXT: {"style": str, "offset": int},
}

_ABBREVIATIONS: Final = ("gpu", "cpu", "cuda", "api")

_STYLES: Final = ("csv", "tsv")


@dataclass(frozen=True)
class TableLook:
    """How a panel shows its tables."""

    selects: Mapping[str, str] = field(default_factory=dict)
    """Selection fields, by the column that sets them. A row sets all of its fields."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Headings that differ from the column's name in words; the unit is appended."""
    besides: tuple[str, ...] = ()
    """Texts that cannot be selected."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Labels shown in place of some texts."""
    words: Callable[[str], str] = str
    """Rewrites headings in the terms of the GPU's vendor."""


def table_view(
    table: pd.DataFrame,
    look: TableLook | None = None,
    names: Mapping[str, str] | None = None,
) -> Table:
    """Describe the columns of a table, and return the values of its first rows.

    The names are those of `kernel_labels`.
    """
    look = look or TableLook()
    rows = rows_of(table.head(MAX_ROWS))
    return {
        "columns": [_column(str(name), column, look) for name, column in table.items()],
        "rows": rows,
        "total": len(table),
        "names": names_in(rows, names or {}),
    }


def kernel_labels(table: pd.DataFrame, look: TableLook) -> dict[str, str]:
    """Labels shown in place of texts; different kernel names get different labels."""
    columns = [
        name for name in map(str, table) if name == "kernel" or look.selects.get(name) == "kernel"
    ]
    every = dict.fromkeys(name for column in columns for name in table[column].dropna().unique())
    names = [name for name in every if isinstance(name, str)]
    if len(names) > MOST_NAMES:
        return {**look.names}
    labels = distinct_labels(names, LABEL_WIDTH)
    shown = {name: label for name, label in zip(names, labels, strict=True) if name != label}
    return {**look.names, **shown}


def names_in(rows: Iterable[Sequence[Cell]], names: Mapping[str, str]) -> dict[str, str]:
    """The entries of `names` that occur in some rows."""
    cells = dict.fromkeys(cell for row in rows for cell in row if isinstance(cell, str))
    return {cell: names[cell] for cell in cells if cell in names}


def rows_of(table: pd.DataFrame) -> list[list[Cell]]:
    """Rows of values that JSON can represent."""
    columns = [[plain(value) for value in column.tolist()] for _, column in table.items()]
    return [list(row) for row in zip(*columns, strict=True)]


def plain(value: object) -> Cell:
    """Return a value in a form that JSON can represent.

    Integers too large for a browser to hold exactly become text; missing values become None.

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
        "label": look.words(look.labels.get(name, label)),
        "unit": unit,
        "scale": scale,
        "kind": ("id" if name in _IDENTIFIERS else "number") if is_number else "text",
        "select": look.selects.get(name, ""),
        "besides": list(look.besides) if name in look.selects else [],
    }


def _heading(name: str, numbers: pd.Series[Any] | None) -> tuple[str, str, float]:
    """A column's name in words, its unit, and the divisor of its values."""
    if numbers is None:
        return _words(name), "", 1
    if name.endswith("_ns"):
        unit = time_unit(_largest(numbers) or NS_PER_MS)  # zeros: ms, like neighbouring columns
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
    words = name.replace("_", " ").split()
    return " ".join(word.upper() if word in _ABBREVIATIONS else word for word in words) or name


def cell_text(value: Cell, column: Column) -> str:
    """Format a value for people, as the front end does: three digits, separated thousands.

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
    """Format a row for people."""
    names = table["names"]
    return [
        cell_text(names.get(value, value) if isinstance(value, str) else value, column)
        for value, column in zip(row, table["columns"], strict=True)
    ]


def heading_text(column: Column) -> str:
    """Heading of a column, with its unit."""
    return f"{column['label']} ({column['unit']})" if column["unit"] else column["label"]


@dataclass(frozen=True)
class Order:
    """A choice of rows of a table, and their order."""

    sort: str = ""
    """Name of the column to sort by; empty for the table's own order."""
    descending: bool = False
    filter: str = ""
    """Text that a cell of the row must contain, ignoring case; between slashes, a regular
    expression (RE2, whose running time is bounded). Number cells must equal the filter."""


def positions(table: pd.DataFrame, order: Order, names: dict[str, str]) -> Int64Array:
    """Positions of the rows, from 0.

    Numbers are sorted by size, texts ignoring case; equal rows keep the table's order, and rows
    without a value come last. A filter matches both a text and the name shown in its place. Raises
    a `ParameterError` if there is no such column, or the filter is not a valid regular expression.
    """
    if order.sort and order.sort not in table.columns:
        msg = f"the table has no column {order.sort!r}; it has {', '.join(map(str, table.columns))}"
        raise ParameterError(msg)
    found = np.flatnonzero(matching(table, order.filter, names))
    if not order.sort:
        return found
    column = table[order.sort]
    keys = column if _is_ordered(column) else _texts(column).str.lower()
    ranked = keys.iloc[found].reset_index(drop=True)
    by = ranked.sort_values(ascending=not order.descending, kind="stable", na_position="last")
    return np.asarray(found[by.index.to_numpy()], dtype=np.int64)


def matching(table: pd.DataFrame, wanted: str, names: dict[str, str]) -> Mask:
    """Whether a filter matches each row."""
    every = np.ones(len(table), dtype=bool)
    if not wanted.strip():
        return every
    found = ~every
    for place in range(table.shape[1]):
        column = table.iloc[:, place]
        if _is_ordered(column):
            found |= _equal(column, wanted)
        else:
            codes, texts = pd.factorize(_texts(column))
            shown = [names.get(text, text) for text in texts]
            hits = _contains([*texts], wanted) | _contains(shown, wanted)
            found |= np.append(hits, False)[codes]
    return found


def as_delimited(table: pd.DataFrame, style: Literal["csv", "tsv"]) -> bytes:
    """All rows as gzipped text, in which no cell is a spreadsheet formula."""
    safe = safe_texts(table)
    if style == "csv":
        text = safe.to_csv(index=False, quoting=QUOTE_NONNUMERIC, lineterminator="\n")
    else:
        text = safe.to_csv(index=False, sep="\t", quoting=QUOTE_MINIMAL, lineterminator="\n")
    return gzip.compress(text.encode(errors="replace"), compresslevel=6, mtime=0)


def _is_ordered(column: pd.Series[Any]) -> bool:
    """Whether the values are numbers or booleans."""
    return is_numeric_dtype(column)


def _texts(column: pd.Series[Any]) -> pd.Series[Any]:
    return column.astype(object).where(column.notna(), None).map(str, na_action="ignore")


def _equal(column: pd.Series[Any], wanted: str) -> Mask:
    try:
        value = float(wanted.replace(",", "").replace(MINUS, "-"))
    except ValueError:
        return np.zeros(len(column), dtype=bool)
    return (column == value).fillna(value=False).to_numpy(dtype=bool)


def _contains(texts: list[str], wanted: str) -> Mask:
    is_regex = len(wanted) >= _LIKE_A_REGEX and wanted[0] == wanted[-1] == "/"
    search = pc.match_substring_regex if is_regex else pc.match_substring
    pattern = wanted[1:-1] if is_regex else wanted.strip()
    safe = [text.encode(errors="replace").decode() for text in texts]
    try:
        hits = search(pa.array(safe, type=pa.string()), pattern, ignore_case=True)
    except pa.ArrowInvalid as error:
        msg = f"the filter is not a valid regular expression: {error}"
        raise ParameterError(msg) from None
    return np.asarray(hits.to_numpy(zero_copy_only=False), dtype=bool)


class Answered(NamedTuple):
    """Content and bytes of a custom message."""

    content: dict[str, Any]
    buffers: list[bytes]


def is_about_table(content: object) -> bool:
    """Whether a custom message asks about a table."""
    return isinstance(content, dict) and content.get("kind") in [*_MORE]


def answer_about_table(
    content: dict[str, Any],
    table_of: Callable[[], pd.DataFrame],
    names: dict[str, str],
    memo: MemoizeLast,
) -> Answered:
    """Answer a question about a table, or say why not.

    The question has a ``kind``, either ``"table-rows"`` or ``"table-text"``; an ``id``, a text that
    the answer repeats; ``sort``, ``descending`` and ``filter`` of an `Order`; for rows ``first``
    and ``count``, for text its ``style`` (``"csv"``, ``"tsv"``) and the ``offset`` (bytes) in it.
    `names` are shown in place of kernel names. The memo keeps the order and the text from one
    question to the next.
    """
    number = content.get("id")
    asked = {"kind": content["kind"], "id": number if isinstance(number, str) else None}
    try:
        _check(content)
        table = table_of()
        order = Order(content["sort"], content["descending"], content["filter"])
        found = memo.get(
            "order",
            partial(positions, table, order, names),
            *(table, order.sort, order.descending, order.filter),
        )
        if content["kind"] == ROWS:
            some = found[content["first"] : content["first"] + content["count"]]
            rows = rows_of(table.iloc[some])
            answer = {
                "first": content["first"],
                "rows": rows,
                "total": len(found),
                "columns": [str(column) for column in table],
                "names": names_in(rows, names),
            }
            return Answered({**asked, **answer}, [])
        text = memo.get(
            "text",
            lambda: as_delimited(table.iloc[found], content["style"]),
            *(found, content["style"]),
        )
        chunk = text[content["offset"] : content["offset"] + CHUNK_BYTES]
        return Answered({**asked, "offset": content["offset"], "bytes": len(text)}, [chunk])
    except Exception as failure:  # noqa: BLE001  # it is shown beside the table
        return Answered({**asked, "problem": reason(failure)}, [])


def _check(content: dict[str, Any]) -> None:
    kinds = _KINDS | _MORE[content["kind"]]
    for name, kind in kinds.items():
        value = content.get(name)
        if type(value) is not kind:
            msg = f"{name} must be of type {kind.__name__}, got {str(value)[:80]!r}"
            raise ParameterError(msg)
    if len(content["filter"]) > LONGEST_FILTER:
        msg = f"a filter has at most {LONGEST_FILTER} characters"
        raise ParameterError(msg)
    if content["kind"] == ROWS and not (content["first"] >= 0 < content["count"] <= MOST_ROWS):
        msg = f"first must be at least 0, and count from 1 to {MOST_ROWS}"
        raise ParameterError(msg)
    if content["kind"] == TEXT and (content["style"] not in _STYLES or content["offset"] < 0):
        msg = f"style must be one of {', '.join(_STYLES)}, and offset at least 0"
        raise ParameterError(msg)
