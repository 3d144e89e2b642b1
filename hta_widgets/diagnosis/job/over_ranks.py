"""Medians over the ranks, of rows that are put beside each other by columns of numbers."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

PAIR: Final = 2
"""With so many ranks, the faster one is the usual one."""

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


def usual_of(values: Floats, *columns: NDArray[np.generic]) -> tuple[Floats, Rows]:
    """Median of the values whose columns are equal, of two the smaller; and how many they are.

    Examples
    --------
    >>> usual, ranks = usual_of(np.array([4.0, 1.0, 2.0, 3.0]), np.array([0, 0, 0, 1]))
    >>> usual.tolist(), ranks.tolist()
    ([2.0, 2.0, 2.0, 3.0], [3, 3, 3, 1])
    """
    order = np.lexsort((values, *columns))
    first, sizes = runs_of(*(column[order] for column in reversed(columns)))
    ascending = values[order]
    lower, upper = ascending[first + (sizes - 1) // 2], ascending[first + sizes // 2]
    middle = np.where(sizes == PAIR, lower, (lower + upper) / 2)
    usual, ranks = np.empty(order.size), np.empty(order.size, dtype=np.int64)
    usual[order], ranks[order] = np.repeat(middle, sizes), np.repeat(sizes, sizes)
    return usual, ranks


def weighted_medians(cells: Rows, values: Floats, weights: Floats, size: int) -> Floats:
    """Median of the values of each cell, weighted; 1 for cells without any.

    Examples
    --------
    >>> cells, values = np.array([0, 0, 0, 2]), np.array([1.0, 3.0, 2.0, 5.0])
    >>> weighted_medians(cells, values, np.array([1.0, 5.0, 1.0, 1.0]), 3).tolist()
    [3.0, 1.0, 5.0]
    """
    found = np.ones(size)
    if not cells.size:
        return found
    order = np.lexsort((values, cells))
    reached = np.cumsum(weights[order])
    first, sizes = runs_of(cells[order])
    last = first + sizes - 1
    before = np.concatenate(([0.0], reached[last[:-1]]))
    at = np.searchsorted(reached, before + (reached[last] - before) / 2)
    found[cells[order][first]] = values[order][np.clip(at, first, last)]
    return found


def runs_of(*columns: NDArray[np.generic]) -> tuple[Rows, Rows]:
    """Start and size of each run of equal rows."""
    size = columns[0].size
    opens = np.arange(size) == 0
    for column in columns:
        opens[1:] |= column[1:] != column[:-1]
    first = np.flatnonzero(opens)
    return first, np.diff(np.append(first, size))
