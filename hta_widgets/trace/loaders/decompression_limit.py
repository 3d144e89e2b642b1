"""How much text a compressed file may hold, so that no decompression bomb fills the memory."""

from __future__ import annotations

from typing import Final

ANY_FILE_BYTES: Final = 1 << 28
"""Bytes of text that any file may hold, however small it is."""

TIMES_LONGER: Final = 200
"""How many times as long as a larger file its text may be; that of real traces is 17 to 41 times as
long."""


def most_unpacked_bytes(packed_bytes: int) -> int:
    """Bytes of text that a file of the given size (bytes) may hold."""
    return max(ANY_FILE_BYTES, TIMES_LONGER * packed_bytes)
