"""Sums over a long window: of whole blocks of time, each summed once, and of both ends."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np

from hta_widgets.analyses.shared.excerpt import Excerpt
from hta_widgets.intervals import Times
from hta_widgets.trace.ranks.rank import Rank

Sums = TypeVar("Sums")

EVENTS: Final = 50_000
"""Of a block: what is left at the ends of a window takes a few ms."""

MOST: Final = 40
"""Blocks of a rank, which keeps what it knows of them."""

FEWEST: Final = 2
"""Whole blocks in a window; of fewer, nothing is gained."""


def sums_of_parts(
    rank: Rank,
    function: Callable[..., Sums],
    excerpt: Excerpt | None,
    *arguments: Any,  # noqa: ANN401
) -> list[Sums]:
    """What a function returns of parts of an excerpt that fill it.

    ::

        blocks    |--------|--------|--------|--------|--------|
        window         |================================|
        parts          |---|--------|--------|--------|-|

    Parameters
    ----------
    rank : Rank
    function : callable
        Of a rank, an excerpt and the arguments. What it returns of the parts must add up to what it
        returns of the whole: in a part that is `Excerpt.continued`, it counts the work that begins
        there. It is asked of all blocks when it is first asked of some, and of none again.
    excerpt : Excerpt, optional
        All of the time when not given.
    *arguments
        Hashable.
    """
    window_ns = None if excerpt is None else excerpt.window_of(rank)
    if excerpt is None or excerpt.steps or window_ns is None:
        return [function(rank, excerpt, *arguments)]
    start, end = window_ns
    edges = rank.remember(_edges)
    inner = edges[(start < edges) & (edges < end)].tolist()
    if len(inner) <= FEWEST:
        return [function(rank, excerpt, *arguments)]
    of_blocks = rank.remember(_sums_of_blocks, function, *arguments)
    first = function(rank, _part(rank, start, inner[0], continued=False), *arguments)
    last = function(rank, _part(rank, inner[-1], end), *arguments)
    return [first, *(of_blocks[block] for block in inner[:-1]), last]


def _sums_of_blocks(
    rank: Rank,
    function: Callable[..., Sums],
    *arguments: Any,  # noqa: ANN401
) -> dict[int, Sums]:
    """Sums of all blocks, by where they start."""
    blocks = pairwise(rank.remember(_edges).tolist())
    return {block[0]: function(rank, _part(rank, *block), *arguments) for block in blocks}


def _part(rank: Rank, start_ns: int, end_ns: int, *, continued: bool = True) -> Excerpt:
    return Excerpt((), ((rank.trace.rank, (start_ns, end_ns)),), continued)


def _edges(rank: Rank) -> Times:
    """Edges of blocks with the same number of events; what is behind the last is in no block."""
    starts = rank.trace.events.start_ns
    count = min(starts.size // EVENTS, MOST)
    at = np.linspace(0, starts.size, count, endpoint=False)
    return np.unique(starts[at.astype(np.int64)])
