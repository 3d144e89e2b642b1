"""Kernels of one name, whose work is about as much on the ranks as its recorded sizes say.

Where batches differ by a few tokens, no two ranks run alike kernels: but as many, of about the same
size.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.diagnosis.over_ranks import PAIR, Floats, Rows, runs_of, usual_of

LIKE_SIZE: Final = 1.05
"""How many times as many kernels, or as large ones, are still about the same."""

_LARGEST: Final = 50.0
"""Logarithm of a size beside another that is not told from still larger ones."""


class SizePaces(NamedTuple):
    """What is known of each row by the name of its kernels.

    Attributes
    ----------
    pace : ndarray of float64
        Mean duration of all kernels of this name, rank and step beside the median of the ranks,
        and beside how much larger they are; 1 where that is not known.
    is_like : ndarray of bool
        Whether they are as many and of the same size as on the median of the ranks, nearly.
    """

    pace: Floats
    is_like: NDArray[np.bool_]


def paces_by_size(
    place: Rows,
    step: Rows,
    kind: NDArray[np.uint64],
    *,
    counts: Rows,
    total_ns: Floats,
    size: Floats,
) -> SizePaces:
    """Compare the kernels of each name over the ranks; the arguments are columns of `LikeKernels`.

    Sizes are logarithms, averaged by the time that kernels of each size take.
    """
    order = np.lexsort((place, step, kind))
    first, rows = runs_of(kind[order], step[order], place[order])
    if not first.size:
        return SizePaces(np.ones(0), np.zeros(0, dtype=bool))
    columns = step[order][first], kind[order][first]
    number = np.add.reduceat(counts[order], first).astype(np.float64)
    taken_ns = np.maximum(np.add.reduceat(total_ns[order], first), 1)
    of_size = np.add.reduceat((total_ns * size)[order], first) / taken_ns
    usual_ns, ranks = usual_of(taken_ns / number, *columns)
    larger = of_size - usual_of(of_size, *columns)[0]
    more = number / usual_of(number, *columns)[0]
    is_known = np.isfinite(larger) & (ranks >= PAIR)
    is_like = is_known & (np.abs(larger) <= np.log(LIKE_SIZE))
    is_like &= np.abs(np.log(more)) <= np.log(LIKE_SIZE)
    times = np.exp(np.clip(larger, 0, _LARGEST))
    pace = np.where(is_known, taken_ns / number / np.maximum(usual_ns, 1) / times, 1.0)
    found = SizePaces(np.empty(order.size), np.empty(order.size, dtype=bool))
    found.pace[order], found.is_like[order] = np.repeat(pace, rows), np.repeat(is_like, rows)
    return found
