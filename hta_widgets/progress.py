"""Progress over bytes, shown where it is waited for."""

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
"""Is told how many more bytes have been read."""

DELAY_S = 0.5
"""What is over sooner shows no progress bar."""


@contextmanager
def byte_bar(words: str, total_bytes: int | None, *, show: bool) -> Iterator[OnRead]:
    """Show a bar, without an end where the total is None; yields what is told of the bytes."""
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
