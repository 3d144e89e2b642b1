"""Repair one event whose text is not quite JSON."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from hta_widgets.trace.loaders.kineto.brackets import quotes

Decoded = TypeVar("Decoded")

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_NOT_A_NUMBER: Final = re.compile(rb"(?<![\w.-])-?(?:NaN|nan|Infinity|inf)(?![\w.])")
_CONTROL: Final = {code: " " for code in range(0x20) if chr(code) not in "\t\n\r"}
_ESCAPE: Final = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')
_TRAILING_COMMA: Final = re.compile(rb",(?=\s*[}\]])")


def decode_event(text: bytes, one: msgspec.json.Decoder[Decoded]) -> tuple[list[Decoded], bool]:
    """Decode an event, repaired if necessary.

    Returns
    -------
    event : list of at most one Event
        Empty if it cannot be read.
    is_json : bool
        Whether the text is JSON.
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
    """Value of JSON, in which numbers stay text; None if it is not JSON."""
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
    """NaN and infinity are no numbers."""


def _repaired(text: bytes) -> bytes:
    """Text without the usual offences against JSON."""
    clean = substitute(_NOT_A_NUMBER, b"null", text)
    decoded = substitute(_TRAILING_COMMA, b"", clean).decode("utf-8", "replace")
    escaped = _ESCAPE.sub(lambda found: found[0] if found[1] else r"\\", decoded)
    return escaped.translate(_CONTROL).encode()


def substitute(pattern: re.Pattern[bytes], by: bytes, text: bytes) -> bytes:
    """Substitute matches that are in no string."""
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
    """Build the record from fields of any type; none if it is not possible."""
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
