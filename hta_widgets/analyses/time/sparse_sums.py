"""Several sums for each of many rows, of which a part of the time has few."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


class SparseSums(NamedTuple):
    """The rows with any sum that is not 0.

    Attributes
    ----------
    row : ndarray of int64
        Ascending.
    values : ndarray of int64
        One row for each of these, one column for each of the sums.
    """

    row: Rows
    values: Rows

    @classmethod
    def of(cls, sums: Sequence[Rows]) -> SparseSums:
        """Keep what is not 0.

        Examples
        --------
        >>> SparseSums.of([np.array([0, 7, 0]), np.array([0, 0, 1])])
        SparseSums(row=array([1, 2]), values=array([[7, 0],
               [0, 1]]))
        """
        row = np.flatnonzero(np.any([each != 0 for each in sums], axis=0))
        return cls(row, np.stack([each[row] for each in sums], axis=1))

    @classmethod
    def together(cls, parts: Iterable[SparseSums]) -> SparseSums:
        """The sums of several times.

        Examples
        --------
        >>> of_steps = [[1, 2, 0], [1, 3, 0], [0, 0, 4]]
        >>> parts = [SparseSums.of([np.array(each)]) for each in of_steps]
        >>> SparseSums.together(parts).full(3)
        [array([2, 5, 4])]
        """
        known = _with_equal_rows_added([*parts])
        if len(known) == 1:
            return known[0]
        size = max((int(part.row[-1]) + 1 for part in known if part.row.size), default=0)
        found = np.zeros((size, known[0].values.shape[1]), dtype=np.int64)
        for part in known:
            found[part.row] += part.values
        row = np.flatnonzero(found.any(axis=1))
        return cls(row, found[row])

    @property
    def sums(self) -> list[Rows]:
        """Each of the sums, of these rows."""
        return [np.ascontiguousarray(column) for column in self.values.T]

    def full(self, size: int) -> list[Rows]:
        """Each of the sums, of as many rows."""
        found = np.zeros((self.values.shape[1], size), dtype=np.int64)
        found[:, self.row] = self.values.T
        return [*found]


def _with_equal_rows_added(parts: list[SparseSums]) -> list[SparseSums]:
    """Neighbours with the same rows as one, as are most of a job whose steps do the same."""
    found = parts[:1]
    is_new = False
    for part in parts[1:]:
        last = found[-1]
        if not np.array_equal(part.row, last.row):
            found.append(part)
            is_new = False
        elif is_new:
            np.add(last.values, part.values, out=last.values)
        else:
            found[-1] = last._replace(values=last.values + part.values)
            is_new = True
    return found
