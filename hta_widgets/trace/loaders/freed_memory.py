"""Memory that is freed while a trace is loaded: reused at once, and returned when asked."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

import numpy as np

_LARGEST: Final = 2**24


def reuse_freed_memory() -> None:
    """Raise glibc's dynamic mmap threshold by freeing a block of 16 MB that was never touched.

    glibc serves blocks up to the size of the largest one freed so far from its heap
    (``M_MMAP_THRESHOLD`` in mallopt(3)). It starts at 128 kB, so that at first most memory that
    loading frees would be returned to the system and mapped again, page by page.
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
