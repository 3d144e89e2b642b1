"""Ranges that may cross, and which of them are open at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.intervals import Times

NOTHING = -1

Positions = NDArray[np.int64]


class Ranges(NamedTuple):
    """Ranges of one thread by start, the longest first.

    Attributes
    ----------
    rows : ndarray of int64
    start_ns, end_ns : ndarray of int64
    around : ndarray of int64
        Position of the last range before each that is open when it starts, -1 for none.
    """

    rows: NDArray[np.int64]
    start_ns: Times
    end_ns: Times
    around: Positions

    @classmethod
    def of(cls, rows: NDArray[np.int64], start_ns: Times, end_ns: Times) -> Ranges:
        """Sort ranges."""
        order = np.lexsort((rows, -end_ns, start_ns))
        start, end = start_ns[order], end_ns[order]
        around = np.arange(order.size) - 1
        ended = np.arange(1, order.size)
        while (ended := ended[_is_over(around[ended], end, start[ended])]).size:
            around[ended] = around[around[ended]]
        return cls(rows[order], start, end, around)

    def innermost(self, times: Times) -> Positions:
        """Position of the last started range that is open at each time, -1 for none."""
        return self._open(np.searchsorted(self.start_ns, times, side="right") - 1, times)

    def next_open(self, positions: Positions, times: Times) -> Positions:
        """Position of the range before each that is open at its time, -1 for none."""
        return self._open(np.append(self.around, NOTHING)[positions], times)

    def _open(self, found: Positions, times: Times) -> Positions:
        over = np.flatnonzero(_is_over(found, self.end_ns, times))
        while over.size:
            found[over] = self.around[found[over]]
            over = over[_is_over(found[over], self.end_ns, times[over])]
        return found


def _is_over(found: Positions, end_ns: Times, times: Times) -> NDArray[np.bool_]:
    if not end_ns.size:
        return np.zeros(found.size, dtype=np.bool_)
    return np.asarray((found != NOTHING) & (end_ns[found] <= times))
