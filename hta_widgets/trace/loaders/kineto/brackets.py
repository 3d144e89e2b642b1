"""Find brackets in JSON text that may be incomplete or not quite JSON, in linear time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from hta_widgets.arrays import Int64Array

WHITE: Final = b" \t\r\n"
"""White space in JSON."""

_QUOTE_OR_BRACKET: Final = re.compile(rb'["\[\]{}]')
_PART_OF_STRING: Final = re.compile(rb'(?:[^"\\]+|\\.){1,4096}', re.DOTALL)
"""Most repetitions per match, because the memory of a match grows with them."""

_WINDOW: Final = 64


def closing_bracket(text: bytes, depth: int, position: int = 0) -> int | None:
    """Position after the bracket that brings the depth back to 0; None if there is none.

    Brackets inside strings do not count, nor do those in a last string that is cut off. The search
    starts at a position outside strings, where `depth` brackets are open.
    """
    for found, depth_after in _outside_strings(text, depth, position):
        if depth_after == 0 and found[0] in b"]}":
            return found.end()
    return None


def whole_until(text: bytes) -> int:
    """Position after the last complete object or list of values separated by commas.

    It is the end if brackets do not match.

    Examples
    --------
    >>> whole_until(b'{"a": 1}, {"b": [')
    8
    >>> whole_until(b'{"a": 1}}, {"b": [')
    18
    """
    end = 0
    for found, depth in _outside_strings(text):
        if depth < 0:
            return len(text)
        if depth == 0 and found[0] in b"]}":
            end = found.end()
    return end


def key_of_outermost(text: bytes, key: re.Pattern[bytes]) -> int | None:
    """Position after a key of the object that the text starts with; None if it has no such key.

    The pattern matches the key, its colon and the start of its value.
    """
    for found, depth in _outside_strings(text):
        if depth == 1 and found[0] == b'"' and (there := key.match(text, found.start())):
            return there.end()
    return None


def quotes(text: bytes) -> Int64Array:
    """Positions of the quotes that open and close strings, in turn."""
    unescaped = text.replace(rb"\\", b"__").replace(rb"\"", b"__")
    return np.flatnonzero(np.frombuffer(unescaped, np.uint8) == ord('"'))


def length_without(text: bytes, end: int, characters: bytes) -> int:
    """Length of ``text[:end].rstrip(characters)``, without copying all of it."""
    size = _WINDOW
    while True:
        start = max(0, end - size)
        kept = len(text[start:end].rstrip(characters))
        if kept or not start:
            return start + kept
        end, size = start, size * 4


def _outside_strings(
    text: bytes, depth: int = 0, position: int = 0
) -> Iterator[tuple[re.Match[bytes], int]]:
    """Brackets, and quotes that open a string, each with the number of brackets open after it."""
    while found := _QUOTE_OR_BRACKET.search(text, position):
        position = found.end()
        if found[0] != b'"':
            depth += 1 if found[0] in b"[{" else -1
        yield found, depth
        if found[0] == b'"':
            position = _after_string(text, position)


def _after_string(text: bytes, position: int) -> int:
    """Position after the quote that closes a string, given the position after the first quote.

    Beyond the end of the text if nothing closes it.
    """
    while found := _PART_OF_STRING.match(text, position):
        position = found.end()
    return position + 1
