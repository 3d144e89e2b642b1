"""Kernels of one name, whose work is about as much on the ranks as its recorded sizes say.

Where batches differ by a few tokens, no two ranks run alike kernels: but as many, of about the same
size.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Float64Array, Int64Array, Mask

PAIR: Final = 2
"""With this many ranks, the faster one is the usual one."""


LIKE_SIZE: Final = 1.05
"""How many times as many kernels, or as large ones, are still about the same."""

MOST_UNLIKE: Final = 0.05
"""Part of the time without shapes that may be in kernels of another launch size than elsewhere.

With more, the work is another, and kernels with one block for each multiprocessor, whatever their
work, say nothing of the GPU.
"""

_LARGEST: Final = 50.0
"""Logarithm of a size beside another that is not told from still larger ones."""


def usual_of(
    values: Float64Array, *columns: NDArray[np.generic]
) -> tuple[Float64Array, Int64Array]:
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


def weighted_medians(
    cells: Int64Array, values: Float64Array, weights: Float64Array, size: int
) -> Float64Array:
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


def runs_of(*columns: NDArray[np.generic]) -> tuple[Int64Array, Int64Array]:
    """Start and size of each run of equal rows."""
    size = columns[0].size
    opens = np.arange(size) == 0
    for column in columns:
        opens[1:] |= column[1:] != column[:-1]
    first = np.flatnonzero(opens)
    return first, np.diff(np.append(first, size))


class SizePaces(NamedTuple):
    """What is known of each row by the name of its kernels.

    Attributes
    ----------
    pace : ndarray of float64
        Mean duration of all kernels of this name, rank and step relative to the median of the
        ranks, and to how much larger they are; 1 where that is not known.
    is_like, is_unlike : ndarray of bool
        Whether they are as many and of the same size as on the median of the ranks, nearly; and
        whether they are of another size.
    """

    pace: Float64Array
    is_like: Mask
    is_unlike: Mask


def paces_by_size(
    place: Int64Array,
    step: Int64Array,
    kind: NDArray[np.uint64],
    *,
    counts: Int64Array,
    total_ns: Float64Array,
    size: Float64Array,
) -> SizePaces:
    """Compare the kernels of each name over the ranks; the arguments are columns of `LikeKernels`.

    Sizes are logarithms, averaged by the time that kernels of each size take.
    """
    order = np.lexsort((place, step, kind))
    first, rows = runs_of(kind[order], step[order], place[order])
    if not first.size:
        none = np.zeros(0, dtype=bool)
        return SizePaces(np.ones(0), none, none)
    columns = step[order][first], kind[order][first]
    number = np.add.reduceat(counts[order], first).astype(np.float64)
    taken_ns = np.maximum(np.add.reduceat(total_ns[order], first), 1)
    of_size = np.add.reduceat((total_ns * size)[order], first) / taken_ns
    usual_ns, ranks = usual_of(taken_ns / number, *columns)
    larger = of_size - usual_of(of_size, *columns)[0]
    more = number / usual_of(number, *columns)[0]
    is_known = np.isfinite(larger) & (ranks >= PAIR)
    is_of_size = np.abs(larger) <= np.log(LIKE_SIZE)
    is_like = is_known & is_of_size & (np.abs(np.log(more)) <= np.log(LIKE_SIZE))
    times = np.exp(np.clip(larger, 0, _LARGEST))
    pace = np.where(is_known, taken_ns / number / np.maximum(usual_ns, 1) / times, 1.0)
    back = np.empty_like(order)
    back[order] = np.repeat(np.arange(first.size), rows)
    return SizePaces(pace[back], is_like[back], (is_known & ~is_of_size)[back])


def tells_of_work(
    cells: Int64Array, total_ns: Float64Array, is_shaped: Mask, is_other: Mask
) -> Mask:
    """Whether kernels with the same key are the same work, see `MOST_UNLIKE`.

    Parameters
    ----------
    cells : ndarray of int64
        What is compared as a whole: a step, or a rank in a step.
    total_ns : ndarray of float64
    is_shaped : ndarray of bool
        Whether the shapes are part of the key, which then always tells.
    is_other : ndarray of bool
        Whether a kernel has another launch size than elsewhere.

    Examples
    --------
    >>> cells, no = np.array([0, 0, 1, 1]), np.zeros(4, dtype=bool)
    >>> tells_of_work(cells, np.ones(4), no, np.array([False, True, False, False])).tolist()
    [False, False, True, True]
    """
    weights = np.where(is_shaped, 0, total_ns)
    whole, others = np.bincount(cells, weights), np.bincount(cells, weights * is_other)
    return np.asarray(is_shaped | (others <= MOST_UNLIKE * whole)[cells])
