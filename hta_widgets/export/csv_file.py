"""Tables as CSV files that spreadsheets show as they are."""

from __future__ import annotations

from csv import QUOTE_NONNUMERIC
from pathlib import Path
from typing import Any, Final

import pandas as pd
from pandas.api.types import is_numeric_dtype

from hta_widgets.atomic_write import atomic_write
from hta_widgets.errors import write_errors
from hta_widgets.trace.remote.urls import PathLike

FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""First characters that make a spreadsheet calculate a cell (OWASP, "CSV Injection")."""


def write_csv(table: pd.DataFrame, path: PathLike) -> Path:
    """Write a table without its index to a CSV file in which no text is a formula; return the path.

    Names in a trace come from whoever recorded it. So text that starts like a formula gets a single
    quote (``'``) in front, as OWASP advises, and all text is in double quotes. Numbers, including
    negative ones, are written as they are, and cells without a value are empty.

    A file with that name is replaced. Raises `WriteError` if the system refuses to write it.
    """
    target = Path(path).expanduser()
    safe = safe_texts(table)
    with write_errors(target), atomic_write(target) as partial:
        safe.to_csv(partial, index=False, quoting=QUOTE_NONNUMERIC, lineterminator="\n")
    return target


def safe_texts(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with no text that is a formula, headings included."""
    return table.rename(columns=as_text).apply(_safe)


def as_text(value: object) -> object:
    """Return a value, or text with a quote in front if it would be a formula.

    Examples
    --------
    >>> as_text("=cmd()"), as_text("gemm"), as_text(-3)
    ("'=cmd()", 'gemm', -3)
    """
    is_formula = isinstance(value, str) and value.startswith(FORMULA_STARTS)
    return f"'{value}" if is_formula else value


def _safe(column: pd.Series[Any]) -> pd.Series[Any]:
    return column if is_numeric_dtype(column) else column.map(as_text, na_action="ignore")
