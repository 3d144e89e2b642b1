"""Repair event text that is not quite JSON.

Real traces contain what JSON forbids: ``NaN``, control characters, broken UTF-8, Windows paths with
single backslashes. Only the pieces that need it are repaired; an event that cannot be repaired is
left out and counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from hta_widgets.trace.loaders.kineto.brackets import closing_bracket, length_without

Decoded = TypeVar("Decoded")

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_NOT_A_NUMBER = re.compile(r"(?<=[:\[,])(\s*)-?(?:NaN|nan|Infinity|inf)(?=\s*[,}\]])")
_CONTROL = {code: " " for code in range(0x20) if chr(code) not in "\t\n\r"}
_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_BETWEEN_EVENTS = re.compile(rb'\}\s*,\s*(?=\{\s*"[^"\\]{1,64}"\s*:)')
_PARTS_TOGETHER = 64
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")


def repair(
    text: bytes,
    separator: bytes,
    several: msgspec.json.Decoder[list[Decoded]],
    one: msgspec.json.Decoder[Decoded],
) -> tuple[list[Decoded], int]:
    """Decode events after repair.

    Parameters
    ----------
    text : bytes
        Events separated by commas.
    separator : bytes
        Text that most events start with.
    several, one : Decoder
        Of a list of events, and of one event.

    Returns
    -------
    events : list
    dropped : int
        Events that could not be repaired.
    """
    clean = _NOT_A_NUMBER.sub(r"\1null", text.decode("utf-8", "replace").translate(_CONTROL))
    encoded = clean.encode("utf-8", "replace")
    try:
        return several.decode(b"[" + encoded + b"]"), 0
    except UNREADABLE:
        return _repair_each(encoded, separator, one)


def _repair_each(
    text: bytes, separator: bytes, one: msgspec.json.Decoder[Decoded]
) -> tuple[list[Decoded], int]:
    r"""Repair event by event.

    The text is split wherever an event may start, which may also be inside an event, between
    objects in its arguments. So parts that are unreadable by themselves are tried together::

        {"name": "C:\qs", "args": {"list": [{"a": 1}, {"b": 2}]}}, {"name": ...
        |------------- unreadable -------------|  |--------|
        |------------- repaired together ------------------|

    Parameters
    ----------
    separator : bytes
        Marks certain events in what cannot be repaired, to count them.
    """
    events: list[Decoded] = []
    dropped = 0
    parts = list(_split_events(text))
    position = 0
    while position < len(parts):
        begin, end = parts[position]
        event = _repair_event(text[begin:end], one)
        position += 1
        if event is None:
            joined = _repair_together(text, parts, position, one)
            event, position = joined
        if event is None:
            dropped += max(text.count(separator, begin, end), 1)
        else:
            events.append(event)
    return events, dropped


def _repair_together(
    text: bytes,
    parts: Sequence[tuple[int, int]],
    position: int,
    one: msgspec.json.Decoder[Decoded],
) -> tuple[Decoded | None, int]:
    """Repair an event that has been split, given the position of its second part.

    Returns
    -------
    event : Event, optional
    position : int
        Of the part after the event; as given if there is no event.
    """
    begin = parts[position - 1][0]
    within = parts[position - 1 : position + _PARTS_TOGETHER]
    closed = closing_bracket(text[begin : within[-1][1]], depth=0) or 0
    for after, (_, end) in enumerate(within[1:], start=position + 1):
        if end == begin + closed:
            event = _repair_event(text[begin:end], one)
            return event, position if event is None else after
    return None, position


def _split_events(text: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of each part of the text that may be an event."""
    start = 0
    for found in _BETWEEN_EVENTS.finditer(text):
        yield start, found.start() + 1
        start = found.end()
    yield start, length_without(text, len(text), b" \t\r\n")


def _repair_event(piece: bytes, one: msgspec.json.Decoder[Decoded]) -> Decoded | None:
    try:
        return one.decode(piece)
    except UNREADABLE:
        text = _TRAILING_COMMA.sub(
            r"\1", _BAD_ESCAPE.sub(r"\\\\", piece.decode("utf-8", "replace"))
        )
    try:
        fields = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return _event_from(fields, one) if isinstance(fields, dict) else None


def _event_from(fields: dict[str, Any], one: msgspec.json.Decoder[Decoded]) -> Decoded | None:
    """Build the record from fields of any type."""
    for key in ("ph", "cat", "name"):
        if not isinstance(fields.get(key), str | None):
            fields[key] = str(fields[key])
    if not isinstance(fields.get("args"), dict | None):
        del fields["args"]
    try:
        text = json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")
        return one.decode(text)
    except (*UNREADABLE, ValueError):
        return None
