"""Find brackets in JSON text that may be incomplete or not quite JSON, in linear time."""

from __future__ import annotations

import re
from typing import Final

_QUOTE_OR_BRACKET: Final = re.compile(rb'["\[\]{}]')
_PART_OF_STRING: Final = re.compile(rb'(?:[^"\\]+|\\.){1,4096}', re.DOTALL)
"""So much at a time: the memory of a match grows with its repetitions."""

_WINDOW: Final = 64


def closing_bracket(text: bytes, depth: int) -> int | None:
    """Position after the bracket that brings the depth back to 0; None if there is none.

    Brackets inside strings do not count, nor do those in a last string that is cut off.

    Parameters
    ----------
    text : bytes
        Does not start inside a string.
    depth : int
        Brackets that are open before the text.
    """
    position = 0
    while found := _QUOTE_OR_BRACKET.search(text, position):
        position = found.end()
        if found[0] == b'"':
            position = _after_string(text, position)
        elif found[0] in b"[{":
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                return position
    return None


def length_without(text: bytes, end: int, characters: bytes) -> int:
    """Length of ``text[:end].rstrip(characters)``, without copying all of it."""
    size = _WINDOW
    while True:
        start = max(0, end - size)
        kept = len(text[start:end].rstrip(characters))
        if kept or not start:
            return start + kept
        end, size = start, size * 4


def _after_string(text: bytes, position: int) -> int:
    """Position after the quote that closes a string, given the position after the first quote."""
    while found := _PART_OF_STRING.match(text, position):
        position = found.end()
    return position + 1
