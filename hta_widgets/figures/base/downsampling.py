"""Reduce a line of any length to what a screen can show."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.intervals import Times

_KEPT_PER_INTERVAL = 3
_PLACE: Final = 2**32 - 1
BLOCK: Final = 16


class Extremes(NamedTuple):
    """Finds the least and the greatest value on stretches of a line.

    Value and place of each change are one number, a key, so that one comparison finds both: the
    upper half has the bits of the value as a 32-bit float, which ascend with the value, the lower
    half the position.

    Attributes
    ----------
    keys : ndarray of int64
        Of each change.
    least, greatest : ndarray of int64
        Of the keys of each whole block of `BLOCK` changes; one more, which nothing is read from.
    """

    keys: NDArray[np.int64]
    least: NDArray[np.int64]
    greatest: NDArray[np.int64]

    @classmethod
    def of(cls, values: NDArray[Any]) -> Extremes:
        """Read all values, none of them negative; those that agree in seven digits are equal."""
        halves = np.empty(values.size, dtype=[("place", "<u4"), ("value", "<f4")])
        halves["place"] = np.arange(values.size)
        halves["value"] = values
        keys = halves.view("<i8")
        least = greatest = keys[: keys.size // BLOCK * BLOCK]
        for _ in range(BLOCK.bit_length() - 1):
            least = np.minimum(least[::2], least[1::2])
            greatest = np.maximum(greatest[::2], greatest[1::2])
        return cls(keys, np.append(least, 0), np.append(greatest, 0))

    def between(self, edges: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Positions of the least and of the greatest value from each edge to the next.

        Of the blocks inside a stretch one key each is read, at its ends each change.
        """
        first, last = edges[:-1, np.newaxis], edges[1:, np.newaxis] - 1
        reach = np.arange(BLOCK)
        ends = np.hstack((np.minimum(first + reach, last), np.maximum(last - reach, first)))
        of_ends = self.keys[ends]
        blocks = np.stack((-(-edges[:-1] // BLOCK), edges[1:] // BLOCK), axis=1)
        whole = blocks[:, 0] < blocks[:, 1]
        positions = []
        for extreme, of_blocks in ((np.minimum, self.least), (np.maximum, self.greatest)):
            found = extreme.reduce(of_ends, axis=1)
            reached = of_blocks[: blocks[-1, 1] + 1]
            inside = extreme.reduceat(reached, blocks[whole].ravel())[::2]
            found[whole] = extreme(found[whole], inside)
            positions.append(found & _PLACE)
        return positions


def steps_to_draw(
    time_ns: Times, values: Extremes, start_ns: int, end_ns: int, points: int
) -> NDArray[np.int64]:
    """Choose the changes of a step line that show it on a stretch of time.

    Where there are more changes than points, the stretch is cut into equal intervals, and of each
    the least, the greatest and the last value are kept: peaks stay, and between intervals the line
    has its true height. The change that holds when the stretch begins is among the chosen.

    Parameters
    ----------
    time_ns : ndarray of int64
        Times of the changes, ascending.
    values : Extremes
        Of the value from each change on.
    start_ns, end_ns : int
        The stretch, ends included.
    points : int
        How many changes to keep at most; one more for the beginning.

    Returns
    -------
    ndarray of int64
        Ascending positions in `time_ns`.
    """
    first = max(int(np.searchsorted(time_ns, start_ns, side="right")) - 1, 0)
    last = int(np.searchsorted(time_ns, end_ns, side="right"))
    if last - first <= points:
        return np.arange(first, last)
    intervals = max(points // _KEPT_PER_INTERVAL, 1)
    inner = np.ceil(np.linspace(start_ns, end_ns, intervals + 1)[1:-1]).astype(np.int64)
    cuts = first + np.searchsorted(time_ns[first:last], inner)
    edges = _each_once(np.concatenate(([first], cuts, [last])))
    least, greatest = values.between(edges)
    kept = (np.minimum(least, greatest), np.maximum(least, greatest), edges[1:] - 1)
    return _each_once(np.concatenate(([first], np.stack(kept, axis=1).ravel())))


def _each_once(ascending: NDArray[np.int64]) -> NDArray[np.int64]:
    return ascending[np.diff(ascending, prepend=-1) > 0]
