"""How much text a packed file may hold: compressed, any amount of it can take a few bytes."""

from __future__ import annotations

from typing import Final

ANY_FILE_BYTES: Final = 1 << 28
"""Text that every file may hold."""

TIMES_LONGER: Final = 200
"""Times that the text of a larger file may be as long as the file.

Real traces are 17 to 26 times as long as packed with gzip, and 25 to 41 times with xz; equal events
are 300 to 1,000 and 6,800 times as long.
"""


def most_unpacked_bytes(packed_bytes: int) -> int:
    """Bytes of text that a file of a size (bytes) may hold."""
    return max(ANY_FILE_BYTES, TIMES_LONGER * packed_bytes)
