"""Idle time in blocks, of which a window or some steps hold most as a whole."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.idle_owners.counted_time import (
    CountedTime,
    Rows,
    counted_among,
    counted_time,
)
from hta_widgets.analyses.idle_owners.gaps import gaps_of
from hta_widgets.analyses.idle_owners.owned_time import owned_time
from hta_widgets.analyses.time.excerpt import Excerpt
from hta_widgets.grouping import counted_up
from hta_widgets.trace.ranks.rank import Rank

MOST_PIECES: Final = 4_096
"""Of a block: those at the ends of a window are looked at one by one."""

FEWEST_PIECES: Final = 20_000
"""Pieces in whole blocks; with fewer, nothing is gained."""


class IdleBlocks(NamedTuple):
    """Pieces of the idle time of a rank that follow each other, all of one device and step.

    An interval is in one block, unless it is of several steps.

    Attributes
    ----------
    edges : ndarray of int64
        Position of the first piece of each block, and the number of all.
    start_ns, end_ns : ndarray of int64
        Of each block.
    step, device : ndarray of int64
    first_gap, last_gap : ndarray of int64
        Positions of the idle intervals of its first and of its last piece.
    gaps : ndarray of int64
        Number of the intervals that it has any piece of.
    """

    edges: Rows
    start_ns: Rows
    end_ns: Rows
    step: Rows
    device: Rows
    first_gap: Rows
    last_gap: Rows
    gaps: Rows

    def pieces(self, blocks: Rows) -> Rows:
        """Positions of the pieces of some blocks."""
        return counted_up(self.edges[blocks], self.edges[blocks + 1])


class CountedBlocks(NamedTuple):
    """Idle time that is counted.

    Attributes
    ----------
    whole : ndarray of int64
        Numbers of blocks all of which is counted.
    others : CountedTime
        Pieces in no such block.
    """

    whole: Rows
    others: CountedTime

    def gaps_of(self, rank: Rank, device: int) -> int:
        """Number of intervals of a device with any time that is counted."""
        gap = self.others.gap
        each = np.append(gap[:1], gap[1:][gap[1:] != gap[:-1]])
        each = each[rank.remember(gaps_of).device[each] == device]
        if not self.whole.size:
            return int(each.size)
        blocks = rank.remember(idle_blocks)
        whole = self.whole[blocks.device[self.whole] == device]
        first, last = blocks.first_gap[whole], blocks.last_gap[whole]
        again = np.count_nonzero(first[1:] == last[:-1])
        around = np.searchsorted(first, each, side="right") - 1
        known = np.append(last, -1)[around] >= each
        return int(blocks.gaps[whole].sum() - again + each.size - np.count_nonzero(known))


def counted_blocks(rank: Rank, excerpt: Excerpt) -> CountedBlocks:
    """The idle time of a rank in some of its time; each interval keeps the cause of the whole."""
    whole = np.zeros(0, dtype=np.int64)
    window_ns = excerpt.window_of(rank)
    if not excerpt.steps and window_ns is None:
        return CountedBlocks(whole, counted_time(rank, excerpt))
    blocks = rank.remember(idle_blocks)
    is_near = np.ones(blocks.step.size, dtype=np.bool_)
    if excerpt.steps:
        is_near &= np.isin(blocks.step, excerpt.steps)
    is_whole = is_near
    if window_ns is not None:
        start_ns, end_ns = window_ns
        is_whole = is_near & (start_ns <= blocks.start_ns) & (blocks.end_ns <= end_ns)
        is_near &= (start_ns < blocks.end_ns) & (blocks.start_ns < end_ns)
    whole = np.flatnonzero(is_whole)
    if np.diff(blocks.edges)[whole].sum() < FEWEST_PIECES:
        return CountedBlocks(whole[:0], counted_time(rank, excerpt))
    cut = np.flatnonzero(is_near & ~is_whole)
    return CountedBlocks(whole, counted_among(rank, blocks.pieces(cut), window_ns))


def idle_blocks(rank: Rank) -> IdleBlocks:
    """The idle time of a rank in blocks."""
    owned, gaps = rank.remember(owned_time), rank.remember(gaps_of)
    gap, step = owned.pieces.gap, owned.step
    device = gaps.device[gap]
    opens = np.ones(gap.size, dtype=np.bool_)
    opens[1:] = gap[1:] != gap[:-1]
    begins = opens.copy()
    begins[1:] = (step[1:] != step[:-1]) | (device[1:] != device[:-1])
    first = np.flatnonzero(begins)
    number = np.arange(gap.size) - np.repeat(first, np.diff(first, append=gap.size))
    part = number // MOST_PIECES
    may_open = np.flatnonzero(opens)
    begins[may_open[1:]] |= part[may_open[1:]] != part[may_open[:-1]]
    first = np.flatnonzero(begins)
    edges = np.append(first, gap.size)
    last = edges[1:] - 1
    opened = np.cumsum(opens)
    return IdleBlocks(
        edges,
        owned.pieces.start_ns[first],
        owned.pieces.end_ns[last],
        step[first],
        device[first],
        gap[first],
        gap[last],
        opened[last] - opened[first] + 1,
    )
