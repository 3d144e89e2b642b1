"""What the doctor says, without what is private."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


class Problem(NamedTuple):
    """Something that does not work, and what to do about it."""

    what: str
    cure: str


def without_home(text: str) -> str:
    """Shorten the user's home in each path to ``~``, and mask control characters."""
    for home in _homes():
        text = re.sub(rf"(?<![\w.-]){re.escape(home)}(?![\w.-])", "~", text)
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


def _homes() -> list[str]:
    """The user's home as it is named and as it is, the longer first, but no top folder."""
    try:
        home = Path.home()
    except RuntimeError:
        return []
    named = {each for each in (home, home.resolve()) if each != each.parent}
    return sorted(map(str, named), key=len, reverse=True)
