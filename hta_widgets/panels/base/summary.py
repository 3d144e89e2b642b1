"""Static HTML of a panel, for saved notebooks that are shown without widgets."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Final
from urllib.parse import quote

from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.figures.svg.picture import svg
from hta_widgets.panels.base.protocol import AdviceRow, FindingRow, Table, View
from hta_widgets.panels.base.table import heading_text, shown_cells

SUMMARY_BYTES: Final = 60_000
"""Maximum size that the summary of a panel or a dashboard adds to a saved notebook."""

ROWS: Final = 10
FEW_ROWS: Final = 3
"""Rows of the table, normally and where space is short."""

LONGEST_TEXT: Final = 200
"""Maximum characters of a cell; kernel names can have thousands."""

_LOG: Final = logging.getLogger(__name__)
_BYTES_PER_POINT: Final = 24
"""Bytes per point of a step line, including as much again for what surrounds it."""

_LONGEST_PARAGRAPH: Final = 1_000
_UNQUOTED: Final = " !$'()*+,/:;=?@[]^{|}"
"""Characters that need no escape in a URL, besides letters, digits and ``_.-~``."""

_TAG: Final = re.compile("<[^>]*>")
"""Attributes hold neither quotes nor brackets: `hta_widgets.figures.svg` escapes them."""


def html_summary(
    title: str,
    view: View,
    drawings: Mapping[str, Drawing],
    limit: int = SUMMARY_BYTES,
    own: str = "",
) -> str:
    """Title, finding, error, its own image, charts and first rows of a view, as escaped HTML.

    Images and rows that need more bytes than the limit are left out.
    """
    counted = f"Only {view['time']}." if view["time"] else ""
    # the sentence of a diagnosis is its first finding, which its rows repeat in more detail
    is_said = any(row["sentence"] == view["finding"] for row in view["findings"])
    said = "" if is_said else view["finding"]
    texts = dict.fromkeys((counted, said, view["error"], view["empty"]))
    paragraphs = (_shortened(text, _LONGEST_PARAGRAPH) for text in texts if text)
    head = f"<b>{escape(title)}</b>" + "".join(f"<p>{escape(text)}</p>" for text in paragraphs)
    findings = findings_table(view["findings"])
    left = limit - _size(head + findings)
    if left < 0:
        return ""
    own = own if _size(own) <= left else ""
    left -= _size(own)
    few, more = (_table(view["table"], rows) for rows in (FEW_ROWS, ROWS))
    shown: list[str] = []
    for picture in pictures(drawings, left // _BYTES_PER_POINT):
        reserved = _size(few) if shown else 0  # the first chart matters more than the table
        if _size(picture) + reserved <= left:
            shown.append(picture)
            left -= _size(picture)
    table = next((each for each in (more, few) if _size(each) <= left), "")
    return "".join([head, own, findings, *shown, table])


def pictures(drawings: Mapping[str, Drawing], points: int) -> Iterator[str]:
    """Drawings as images; a step line has a limited number of points."""
    for name, drawn in drawings.items():
        try:
            picture = svg(drawn, points=points)
        except Exception:  # noqa: BLE001  # a panel of a user may draw what `svg` does not know
            _LOG.info("no static picture of %r", name, exc_info=True)
        else:
            caption = f"<p>{escape(name)}</p>" if len(drawings) > 1 else ""
            yield f"{caption}{image(picture, name)}"


def image(picture: str, name: str) -> str:
    """Image element that holds its SVG; empty without one.

    JupyterLab removes ``<svg>`` elements from an untrusted notebook and leaves their
    labels as loose text, but it keeps images. No browser runs scripts in an image.
    """
    if not picture:
        return ""
    short = _TAG.sub(lambda tag: tag[0].replace('"', "'"), picture)  # one byte each, not three
    address = quote(short, safe=_UNQUOTED, errors="replace")
    return f'<p><img alt="Chart: {escape(name)}" src="data:image/svg+xml,{address}"></p>'


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))


def findings_table(rows: Iterable[FindingRow]) -> str:
    """All findings as a table, including those that a panel folds."""
    body = "".join(_row("td", _words_of(row), _LONGEST_PARAGRAPH) for row in rows)
    head = _row("th", ("Cost", "Cause", "What to try"))
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>" if body else ""


def _words_of(row: FindingRow) -> tuple[str, ...]:
    first = row["advice"][0] if row["advice"] else AdviceRow(do="", code="")
    price = f"{row['bound']} {row['price']}".strip().replace(" ", "\N{NO-BREAK SPACE}")
    return price, f"{row['sentence']} {row['doubt']}", f"{first['do']} {first['code']}".strip()


def _table(table: Table | None, rows: int) -> str:
    if table is None:
        return ""
    shown = (shown_cells(row, table) for row in table["rows"][:rows])
    return table_of_texts(map(heading_text, table["columns"]), shown)


def table_of_texts(heading: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table with a heading row; long texts are shortened."""
    body = "".join(_row("td", texts) for texts in rows)
    return f"<table><thead>{_row('th', heading)}</thead><tbody>{body}</tbody></table>"


def _row(tag: str, texts: Iterable[str], longest: int = LONGEST_TEXT) -> str:
    cells = (escape(_shortened(text.strip(), longest)) for text in texts)
    return f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in cells)}</tr>"


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
