"""Let memory that was freed be used again, not given back to the system and asked for anew."""

from __future__ import annotations

from typing import Final

import numpy as np

_LARGEST: Final = 2**24


def reuse_freed_memory() -> None:
    """Free a block of 16 MB that was never touched.

    glibc goes by the largest block that was freed so far: smaller ones come from its heap, of which
    up to twice as much stays when it is free. That begins at 128 kB, so at first most of what
    loading needs goes back to the system again and again, and each page of it has to be made anew.
    Other C libraries take no notice.
    """
    np.empty(_LARGEST, dtype=np.uint8)
