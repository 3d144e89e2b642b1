"""What a page asks about a panel's table, and the answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import pandas as pd

from hta_widgets.errors import ParameterError, reason
from hta_widgets.panels.base.memoize import MemoizeLast
from hta_widgets.panels.base.table_rows import LONGEST_FILTER, Order, as_delimited, positions
from hta_widgets.panels.base.table_view import names_in, rows_of

ROWS: Final = "table-rows"
TEXT: Final = "table-text"
MOST_ROWS: Final = 1_000
"""Rows of one answer."""

CHUNK_BYTES: Final = 500_000
"""Of packed text in one answer: a server of Jupyter drops more than 3 MB in 3 seconds."""

_KINDS: Final[dict[str, type]] = {"id": str, "sort": str, "descending": bool, "filter": str}
_MORE: Final[dict[str, dict[str, type]]] = {
    ROWS: {"first": int, "count": int},
    TEXT: {"style": str, "offset": int},
}
_STYLES: Final = ("csv", "tsv")


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
    """Answer a question about a table, or refuse it in words.

    Parameters
    ----------
    content : dict
        ``kind``, either ``"table-rows"`` or ``"table-text"``; ``id``, a text that the answer
        repeats; ``sort``, ``descending`` and ``filter`` of an `Order`; ``first`` and ``count`` of
        the rows, or the ``style`` of the text (``"csv"``, ``"tsv"``) and the ``offset`` (bytes) in
        it.
    table_of : callable
        Returns the table, or raises what is wrong with it.
    names : dict of str to str
        What is shown in place of the names of kernels.
    memo : MemoizeLast
        Keeps the order and the text from one question to the next.
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
