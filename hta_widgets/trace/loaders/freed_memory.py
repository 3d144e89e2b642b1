"""Memory while a trace is loaded: freed memory is reused, cyclic garbage is not collected."""

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
"""Bytes of text that any file may hold, however small it is."""

TIMES_LONGER: Final = 200
"""How many times as long as a larger file its text may be.

The text of real traces is 17 to 26 times as long as the gzip file, and 25 to 41 times as long as
the xz file; that of identical events is 300 to 1,000 and 6,800 times as long.
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

    It takes a few milliseconds. Without ``malloc_trim``, which only glibc has, malloc decides for
    itself.
    """
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Turn cyclic garbage collection off: with millions of records, it takes most of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def most_unpacked_bytes(packed_bytes: int) -> int:
    """Bytes of text that a file of the given size (bytes) may hold."""
    return max(ANY_FILE_BYTES, TIMES_LONGER * packed_bytes)
