"""Memory while a trace is loaded: what is freed is kept for reuse, and no cycles are sought."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np

_LARGEST: Final = 2**24


ANY_FILE_BYTES: Final = 1 << 28
"""Text that every file may hold."""

TIMES_LONGER: Final = 200
"""Times that the text of a larger file may be as long as the file.

Real traces are 17 to 26 times as long as packed with gzip, and 25 to 41 times with xz; equal events
are 300 to 1,000 and 6,800 times as long.
"""


def reuse_freed_memory() -> None:
    """Raise glibc's dynamic mmap threshold by freeing a block of 16 MB that was never touched.

    glibc serves blocks up to the size of the largest one freed so far from its heap, and keeps up
    to twice that size when it is free (``M_MMAP_THRESHOLD`` in mallopt(3)). The threshold starts at
    128 kB, so that at first most memory that loading frees is returned to the system and has to be
    mapped again, page by page. Other C libraries are not affected.
    """
    np.empty(_LARGEST, dtype=np.uint8)


def return_freed_memory() -> None:
    """Return the freed memory that malloc and Arrow keep, when much was freed and little follows.

    It takes a few milliseconds. Where the C library has no ``malloc_trim`` (only glibc has it),
    malloc decides for itself.
    """
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Context manager without cyclic collection: on millions of records it would take most time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def most_unpacked_bytes(packed_bytes: int) -> int:
    """Bytes of text that a file of a size (bytes) may hold."""
    return max(ANY_FILE_BYTES, TIMES_LONGER * packed_bytes)
