"""Copy a trace file with some events changed, streaming it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from hta_widgets.export.extended_trace import BETWEEN
from hta_widgets.trace.loaders.kineto.decode import Fields, decode_fields
from hta_widgets.trace.loaders.kineto.mark import add_mark
from hta_widgets.trace.loaders.kineto.text import EventText

Change = Callable[[int, Fields], bool]

_encode = msgspec.json.encode


def rewritten(text: EventText, change: Change) -> Iterator[bytes]:
    """Text of a copy without its end (see `closing`), piece by piece.

    Parameters
    ----------
    text : EventText
    change : callable
        From the position of an event in the file, and its fields, to whether it stays; it may
        change the fields.
    """
    text.header()
    before = add_mark(text.head, text.path.name) + b"\n"
    position = 0
    for piece in text:
        reading = decode_fields(piece, text.separator, text.hold_back)
        places = range(position, position + len(reading.events))
        kept = [
            event
            for place, event in zip(places, reading.events, strict=True)
            if change(place, event)
        ]
        position += len(reading.events) + reading.dropped
        if kept:
            yield before + BETWEEN.join(map(_encode, kept))
            before = BETWEEN
    if before is not BETWEEN:
        yield before


def add_argument(event: Fields, key: str, value: msgspec.Raw) -> None:
    """Add an argument to an event; arguments that are not an object become one."""
    args = event.get("args")
    try:
        known = msgspec.json.decode(args or b"{}", type=Fields | None) or {}
    except msgspec.ValidationError:
        known = {"args": msgspec.Raw(args or b"")}
    event["args"] = msgspec.Raw(_encode({**known, key: value}))
