"""Text for a terminal: names come from traces, and a terminal interprets control characters."""

from __future__ import annotations

import sys


def printable(text: str) -> str:
    r"""Text on one line, with ``?`` for each character that a terminal would interpret.

    Examples
    --------
    >>> printable("a\x1b[31m b\n")
    'a?[31m b?'
    """
    return "".join(char if char.isprintable() else "?" for char in text)


def say(text: str) -> None:
    """Write to the standard output; characters that its encoding lacks are written as escapes."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def cut(text: str, most: int) -> str:
    """The text, or its beginning and three dots; at most this many characters.

    Examples
    --------
    >>> cut("abcdefgh", 6)
    'abc...'
    """
    return text if len(text) <= most else f"{text[: most - 3]}..."
