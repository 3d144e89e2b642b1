"""Rows in groups: those with the same numbers in some columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.lazy_modules import LazyModule

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = LazyModule("pandas")

Rows = NDArray[np.int64]

_COUNTED_AT_MOST = 2**16
"""Largest difference of values for which a table of all values between is fastest."""


class Groups(NamedTuple):
    """Groups in ascending order of their numbers.

    Attributes
    ----------
    number : ndarray of unsigned int
        Group of each row.
    order : ndarray of int64
        Rows group by group, in their own order within each.
    edges : ndarray of int64
        Group ``g`` is ``order[edges[g]:edges[g + 1]]``; no group is empty.
    """

    number: NDArray[Any]
    order: Rows
    edges: Rows

    @property
    def first(self) -> Rows:
        """First row of each group."""
        return self.order[self.edges[:-1]]

    @property
    def sizes(self) -> Rows:
        """Number of rows in each group."""
        return np.diff(self.edges)

    def reduce(self, function: np.ufunc, values: NDArray[Any]) -> NDArray[Any]:
        """Reduce the values of each group; one value per row comes in, one per group goes out."""
        in_order = values if self.sizes.size == 1 else values[self.order]
        return reduce_runs(function, in_order, self.edges[:-1])


def grouped(*columns: NDArray[Any]) -> Groups:
    """Group rows by some columns of numbers, the first of which orders first.

    Examples
    --------
    >>> groups = grouped(np.array([7, 5, 7, 7]), np.array([2, 1, 1, 2]))
    >>> groups.number.tolist(), groups.order.tolist(), groups.edges.tolist()
    ([2, 0, 1, 2], [1, 2, 0, 3], [0, 1, 2, 4])
    """
    number, count = _numbered(columns[0])
    for column in columns[1:]:
        inner, inner_count = _numbered(column)
        if count == 1:
            number, count = inner, inner_count
        elif inner_count > 1:
            number, count = _numbered(number * inner_count + inner)
    if count == 1:
        everything = np.arange(number.size)
        return Groups(number.astype(np.uint8), everything, np.array([0, number.size]))
    # Few bits sort fast.
    few_bits = number.astype(np.min_scalar_type(count))
    order = np.argsort(few_bits, kind="stable")
    sizes = np.bincount(number, minlength=count)
    return Groups(few_bits, order, np.concatenate(([0], np.cumsum(sizes))))


def _numbered(column: NDArray[Any]) -> tuple[Rows, int]:
    """Number each value by its place among the distinct values, and count these."""
    if not column.size:
        return np.zeros(0, dtype=np.int64), 0
    lowest, highest = column.min(), column.max()
    if lowest == highest:
        return np.zeros(column.size, dtype=np.int64), 1
    if column.dtype.kind == "f" or int(highest) - int(lowest) > _COUNTED_AT_MOST:
        number, distinct = pd.factorize(column, sort=True)
        return number, len(distinct)
    offset = np.subtract(column, lowest, dtype=np.int64)
    occurs = np.zeros(int(highest) - int(lowest) + 1, dtype=bool)
    occurs[offset] = True
    place = np.cumsum(occurs) - 1
    return place[offset], int(place[-1]) + 1


def reduce_runs(function: np.ufunc, values: NDArray[Any], first: Rows) -> NDArray[Any]:
    """Reduce runs of values, given the place of the first of each; `reduceat` fails on no runs."""
    return np.asarray(function.reduceat(values, first) if first.size else values[:0])


def narrow(values: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers in 32 bits where they fit; anything else as it is."""
    if values.dtype != np.int64 or not values.size:
        return values
    limits = np.iinfo(np.int32)
    fits = limits.min <= values.min() and values.max() <= limits.max
    return values.astype(np.int32) if fits else values
