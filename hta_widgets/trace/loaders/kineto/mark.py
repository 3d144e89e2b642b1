"""Mark in trace files that hta_widgets wrote as copies of others."""

from __future__ import annotations

import json
import re

from hta_widgets.trace.loaders.kineto.brackets import WHITE

_MARK = re.compile(rb'\s*\{\s*"hta_widgets"\s*:')


def is_derived(head: bytes) -> bool:
    """Whether a trace has the mark, given the text before its events."""
    return _MARK.match(head) is not None


def add_mark(head: bytes, source: str) -> bytes:
    """Add the mark to the text before the events of a trace, with the name of its source.

    The text ends with the bracket that opens the list of events. The bare-array form, which cannot
    hold a mark, becomes the object form.
    """
    if is_derived(head):
        return head
    mark = b'{"hta_widgets": ' + json.dumps({"derived_from": source}).encode()
    opening = head.lstrip(WHITE)
    if opening.startswith(b"["):
        return mark + b',\n"traceEvents": ['
    return mark + b"," + opening[1:]
