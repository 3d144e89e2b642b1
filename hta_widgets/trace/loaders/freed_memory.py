"""Make malloc keep freed memory for reuse instead of returning it to the system."""

from __future__ import annotations

from typing import Final

import numpy as np

_LARGEST: Final = 2**24


def reuse_freed_memory() -> None:
    """Raise glibc's dynamic mmap threshold by freeing a block of 16 MB that was never touched.

    glibc serves blocks up to the size of the largest one freed so far from its heap, and keeps up
    to twice that size when it is free (``M_MMAP_THRESHOLD`` in mallopt(3)). The threshold starts at
    128 kB, so that at first most memory that loading frees is returned to the system and has to be
    mapped again, page by page. Other C libraries are not affected.
    """
    np.empty(_LARGEST, dtype=np.uint8)
