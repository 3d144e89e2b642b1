"""Walk through a mangled name, and keep what it has named so far."""

from __future__ import annotations

import re

from hta_widgets.names.demangling.templates import MOST_CHARACTERS, UnreadableError
from hta_widgets.names.demangling.words import STANDARD

DEEPEST = 100
"""Nesting that is followed."""

_NUMBER = re.compile(r"\d{1,6}")
_SEQUENCE = re.compile(r"([0-9A-Z]{0,6})_")


class Cursor:
    """A place in a mangled name, behind its ``_Z``."""

    def __init__(self, mangled: str) -> None:
        self._mangled = mangled
        self._at = len("_Z")
        self._seen: list[str] = []
        self._depth = 0
        self._written = 0

    @property
    def rest(self) -> str:
        """What has not been read."""
        return self._mangled[self._at :]

    def peek(self, size: int = 1) -> str:
        """Return the next characters."""
        return self._mangled[self._at : self._at + size]

    def at_end(self) -> bool:
        """Tell whether the list of parameters ends here."""
        return self.peek() in ("", "E", ".")

    def take(self, size: int) -> str:
        """Read characters."""
        text = self.peek(size)
        if len(text) < size:
            raise UnreadableError
        self._at += size
        return text

    def accept(self, text: str) -> bool:
        """Read a text if it comes next."""
        if not self._mangled.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def expect(self, text: str) -> None:
        """Read a text that has to come next."""
        if not self.accept(text):
            raise UnreadableError

    def match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Read what a pattern matches."""
        found = pattern.match(self._mangled, self._at)
        if not found:
            raise UnreadableError
        self._at = found.end()
        return found

    def number(self) -> str:
        """Read digits."""
        return self.match(_NUMBER)[0]

    def count(self, base: int = 10) -> int:
        """Read a number that counts from 1: ``_``, ``0_``, ``1_``, ..."""
        digits = self.match(_SEQUENCE)[1]
        try:
            return int(digits, base) + 2 if digits else 1
        except ValueError:
            raise UnreadableError from None

    def remember(self, text: str) -> None:
        """Keep what may be referred to later."""
        self._seen.append(self.written(text))

    def substitution(self) -> str:
        """Read a reference to what has been named before."""
        text = STANDARD.get(self.peek(2))
        if text:
            self._at += 2
            return text
        self.expect("S")
        number = self.count(base=36) - 1
        if number >= len(self._seen):
            raise UnreadableError
        return self.written(self._seen[number])

    def written(self, text: str) -> str:
        """Return the text, unless too much has been put together by now."""
        self._written += len(text)
        if self._written > MOST_CHARACTERS:
            raise UnreadableError
        return text

    def descend(self) -> None:
        """Go one level deeper."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise UnreadableError

    def ascend(self) -> None:
        """Come back from a level."""
        self._depth -= 1
