"""Static HTML of a panel, for saved notebooks shown without widgets."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import accumulate
from typing import Final

from hta_widgets.panels.base.protocol import Table, View

ROWS: Final = 10
LONGEST_TEXT: Final = 200
"""Characters of a cell; names of kernels have thousands."""


def html_summary(title: str, view: View, rows: int = ROWS) -> str:
    """Title, finding, error and the first rows of a view as escaped HTML."""
    texts = dict.fromkeys((view["finding"], view["error"], view["empty"]))
    paragraphs = "".join(f"<p>{escape(text)}</p>" for text in texts if text)
    return f"<b>{escape(title)}</b>{paragraphs}{_table(view['table'], rows)}"


def within(limit: int, parts: Iterable[str]) -> str:
    """Join as many of the first parts as take at most `limit` bytes.

    Examples
    --------
    >>> within(5, ["12", "34", "56", "7"])
    '1234'
    """
    texts = list(parts)
    sizes = accumulate(len(text.encode()) for text in texts)
    return "".join(text for text, size in zip(texts, sizes, strict=True) if size <= limit)


def _table(table: Table | None, rows: int) -> str:
    if table is None or rows == 0:
        return ""
    head = _row("th", (column["label"] for column in table["columns"]))
    body = "".join(_row("td", texts) for texts in table["rows"][:rows])
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def _row(tag: str, texts: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(_shortened(text))}</{tag}>' for text in texts)}</tr>"


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"
