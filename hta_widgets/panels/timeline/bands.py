"""What many ranks do together: the least, the median and the most of each class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.timeline.overview import (
    OVERVIEW_CLASSES,
    RankOverview,
    Span,
    overview_edges,
)
from hta_widgets.panels.timeline.encoding import in_bytes
from hta_widgets.panels.timeline.messages import Band

FEW_RANKS: Final = 32
"""So many have lanes of their own; of more, the bands are shown."""

_TOGETHER: Final = 2
"""Bins of the overview for one of the bands."""


def bands(
    overviews: Mapping[int, RankOverview], analysed: Span, at: int
) -> tuple[list[Band], int, bytes]:
    """Bands of all classes that occur, the number of their bins, and their planes.

    In each bin, exactly: the least, the median and the largest time that any of the ranks spends in
    the class.

    Parameters
    ----------
    at : int
        Where the planes begin among the bytes that are sent.
    """
    if len(overviews) <= FEW_RANKS:
        return [], 0, b""
    whole = next(iter(overviews.values())).covered_ns.shape[1]
    count = whole // _TOGETHER
    edges = overview_edges(analysed, whole)[::_TOGETHER][: count + 1]
    found: list[Band] = []
    parts: list[bytes] = []
    for place, code in enumerate(OVERVIEW_CLASSES):
        by_rank = np.array([_of_class(each, place, count) for each in overviews.values()])
        if by_rank.any():
            spread = by_rank.min(axis=0), np.median(by_rank, axis=0), by_rank.max(axis=0)
            found.append({"code": code, "at": at + 3 * len(found) * count})
            parts.append(in_bytes(np.array(spread), edges).tobytes())
    return found, count, b"".join(parts)


def _of_class(overview: RankOverview, place: int, count: int) -> NDArray[np.int64]:
    covered_ns = overview.covered_ns[place, : count * _TOGETHER]
    return np.asarray(covered_ns.reshape(count, _TOGETHER).sum(axis=1))
