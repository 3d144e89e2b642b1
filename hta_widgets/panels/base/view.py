"""Figures as compact JSON for the browser, with number arrays in base64."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.arrays import narrowed
from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.panels.base.protocol import Figure, View
from hta_widgets.quantities import number

_BROWSER_TYPES = {"i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8"}
_LISTS = (list, tuple)
_SIMPLE = (str, int, type(None))


def as_text(view: View, _: object) -> str:
    """Encode a view for the browser as text, which takes up one line in a saved notebook.

    Notebooks write every number of a list on a separate, deeply indented line.
    """
    return json.dumps(view, separators=(",", ":"))


def columns_as_text(columns: dict[str, Any]) -> str:
    """Encode columns of numbers (as base64) and of texts as JSON."""
    return json.dumps(_json(columns), separators=(",", ":"))


def figure_view(name: str, drawing: Drawing) -> Figure:
    """Turn a figure into JSON, with number arrays in base64, as plotly does.

    It has no template: the front end makes one from the notebook's theme.
    """
    return {"name": name, "data": _json(drawing.data), "layout": _json(drawing.layout)}


def _json(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, _SIMPLE):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _json(each) for key, each in value.items()}
    if isinstance(value, _LISTS):
        return [each if isinstance(each, _SIMPLE) else _json(each) for each in value]
    return _array(value) if isinstance(value, np.ndarray) else _json(value.item())


def _array(values: NDArray[Any]) -> Any:  # noqa: ANN401
    """Turn numbers into the bytes of a JavaScript array; none has 64-bit integers."""
    if values.dtype == object:
        return values.tolist()
    packed = narrowed(values) if values.dtype == np.int64 else values
    code = packed.dtype.str[1:]
    if code not in _BROWSER_TYPES or not packed.size:
        return _json(packed.tolist())
    content = base64.b64encode(packed.tobytes()).decode("ascii")
    shape = {"shape": str(packed.shape)[1:-1]} if packed.ndim > 1 else {}
    return {"dtype": code, "bdata": content, **shape}


def format_cell(value: object) -> str:
    """Format a value for display: thousands separators, three significant digits for floats.

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
