"""The idle time of one rank in some of its time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.idle_owners.owned_time import owned_time
from hta_widgets.analyses.time.calls import Mask
from hta_widgets.analyses.time.excerpt import Excerpt, WindowNs
from hta_widgets.grouping import counted_up, grouped
from hta_widgets.intervals import Reach
from hta_widgets.trace.ranks.rank import Rank

Rows = NDArray[np.int64]


class CountedTime(NamedTuple):
    """Pieces of idle time that are counted, cut at the edges of what is counted.

    Attributes
    ----------
    gap : ndarray of int64
        Position of the idle interval that each is part of, ascending.
    owner : ndarray of int64
        Place of the call that each belongs to, `NOBODY` for none.
    length_ns : ndarray of int64
    at : slice or ndarray of int64
        Position of each among all pieces of the rank, ascending.
    """

    gap: Rows
    owner: Rows
    length_ns: Rows
    at: slice | Rows

    def in_cut_gaps(self, rank: Rank) -> Rows:
        """Those in intervals of which an earlier piece is not counted."""
        whole = rank.remember(owned_time).pieces.gap
        if isinstance(self.at, slice):
            begins = np.arange(min(self.gap.size, 1))
            before = begins + self.at.start - 1
        else:
            begins = np.flatnonzero(np.diff(self.at, prepend=-2) > 1)
            before = self.at[begins] - 1
        begins, before = begins[before >= 0], before[before >= 0]
        cut = self.gap[begins[whole[before] == self.gap[begins]]]
        first, last = (np.searchsorted(self.gap, cut, side=side) for side in ("left", "right"))
        return counted_up(first, last)

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
    near = slice(0, owned.step.size)
    if window_ns is not None:
        near = rank.remember(_reach).inside(*window_ns)
    elif excerpt.steps:
        near = rank.remember(_pieces_of_steps).around(excerpt.steps)
    length_ns = rank.remember(_lengths_ns)[near]
    if window_ns is not None:
        length_ns = _cut(owned.pieces.start_ns[near], owned.pieces.end_ns[near], *window_ns)
    kept = length_ns > 0
    if excerpt.steps:
        kept &= rank.remember(_pieces_of_steps).are_of(excerpt.steps, near)
    chosen = _positions(kept)
    return CountedTime(
        gap=owned.pieces.gap[near][chosen],
        owner=owned.pieces.owner[near][chosen],
        length_ns=length_ns[chosen],
        at=_moved(chosen, near.start),
    )


def counted_among(rank: Rank, at: Rows, window_ns: WindowNs | None) -> CountedTime:
    """Some pieces of the idle time of a rank, as far as they are in a window."""
    pieces = rank.remember(owned_time).pieces
    if window_ns is None:
        length_ns = rank.remember(_lengths_ns)[at]
    else:
        length_ns = _cut(pieces.start_ns[at], pieces.end_ns[at], *window_ns)
        at, length_ns = at[length_ns > 0], length_ns[length_ns > 0]
    return CountedTime(pieces.gap[at], pieces.owner[at], length_ns, at)


def _lengths_ns(rank: Rank) -> Rows:
    return rank.remember(owned_time).pieces.length_ns()


def _cut(start_ns: Rows, end_ns: Rows, first_ns: int, last_ns: int) -> Rows:
    """Length of pieces inside a window, of which few reach over its edges."""
    length_ns: Rows = end_ns - start_ns
    over = np.flatnonzero((start_ns < first_ns) | (end_ns > last_ns))
    inside_ns = np.minimum(end_ns[over], last_ns) - np.maximum(start_ns[over], first_ns)
    length_ns[over] = np.maximum(inside_ns, 0)
    return length_ns


def _positions(kept: Mask) -> slice | Rows:
    """Where something is kept: a slice, which copies nothing, if none between is left out."""
    if not kept.any():
        return slice(0, 0)
    first, last = int(kept.argmax()), kept.size - int(kept[::-1].argmax())
    return slice(first, last) if kept[first:last].all() else np.flatnonzero(kept)


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
        """Between which pieces all those of some steps are."""
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
