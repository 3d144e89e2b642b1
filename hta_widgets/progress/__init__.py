"""Progress bars for bytes read, and for a number of items."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from hta_widgets.lazy_modules import LazyModule

if TYPE_CHECKING:
    import tqdm.auto as bars
    from tqdm import std
else:
    bars = LazyModule("tqdm.auto")

OnRead = Callable[[int], object]
"""Called with the number of bytes read since the last call."""

DELAY_S = 0.5
"""Seconds before a progress bar appears."""


def byte_bar(words: str, total_bytes: int | None, *, show: bool) -> AbstractContextManager[OnRead]:
    """Show a progress bar; yields the function to call with the number of bytes just read.

    Parameters
    ----------
    words : str
        Text before the bar.
    total_bytes : int or None
        None for an open-ended bar.
    show : bool
        False for no bar.
    """
    in_bytes = {"unit": "B", "unit_scale": True, "unit_divisor": 1024}
    return _bar(words, total_bytes, show=show, **in_bytes)


def counted_bar(
    words: str, total: int, *, show: bool
) -> AbstractContextManager[Callable[[int], object]]:
    """Show a progress bar; yields the function to call with the number of items just done.

    Parameters
    ----------
    words : str
        Text before the bar.
    total : int
    show : bool
        False for no bar.
    """
    return _bar(words, total, show=show)


@contextmanager
def _bar(
    words: str,
    total: int | None,
    *,
    show: bool,
    **options: Any,  # noqa: ANN401
) -> Iterator[Callable[[int], object]]:
    if not show:
        yield lambda _: None
        return
    make = partial(_bar_type(), total=total, desc=words, leave=False, **options)
    with closing(_LateBar(make)) as bar:
        yield bar.advance


class _LateBar:
    """A bar made only after a while: in a notebook, even an unseen bar makes 11 widgets."""

    def __init__(self, make: Callable[..., std.tqdm[Any]]) -> None:
        self._make = make
        self._due = monotonic() + DELAY_S
        self._done = 0
        self._bar: std.tqdm[Any] | None = None

    def advance(self, count: int) -> None:
        if self._bar is not None:
            self._bar.update(count)
            return
        self._done += count
        if monotonic() >= self._due:
            with warnings.catch_warnings():  # tqdm says that it cannot start its thread
                warnings.simplefilter("ignore", RuntimeWarning)
                self._bar = self._make(initial=self._done)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _bar_type() -> Callable[..., std.tqdm[Any]]:
    """Bar for a terminal, or for a notebook."""
    bar = bars.tqdm
    of_notebooks = sys.modules.get("tqdm.notebook")
    if of_notebooks is None or not issubclass(bar, of_notebooks.tqdm):
        return bar
    from hta_widgets.progress.notebook_bar import NotebookBar  # noqa: PLC0415  # needs ipywidgets

    return NotebookBar
