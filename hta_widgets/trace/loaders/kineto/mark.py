"""The mark on trace files that hta_widgets itself has written from others."""

from __future__ import annotations

import json
import re

_WHITE = b" \t\r\n"
_MARK = re.compile(rb'\s*\{\s*"hta_widgets"\s*:')


def is_derived(head: bytes) -> bool:
    """Tell from what stands before its events whether a file has the mark."""
    return _MARK.match(head) is not None


def marked(head: bytes, source: str) -> bytes:
    """Put the mark into what stands before the events of a trace.

    Parameters
    ----------
    head : bytes
        Up to the bracket that opens the list of events. The bare-array form, which has no place
        for a mark, becomes the object form.
    source : str
        Name of the file that the events come from.
    """
    if is_derived(head):
        return head
    mark = b'{"hta_widgets": ' + json.dumps({"derived_from": source}).encode()
    opening = head.lstrip(_WHITE)
    if opening.startswith(b"["):
        return mark + b',\n"traceEvents": ['
    return mark + b"," + opening[1:]
