"""Text for a terminal: names come from traces, and a terminal interprets control characters."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from textwrap import TextWrapper
from typing import Final

WIDTH: Final = 80
MOST_NOTICES: Final = 10
MOST_CHARACTERS: Final = 400
"""Maximum length of the name of a job, and of a notice."""

MARGIN: Final = " " * 4
"""Before all that may hold names of a trace: Markdown shows it as it is."""

_BEFORE_UNIT: Final = re.compile(r"(?<=\d) (?=(?:%|s|ms|µs|ns|[kMG]?B|GB/s)(?![\w/]))")
_UNBROKEN: Final = "\0"
"""Stands for the space between a number and its unit while lines are broken."""


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


def section(
    title: str, texts: Sequence[str], most: int = MOST_NOTICES, rest: str = "job.notices"
) -> list[str]:
    """Lines of a list below a title, and what has the rest; none where there is nothing to list."""
    lines = ["", f"{MARGIN}{title}"] if texts else []
    for text in texts[:most]:
        lines += item("- ", cut(text, MOST_CHARACTERS))
    if len(texts) > most:
        lines += item("- ", f"and {len(texts) - most} more: {rest} has them")
    return lines


def item(mark: str, text: str) -> list[str]:
    """Lines of a text behind a mark."""
    return wrapped(text, mark, " " * len(mark))


def wrapped(text: str, first: str = "", others: str = "") -> list[str]:
    """Lines that fit, indented, with what stands before the first and before the others."""
    wrapper = TextWrapper(
        WIDTH,
        initial_indent=MARGIN + first,
        subsequent_indent=MARGIN + others,
        break_on_hyphens=False,
    )
    lines = wrapper.wrap(_BEFORE_UNIT.sub(_UNBROKEN, printable(text)))
    return [line.replace(_UNBROKEN, " ") for line in lines]
