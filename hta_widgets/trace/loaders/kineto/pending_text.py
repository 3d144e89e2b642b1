"""Text that is waiting for more text."""

from __future__ import annotations


class PendingText:
    """Text that has been read and not yet been cut.

    It is looked at again only when it has doubled, so that the time is bounded by its length
    however long a run of blanks or a string in it is.

    Parameters
    ----------
    text : bytes
    seen : int
        Bytes of it that have been looked at.

    Attributes
    ----------
    size : int
        Bytes of the text.
    """

    def __init__(self, text: bytes = b"", seen: int = 0) -> None:
        self._parts = [text]
        self.size = len(text)
        self._due_size = 2 * seen

    def add(self, block: bytes) -> bool:
        """Add a block; return whether the text should be looked at again."""
        self._parts.append(block)
        self.size += len(block)
        return self.size >= self._due_size

    @property
    def text(self) -> bytes:
        """All of the text."""
        self._parts = [b"".join(self._parts)]
        self._due_size = 2 * self.size
        return self._parts[0]
