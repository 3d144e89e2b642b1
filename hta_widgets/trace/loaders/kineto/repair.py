"""Find and repair the events of a text that are not quite JSON.

Real traces contain what JSON forbids: ``NaN``, control characters, broken UTF-8, Windows paths with
single backslashes. Only the events that need it are repaired, and counted. An event that cannot be
repaired is left out, and counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec
import numpy as np

from hta_widgets.trace.loaders.kineto.brackets import closing_bracket, length_without, quotes

Decoded = TypeVar("Decoded")
HoldBack = Callable[[bytes], bytes]

_CONSTANT: Final = re.compile(rb"(?<![\w.-])(?:NaN|-?Infinity)(?![\w.])")
"""Words that Python's json module reads although they are not JSON."""

_BETWEEN_EVENTS: Final = re.compile(rb'\}\s*((?:,\s*)+)(?=\{\s*"[^"\\]{1,64}"\s*:)')
_BLANK: Final = b" \t\r\n"
_APART: Final = re.compile(rb"[\s,]*")
_PARTS_TOGETHER: Final = 64
_VALUES: Final = msgspec.json.Decoder(list[msgspec.Raw])
_NOT_A_NUMBER: Final = re.compile(rb"(?<![\w.-])-?(?:NaN|nan|Infinity|inf)(?![\w.])")
_CONTROL: Final = {code: " " for code in range(0x20) if chr(code) not in "\t\n\r"}
_ESCAPE: Final = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')
_TRAILING_COMMA: Final = re.compile(rb",(?=\s*[}\]])")

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass
class Reading(Generic[Decoded]):
    """The events of one piece of text."""

    text: bytes
    """The decoded text, a JSON list."""
    events: Sequence[Decoded]
    dropped: int = 0
    """Events that could not be decoded, even after repair."""
    repaired: int = 0
    """Events whose text is not JSON."""


def listed(events: bytes | memoryview) -> bytes:
    """A JSON list of events that are separated by commas."""
    return b"".join((b"[", events, b"]"))  # copies them once


def are_values(piece: bytes) -> bool:
    """Whether a text is a JSON list of values."""
    try:
        _VALUES.decode(piece)
    except UNREADABLE:
        return False
    return True


def repair(
    text: bytes,
    separator: bytes,
    several: msgspec.json.Decoder[list[Decoded]],
    one: msgspec.json.Decoder[Decoded],
    hold_back: HoldBack | None = None,
) -> Reading[Decoded]:
    """Decode events, separated by commas, after repair.

    Most of them start with the separator. One decoder is for a list of events, one for a single
    event. `hold_back` takes back an event that was cut at the end of the text, and returns the
    rest.
    """
    clean = listed(substitute(_CONSTANT, b"null", text))
    with suppress(*UNREADABLE):
        clean.decode()
        return Reading(listed(text), several.decode(clean))
    with suppress(*UNREADABLE):
        return _decode_each(text, map(bytes, _VALUES.decode(clean)), one)
    whole = hold_back(text) if hold_back else text
    if whole != text:
        return repair(whole, separator, several, one)
    return _repair_each(text, separator, one)


def _decode_each(
    text: bytes, values: Iterable[bytes], one: msgspec.json.Decoder[Decoded]
) -> Reading[Decoded]:
    """Decode values, some of which are not events."""
    decoded = [decode_event(value, one) for value in values]
    events = [event for found, _ in decoded for event in found]
    repaired = sum(len(found) for found, is_json in decoded if not is_json)
    return Reading(listed(text), events, len(decoded) - len(events), repaired)


def _repair_each(
    text: bytes, separator: bytes, one: msgspec.json.Decoder[Decoded]
) -> Reading[Decoded]:
    r"""Repair event by event.

    The text is split wherever an event may start, which may also be inside an event, between
    objects in its arguments. So parts that are unreadable by themselves are tried together::

        {"name": "C:\qs", "args": {"list": [{"a": 1}, {"b": 2}]}}, {"name": ...
        |------------- unreadable -------------|  |--------|
        |------------- repaired together ------------------|

    The separator marks the start of an event, to count the events that cannot be repaired.
    """
    events: list[Decoded] = []
    dropped = repaired = 0
    parts = list(_split_events(text))
    position = 0
    while position < len(parts):
        begin, end = parts[position]
        found, is_json = decode_event(text[begin:end], one)
        position += 1
        if not found and not is_json:
            found, is_json, position = _decode_together(text, parts, position, one)
        repaired += 0 if is_json else len(found)
        if not found and not is_json:
            found, begin = _decode_objects(text, begin, end, one)
            repaired += len(found)
        else:
            begin = end if found else begin
        events += found
        dropped += _count_events(text[begin:end], separator) if begin < end or not found else 0
    repaired += text.rstrip(_BLANK).endswith(b",")
    return Reading(listed(text), events, dropped, repaired)


def _decode_together(
    text: bytes,
    parts: Sequence[tuple[int, int]],
    position: int,
    one: msgspec.json.Decoder[Decoded],
) -> tuple[list[Decoded], bool, int]:
    """Decode an event that has been split, given the position of its second part.

    Returns a list of at most one event, whether its text is JSON, and the position of the part
    after it, or the given position if there is no event.
    """
    begin = parts[position - 1][0]
    within = parts[position - 1 : position + _PARTS_TOGETHER]
    closed = closing_bracket(text[begin : within[-1][1]], depth=0) or 0
    for after, (_, end) in enumerate(within[1:], start=position + 1):
        if end == begin + closed:
            event, is_json = decode_event(text[begin:end], one)
            return event, is_json, after if event else position
    return [], False, position


def _decode_objects(
    text: bytes, begin: int, end: int, one: msgspec.json.Decoder[Decoded]
) -> tuple[list[Decoded], int]:
    """Decode the objects at the start of a part of the text, whatever is between them.

    Also returns the start of the first object that cannot be decoded.
    """
    events: list[Decoded] = []
    while begin < end and text[begin : begin + 1] == b"{":
        closed = closing_bracket(text, 0, begin)
        if closed is None or closed > end:
            break
        found, _ = decode_event(text[begin:closed], one)
        if not found:
            break
        events += found
        apart = _APART.match(text, closed, end)
        begin = apart.end() if apart else closed
    return events, begin


def _count_events(text: bytes, separator: bytes) -> int:
    """Number of undecodable events in a text: of the separators that do not start a value."""
    openings = re.findall(rb"(?:^|[^:\[\s])\s*" + re.escape(separator), text)
    return max(len(openings), 1)


def _split_events(text: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of each part of the text that may be an event, without empty parts."""
    start = 0
    for found in _BETWEEN_EVENTS.finditer(text):
        yield start, found.start() + 1
        yield from [found.span(1)[:1] * 2] * (found[1].count(b",") - 1)
        start = found.end()
    yield start, length_without(text, len(text), _BLANK + b",")


def decode_event(text: bytes, one: msgspec.json.Decoder[Decoded]) -> tuple[list[Decoded], bool]:
    """Decode an event, repaired if necessary.

    Returns a list with the event, empty if it cannot be read, and whether the text is JSON.
    """
    with suppress(*UNREADABLE):
        text.decode()
        return [one.decode(text)], True
    is_json = True
    fields = _load(text)
    if fields is None:
        is_json = False
        fields = _load(_repaired(text), strict=False)
    return (_event_from(fields, one) if isinstance(fields, dict) else []), is_json


def _load(text: bytes, *, strict: bool = True) -> object:
    """Value of a JSON text, with numbers as text; None if it is not JSON."""
    try:
        return json.loads(
            text.decode(),
            strict=strict,
            parse_int=_as_written,
            parse_float=_as_written,
            parse_constant=_no_number,
        )
    except (ValueError, RecursionError):
        return None


def _as_written(number: str) -> msgspec.Raw:
    return msgspec.Raw(number.encode())


def _no_number(_: str) -> None:
    """Replace NaN and infinity, which are not JSON numbers, with None."""


def _repaired(text: bytes) -> bytes:
    """Text with the usual violations of JSON removed."""
    clean = substitute(_NOT_A_NUMBER, b"null", text)
    decoded = substitute(_TRAILING_COMMA, b"", clean).decode("utf-8", "replace")
    escaped = _ESCAPE.sub(lambda found: found[0] if found[1] else r"\\", decoded)
    return escaped.translate(_CONTROL).encode()


def substitute(pattern: re.Pattern[bytes], by: bytes, text: bytes) -> bytes:
    """Substitute matches that are not inside a string."""
    matches = list(pattern.finditer(text))
    if not matches:
        return text
    before = np.searchsorted(quotes(text), [found.start() for found in matches])
    parts, position = [], 0
    for found, in_string in zip(matches, (before % 2).tolist(), strict=True):
        if not in_string:
            parts += [text[position : found.start()], by]
            position = found.end()
    return b"".join([*parts, text[position:]])


def _event_from(fields: dict[str, Any], one: msgspec.json.Decoder[Decoded]) -> list[Decoded]:
    """Build the record from fields of any type; empty if that is not possible."""
    for key in ("ph", "cat", "name"):
        value = fields.get(key)
        if isinstance(value, msgspec.Raw):
            fields[key] = bytes(value).decode()
        elif not isinstance(value, str | None):
            fields[key] = str(value) if isinstance(value, bool) else ""
    if not isinstance(fields.get("args"), dict | None):
        del fields["args"]
    if isinstance(fields.get("dur"), bool | list | dict):
        del fields["dur"]
    try:
        return [one.decode(msgspec.json.encode(_encodable(fields)))]
    except (*UNREADABLE, ValueError):
        return []


def _encodable(value: Any) -> Any:  # noqa: ANN401
    """The value with a question mark in place of each half of a surrogate pair."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(each) for key, each in value.items()}
    return [_encodable(each) for each in value] if isinstance(value, list) else value
