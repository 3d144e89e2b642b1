"""JSON text as in a trace, laid out in one way."""

from __future__ import annotations

import json


def one_line(text: str) -> str:
    r"""JSON text on one line, however it is laid out in the trace.

    Examples
    --------
    >>> one_line("[[2,3],\n  []]")
    '[[2, 3], []]'
    """
    try:
        return json.dumps(json.loads(text), ensure_ascii=False)
    except (ValueError, RecursionError):
        return " ".join(text.split())
