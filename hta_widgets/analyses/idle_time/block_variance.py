"""Squared differences from a mean, of any run of values, without reading all of the run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.intervals import Times

BLOCK = 2**10


class Squares(NamedTuple):
    """Values, and what is known of each whole block of them.

    Attributes
    ----------
    values : ndarray of int64
    mean : ndarray of float
        Of each block of `BLOCK` values.
    about_mean : ndarray of float
        Sum of the squared differences of the values of each block from its mean.
    """

    values: Times
    mean: NDArray[np.float64]
    about_mean: NDArray[np.float64]

    @classmethod
    def of(cls, values: Times) -> Squares:
        """Read all values once."""
        blocks = values[: values.size // BLOCK * BLOCK].reshape(-1, BLOCK)
        mean = blocks.sum(axis=1) / BLOCK
        difference = blocks - mean[:, np.newaxis]
        return cls(values, mean, np.einsum("ij,ij->i", difference, difference))

    def about(self, mean: float, first: int, last: int) -> float:
        """Sum up the squared differences of ``values[first:last]`` from their mean.

        Nothing is lost where values are large beside their differences: no squares of values are
        subtracted from each other.

        Examples
        --------
        >>> Squares.of(np.array([1, 2, 3, 9])).about(2, 0, 3)
        2.0
        """
        begin, end = -(-first // BLOCK), last // BLOCK
        if begin >= end:
            return _about(self.values[first:last], mean)
        between = BLOCK * np.square(self.mean[begin:end] - mean).sum()
        blocks = float(self.about_mean[begin:end].sum() + between)
        before, after = self.values[first : begin * BLOCK], self.values[end * BLOCK : last]
        return _about(before, mean) + blocks + _about(after, mean)


def _about(values: Times, mean: float) -> float:
    difference = values - mean
    return float(difference @ difference)
