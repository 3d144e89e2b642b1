"""Rows of a table in the order and with the filter that a page asks for."""

from __future__ import annotations

import gzip
from csv import QUOTE_MINIMAL, QUOTE_NONNUMERIC
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.errors import ParameterError
from hta_widgets.export.csv_file import safe_texts
from hta_widgets.lazy_modules import LazyModule

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    pa = LazyModule("pyarrow")
    pc = LazyModule("pyarrow.compute")

LONGEST_FILTER: Final = 500
"""Characters of a filter."""

_LIKE_A_REGEX: Final = 3
"""Characters of the shortest regular expression between slashes."""


@dataclass(frozen=True)
class Order:
    """Which rows of a table, in which order.

    Parameters
    ----------
    sort : str
        Name of the column to sort by; empty for the table's own order.
    descending : bool
    filter : str
        Text that one of the texts of a row must contain, in any case; between slashes a regular
        expression (RE2's, whose time is bounded). A number must be all of it.
    """

    sort: str = ""
    descending: bool = False
    filter: str = ""


def positions(table: pd.DataFrame, order: Order, names: dict[str, str]) -> Int64Array:
    """Places of the rows, from 0.

    Numbers are ordered by size, texts regardless of case; equal rows keep the table's order, and
    those without a value come last.

    Parameters
    ----------
    table : DataFrame
    order : Order
    names : dict of str to str
        What is shown in place of some texts; a filter finds both.

    Raises
    ------
    ParameterError
        If there is no such column, or the filter is no regular expression.
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
    """Whether each row is found by a filter."""
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
    """All rows as text, packed with gzip; no text in it is a formula for a spreadsheet."""
    safe = safe_texts(table)
    if style == "csv":
        text = safe.to_csv(index=False, quoting=QUOTE_NONNUMERIC, lineterminator="\n")
    else:
        text = safe.to_csv(index=False, sep="\t", quoting=QUOTE_MINIMAL, lineterminator="\n")
    return gzip.compress(text.encode(errors="replace"), compresslevel=6, mtime=0)


def _is_ordered(column: pd.Series[Any]) -> bool:
    """Whether the values are numbers, or yes and no."""
    return is_numeric_dtype(column)


def _texts(column: pd.Series[Any]) -> pd.Series[Any]:
    return column.astype(object).where(column.notna(), None).map(str, na_action="ignore")


def _equal(column: pd.Series[Any], wanted: str) -> Mask:
    try:
        value = float(wanted.replace(",", ""))
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
        msg = f"the filter is no regular expression: {error}"
        raise ParameterError(msg) from None
    return np.asarray(hits.to_numpy(zero_copy_only=False), dtype=bool)
