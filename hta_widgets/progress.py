"""Progress bars over bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hta_widgets.lazy_modules import LazyModule

if TYPE_CHECKING:
    import tqdm.auto as bars
else:
    bars = LazyModule("tqdm.auto")

OnRead = Callable[[int], object]
"""Called with the number of bytes read since the last call."""

DELAY_S = 0.5
"""Seconds before a progress bar appears."""


@contextmanager
def byte_bar(words: str, total_bytes: int | None, *, show: bool) -> Iterator[OnRead]:
    """Show a progress bar; yields the function to call with each number of bytes read.

    Parameters
    ----------
    words : str
        Text before the bar.
    total_bytes : int or None
        None for an open-ended bar.
    show : bool
        False for no bar.
    """
    if not show:
        yield lambda _: None
        return
    with bars.tqdm(
        total=total_bytes,
        desc=words,
        unit="B",
        unit_scale=True,
        unit_divisor=1024,
        leave=False,
        delay=DELAY_S,
    ) as bar:
        yield bar.update
