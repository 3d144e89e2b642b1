"""The idle time of one rank in some of its time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.idle_owners.innermost import Pieces
from hta_widgets.analyses.idle_owners.owned_time import owned_time
from hta_widgets.analyses.shared.attribution.calls import Mask
from hta_widgets.analyses.shared.excerpt import Excerpt
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Reach
from hta_widgets.trace.ranks.rank import Rank

Rows = NDArray[np.int64]


class CountedTime(NamedTuple):
    """Pieces of idle time that are counted, cut at the edges of what is counted.

    Attributes
    ----------
    pieces : Pieces
    length_ns : ndarray of int64
    at : slice or ndarray of int64
        Position of each among all pieces of the rank, ascending.
    """

    pieces: Pieces
    length_ns: Rows
    at: slice | Rows

    def cut_gaps(self, rank: Rank) -> Rows:
        """Intervals of which an earlier piece is not counted."""
        gap, whole = self.pieces.gap, rank.remember(owned_time).pieces.gap
        if isinstance(self.at, slice):
            before, first = np.array([self.at.start - 1]), gap[:1]
        else:
            begins = np.flatnonzero(np.diff(self.at, prepend=-2) > 1)
            before, first = self.at[begins] - 1, gap[begins]
        before = before[: first.size]
        return np.asarray(first[(before >= 0) & (whole[before] == first)])

    def among(self, pieces: Rows) -> Rows:
        """Where some pieces of the rank, ascending, are among these."""
        if isinstance(self.at, slice):
            first, last = np.searchsorted(pieces, (self.at.start, self.at.stop))
            return np.asarray(pieces[first:last] - self.at.start)
        at = np.searchsorted(self.at, pieces)
        known = at < self.at.size
        found: Rows = at[known][self.at[at[known]] == pieces[known]]
        return found


def counted_time(rank: Rank, excerpt: Excerpt) -> CountedTime:
    """The idle time of a rank in some of its time; each interval keeps the cause of the whole."""
    owned, window_ns = rank.remember(owned_time), excerpt.window_of(rank)
    if window_ns is not None:
        near = rank.remember(_reach).inside(*window_ns)
    else:
        near = rank.remember(_pieces_of_steps).around(excerpt.steps)
    pieces = Pieces(*(column[near] for column in owned.pieces))
    if window_ns is not None:
        pieces = pieces._replace(
            start_ns=np.maximum(pieces.start_ns, window_ns[0]),
            end_ns=np.minimum(pieces.end_ns, window_ns[1]),
        )
    length_ns = pieces.length_ns()
    kept = length_ns > 0
    if excerpt.steps:
        kept &= rank.remember(_pieces_of_steps).are_of(excerpt.steps, near)
    chosen = _as_slice(np.flatnonzero(kept))
    pieces = Pieces(*(column[chosen] for column in pieces))
    return CountedTime(pieces, length_ns[chosen], _moved(chosen, near.start or 0))


def _as_slice(ascending: Rows) -> slice | Rows:
    """The same positions without a copy of what is there, if none is left out."""
    if not ascending.size or ascending[-1] - ascending[0] != ascending.size - 1:
        return ascending
    return slice(int(ascending[0]), int(ascending[-1]) + 1)


def _moved(at: slice | Rows, by: int) -> slice | Rows:
    return slice(at.start + by, at.stop + by) if isinstance(at, slice) else at + by


class _PiecesOfSteps(NamedTuple):
    """Which pieces of idle time are of which step.

    Attributes
    ----------
    numbers : ndarray of int64
        Of the steps, ascending.
    which : ndarray of int
        Position in `numbers`, of each piece.
    first, last : ndarray of int64
        Positions of the first piece of each step, and behind the last.
    """

    numbers: Rows
    which: NDArray[np.integer[Any]]
    first: Rows
    last: Rows

    def around(self, steps: tuple[int, ...]) -> slice:
        """Between which pieces all those of some steps are; of all if there are none."""
        if not steps:
            return slice(None)
        chosen = np.isin(self.numbers, steps)
        if not chosen.any():
            return slice(0, 0)
        return slice(int(self.first[chosen].min()), int(self.last[chosen].max()))

    def are_of(self, steps: tuple[int, ...], near: slice) -> Mask:
        """Whether each of some pieces is of one of the steps."""
        return np.asarray(np.isin(self.numbers, steps)[self.which[near]])


def _pieces_of_steps(rank: Rank) -> _PiecesOfSteps:
    numbers, which = np.unique(rank.remember(owned_time).step, return_inverse=True)
    of_step = grouped(which)
    last = of_step.order[of_step.edges[1:] - 1] + 1
    short = which.astype(np.min_scalar_type(numbers.size))
    return _PiecesOfSteps(numbers, short, of_step.first, last)


def _reach(rank: Rank) -> Reach:
    pieces = rank.remember(owned_time).pieces
    return Reach.of(pieces.start_ns, pieces.end_ns)
