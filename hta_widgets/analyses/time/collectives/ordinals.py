"""Which collective of a series is the same on several ranks, where recordings begin apart.

::

    rank 0   |--a--|  |--b--|      |--c--|  |-d-|        0  1  2  3
    rank 1            |--b--|      |--c--|  |-d-|           0  1  2     shift -1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hta_widgets.intervals import Times

MOST_SHIFTED: Final = 8
"""Collectives by which recordings of one job begin apart; more of them are not looked for."""

FEWEST_PAIRS: Final = 8
"""Fewer pairs can lie alike by chance."""

TIMES_BETTER: Final = 5
"""How much better another shift must be, so that similar steps are not taken for each other."""

EXACT_NS: Final = 10_000
"""Ends of one collective differ by less; nothing is shifted where they already agree."""

_MOST_UNEQUAL = 0.2


def shift_of(ends: Times, other_ends: Times, sizes: Times, other_sizes: Times) -> int:
    """Number to add to the ordinals of a rank so that they agree with those of another rank.

    The differences between the ends are the same for all collectives, whatever the clocks, if the
    right ones are compared.

    Parameters
    ----------
    ends, other_ends : ndarray of int64
        End (ns) of each collective on both ranks, in the order of launches; of the other one, and
        of the one to be shifted.
    sizes, other_sizes : ndarray of int64
        Elements of each collective; -1 if not recorded.

    Returns
    -------
    int
        0 unless another shift is far better.
    """
    at_zero = _spread(ends, other_ends, sizes, other_sizes, 0)
    if at_zero <= EXACT_NS:
        return 0
    tried = sorted(range(-MOST_SHIFTED, MOST_SHIFTED + 1), key=abs)
    spreads = [_spread(ends, other_ends, sizes, other_sizes, shift) for shift in tried]
    best = int(np.argmin(spreads))
    return tried[best] if spreads[best] * TIMES_BETTER < at_zero else 0


def _spread(ends: Times, other_ends: Times, sizes: Times, other_sizes: Times, shift: int) -> float:
    """Median deviation (ns) of the differences between the ends; infinite if collectives differ."""
    first = max(shift, 0)
    count = min(ends.size - first, other_ends.size - max(-shift, 0))
    if count < (FEWEST_PAIRS if shift else 1):
        return np.inf
    own, other = slice(first, first + count), slice(first - shift, first - shift + count)
    if np.mean(sizes[own] != other_sizes[other]) > _MOST_UNEQUAL:
        return np.inf
    apart = ends[own] - other_ends[other]
    apart = apart - apart[0]
    return float(np.median(np.abs(apart - np.median(apart))))


def shifts(
    runs: Sequence[NDArray[np.int64]], end_ns: Times, elements: NDArray[np.int64]
) -> list[int]:
    """Number to add to the ordinals of each run, so that all agree with those of the longest.

    Parameters
    ----------
    runs : sequence of ndarray of int64
        Kernels of one series on each rank, in the order of launches.
    end_ns, elements : ndarray of int64
        Of all kernels.
    """
    reference = max(runs, key=len)
    ends, sizes = end_ns[reference], elements[reference]
    return [
        0 if run is reference else shift_of(ends, end_ns[run], sizes, elements[run]) for run in runs
    ]
