"""Sums over much time: of whole blocks of it, each summed once, and of what is left."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from hta_widgets.analyses.time.excerpt import Excerpt
from hta_widgets.analyses.time.step_blocks import blocks_of_steps, whole_blocks
from hta_widgets.intervals import Times
from hta_widgets.trace.ranks.rank import Rank

Sums = TypeVar("Sums")

EVENTS: Final = 20_000
"""Of a block: what is left at the ends of a window takes a few ms."""

MOST: Final = 80
"""Blocks of a rank, which keeps what it knows of them."""

FEWEST: Final = 4
"""Whole blocks in a window; of fewer, nothing is gained."""


class Parts(NamedTuple):
    """Excerpts that fill another one.

    Attributes
    ----------
    blocks : list of Excerpt
        Whole ones.
    others : list of Excerpt
    """

    blocks: list[Excerpt]
    others: list[Excerpt]


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

    Of steps, a block is some that follow each other; those chosen that fill none are one part.

    Parameters
    ----------
    rank : Rank
    function : callable
        Of a rank, an excerpt and the arguments. What it returns of the parts must add up to what it
        returns of the whole, if it counts the work that `Excerpt.counts` tells it to. It is asked
        of all blocks when it is first asked of some, and of none again.
    excerpt : Excerpt, optional
        All of the time when not given.
    *arguments
        Hashable.
    """
    parts = None if excerpt is None else _parts(rank, excerpt)
    if parts is None:
        return [function(rank, excerpt, *arguments)]
    known = rank.remember(_known, function, *arguments)
    of_all = blocks_of_steps if parts.blocks[0].steps else _blocks
    for block in (*rank.remember(of_all), *parts.blocks):
        if block not in known:
            known[block] = function(rank, block, *arguments)
    others = [function(rank, other, *arguments) for other in parts.others]
    return [*others, *(known[block] for block in parts.blocks)]


def _known(_: Rank, *_function_and_arguments: object) -> dict[Excerpt, Any]:
    """What is known of blocks, of a function with some arguments."""
    return {}


def _parts(rank: Rank, excerpt: Excerpt) -> Parts | None:
    """Parts of an excerpt; None where it is summed up as fast at once."""
    window_ns = excerpt.window_of(rank)
    if not excerpt.steps:
        return None if window_ns is None else _parts_of_window(rank, *window_ns)
    return _parts_of_steps(rank, excerpt.steps) if window_ns is None else None


def _parts_of_steps(rank: Rank, steps: tuple[int, ...]) -> Parts | None:
    blocks = whole_blocks(rank, steps)
    if not blocks:
        return None
    inside = {step for block in blocks for step in block.steps}
    others = tuple(step for step in steps if step not in inside)
    return Parts(blocks, [Excerpt(others, (), others=tuple(sorted(inside)))] if others else [])


def _parts_of_window(rank: Rank, start_ns: int, end_ns: int) -> Parts | None:
    edges = rank.remember(_edges)
    inner = edges[(start_ns < edges) & (edges < end_ns)].tolist()
    if len(inner) <= FEWEST:
        return None
    ends = [_part(rank, start_ns, inner[0], continued=False), _part(rank, inner[-1], end_ns)]
    return Parts([_part(rank, *block) for block in pairwise(inner)], ends)


def _blocks(rank: Rank) -> list[Excerpt]:
    return [_part(rank, *block) for block in pairwise(rank.remember(_edges).tolist())]


def _part(rank: Rank, start_ns: int, end_ns: int, *, continued: bool = True) -> Excerpt:
    return Excerpt((), ((rank.trace.rank, (start_ns, end_ns)),), continued)


def _edges(rank: Rank) -> Times:
    """Edges of blocks with the same number of events; what is behind the last is in no block."""
    starts = rank.trace.events.start_ns
    count = min(starts.size // EVENTS, MOST)
    at = np.linspace(0, starts.size, count, endpoint=False)
    return np.unique(starts[at.astype(np.int64)])
