"""Runs of work that belongs together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Int64Array
from hta_widgets.intervals import Times


class Runs(NamedTuple):
    """Neighbours with one property, in order of start."""

    first: Int64Array
    """Position of the first of each."""
    start_ns: Times
    """Start of the first."""
    end_ns: Times
    """End of the last, at most where the next run starts."""


def runs_of(start_ns: Times, end_ns: Times, *properties: NDArray[Any]) -> Runs:
    """Put neighbours together whose properties are equal.

    Examples
    --------
    >>> runs_of(np.array([0, 4, 8]), np.array([3, 9, 11]), np.array([5, 5, 6])).end_ns.tolist()
    [8, 11]
    """
    if not start_ns.size:
        return Runs(start_ns, start_ns, end_ns)
    begins = np.zeros(start_ns.size, dtype=np.bool_)
    begins[0] = True
    for each in properties:
        begins[1:] |= each[1:] != each[:-1]
    first = np.flatnonzero(begins)
    begun_ns = start_ns[first]
    ended_ns = np.maximum.reduceat(end_ns, first)
    ended_ns[:-1] = np.minimum(ended_ns[:-1], begun_ns[1:])
    return Runs(first, begun_ns, np.maximum(ended_ns, begun_ns))
