"""Static HTML of a panel, for saved notebooks shown without widgets."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from hta_widgets.panels.base.protocol import Table, View

ROWS: Final = 10


def html_summary(title: str, view: View) -> str:
    """Title, finding, error and the first rows of a view as escaped HTML."""
    texts = dict.fromkeys((view["finding"], view["error"], view["empty"]))
    paragraphs = "".join(f"<p>{escape(text)}</p>" for text in texts if text)
    return f"<b>{escape(title)}</b>{paragraphs}{_table(view['table'])}"


def _table(table: Table | None) -> str:
    if table is None:
        return ""
    head = _row("th", (column["label"] for column in table["columns"]))
    body = "".join(_row("td", texts) for texts in table["rows"][:ROWS])
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def _row(tag: str, texts: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(text)}</{tag}>' for text in texts)}</tr>"
