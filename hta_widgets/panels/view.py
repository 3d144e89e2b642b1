"""What a panel shows, as the JSON that travels to the browser."""

from __future__ import annotations

import json
import math
from typing import Any, Final

import pandas as pd
import plotly.graph_objects as go

from hta_widgets.quantities import number

MAX_ROWS: Final = 200
"""Rows of a table that are sent."""


def as_text(view: dict[str, Any], _: object) -> str:
    """Encode a view for the browser: as text it takes one line of a saved notebook.

    Notebooks are written with every number of a list on a line of its own, far indented.
    """
    return json.dumps(view, separators=(",", ":"))


def figure_view(name: str, figure: go.Figure) -> dict[str, Any]:
    """Turn a figure into JSON, its number arrays into base64, as plotly does.

    The template is left out: the front end makes one from the notebook's theme.
    """
    content = json.loads(figure.to_json())
    content["layout"].pop("template", None)
    return {"name": name, "data": content["data"], "layout": content["layout"]}


def table_view(table: pd.DataFrame, max_rows: int = MAX_ROWS) -> dict[str, Any]:
    """Turn a table into text, cell by cell, numbers to be aligned right."""
    shown = table.head(max_rows)
    columns = [shown.iloc[:, place] for place in range(shown.shape[1])]
    return {
        "columns": [_heading(column) for column in columns],
        "rows": [list(row) for row in zip(*map(_texts, columns), strict=True)],
        "total": len(table),
    }


def _heading(column: pd.Series[Any]) -> dict[str, str]:
    is_number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    return {"label": str(column.name), "align": "right" if is_number else "left"}


def _texts(column: pd.Series[Any]) -> list[str]:
    return [format_cell(value) for value in column.tolist()]


def format_cell(value: object) -> str:
    """Write a value for a reader: thousands apart, floats with three significant digits.

    Examples
    --------
    >>> format_cell(1234567), format_cell(12.3456), format_cell(1234.5), format_cell(None)
    ('1,234,567', '12.3', '1,234', '')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return "" if math.isnan(value) else number(value)
    return "" if value is None or value is pd.NA or value is pd.NaT else str(value)
