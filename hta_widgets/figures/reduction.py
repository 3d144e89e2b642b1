"""Reduce a line of any length to what a screen can show."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hta_widgets.intervals import Times

_KEPT_PER_INTERVAL = 3
_PLACE: Final = 2**32 - 1


def value_keys(values: NDArray[Any]) -> NDArray[np.int64]:
    """Put value and place of each change into one number, so that one comparison finds both.

    Parameters
    ----------
    values : ndarray
        None of them negative. Those that agree in seven digits count as equal.

    Returns
    -------
    ndarray of int64
        In its upper half the bits of the value as a 32-bit float, which ascend with the value; in
        the lower half the position.
    """
    halves = np.empty(values.size, dtype=[("place", "<u4"), ("value", "<f4")])
    halves["place"] = np.arange(values.size)
    halves["value"] = values
    return halves.view("<i8")


def steps_to_draw(
    time_ns: Times, keys: NDArray[np.int64], start_ns: int, end_ns: int, points: int
) -> NDArray[np.int64]:
    """Choose the changes of a step line that show it on a stretch of time.

    Where there are more changes than points, the stretch is cut into equal intervals, and of each
    the least, the greatest and the last value are kept: peaks stay, and between intervals the line
    has its true height. The change that holds when the stretch begins is among the chosen.

    Parameters
    ----------
    time_ns : ndarray of int64
        Times of the changes, ascending.
    keys : ndarray of int64
        `value_keys` of the value from each change on.
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
    least, greatest = (
        extreme.reduceat(keys[first:last], edges[:-1] - first) & _PLACE
        for extreme in (np.minimum, np.maximum)
    )
    kept = (np.minimum(least, greatest), np.maximum(least, greatest), edges[1:] - 1)
    return _each_once(np.concatenate(([first], np.stack(kept, axis=1).ravel())))


def _each_once(ascending: NDArray[np.int64]) -> NDArray[np.int64]:
    return ascending[np.diff(ascending, prepend=-1) > 0]
