"""A quantity that is constant between its changes, and its extremes in any window."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Float64Array, Int64Array
from hta_widgets.intervals import Times

LOW, HIGH = range(2)
"""Rows of the extremes."""


class Curve(NamedTuple):
    """A quantity over time."""

    time_ns: Times
    """When the quantity changes, ascending; of several changes at one time, the last one counts."""
    value: NDArray[Any]
    """Value from each change on."""
    end_ns: int
    """Time until which the last value is known."""

    @property
    def most(self) -> float:
        """Largest value, however briefly it lasts."""
        return float(self.value.max())

    def extremes(self, edges: Times) -> Float64Array:
        """Smallest and largest value (`LOW`, `HIGH`) between consecutive, ascending edges.

        A value counts while it lasts, and where it is reached, even for an instant. NaN where
        nothing is known.
        """
        # value    ──┐     ┌──┐         first: changes at or after each edge
        #            └─────┘  └──···    held: the value of the change before
        # edges   |    |    |    |
        first = np.searchsorted(self.time_ns, edges)
        found = np.full((2, edges.size - 1), np.nan)
        self._held(edges, first, found)
        busy = np.flatnonzero(first[1:] > first[:-1])
        if busy.size:
            starts = first[:-1][busy]
            values = self.value[: first[-1]]
            found[LOW, busy] = np.fmin(found[LOW, busy], np.minimum.reduceat(values, starts))
            found[HIGH, busy] = np.fmax(found[HIGH, busy], np.maximum.reduceat(values, starts))
        return found

    def _held(self, edges: Times, first: Int64Array, found: Float64Array) -> None:
        """Fill in the values at the starts of bins."""
        following = np.append(self.time_ns, self.end_ns)[first[:-1]]
        bins = np.flatnonzero((first[:-1] > 0) & (following > edges[:-1]))
        found[:, bins] = self.value[first[:-1][bins] - 1]


class Curves(tuple[Curve, ...]):
    """Curves of one lane, on one scale."""

    __slots__ = ()
