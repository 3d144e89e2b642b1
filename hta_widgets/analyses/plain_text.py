"""Tables and sentences as short plain text, for an assistant that reads them; JSON on one line."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Final

import pandas as pd

from hta_widgets.names.shorten import cut_in_the_middle, remembered

MOST_CHARACTERS: Final = 12_000
"""About 3,000 to 4,000 tokens."""

MOST_NAME: Final = 120


def tables_of(made: object) -> dict[str, pd.DataFrame]:
    """The tables of a result by name, in their order."""
    names = [each.name for each in fields(made)] if is_dataclass(made) else []
    values = {name: getattr(made, name) for name in names}
    return {name: each for name, each in values.items() if isinstance(each, pd.DataFrame)}


def csv_of(table: pd.DataFrame, rows: int) -> str:
    """The first rows as CSV, and how many more are left out."""
    shown = table.head(rows).copy()
    for name in shown:
        if not pd.api.types.is_numeric_dtype(shown[name]):
            shown[name] = [cut_in_the_middle(str(each), MOST_NAME) for each in shown[name]]
    text = shown.to_csv(index=False, float_format="%.4g")
    left = len(table) - len(shown)
    return f"{text}({left:,} more rows)" if left else text


def with_notices(finding: str, notices: tuple[str, ...] | list[str]) -> list[str]:
    """The finding and its notices, one per line."""
    return [*filter(None, [finding]), *(f"Notice: {each}" for each in notices)]


def bounded(text: str, then: str = "", most: int = MOST_CHARACTERS) -> str:
    """The text cut to whole lines, and what to ask next: together at most `most` characters."""
    room = most - len(then) - 60
    if len(text) > room:
        kept = text[:room].rpartition("\n")[0] or text[:room]
        text = f"{kept}\n(cut: {len(text) - len(kept):,} more characters)"
    return f"{text.rstrip()}\n{then}".rstrip()


@remembered  # ranks of a job have the same shapes
def one_line(text: str) -> str:
    r"""JSON text on one line, however the trace lays it out.

    Examples
    --------
    >>> one_line("[[2,3],\n  []]")
    '[[2, 3], []]'
    """
    try:
        return json.dumps(json.loads(text), ensure_ascii=False)
    except (ValueError, RecursionError):
        return " ".join(text.split())
