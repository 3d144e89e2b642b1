"""Bands of many ranks: the minimum, median and maximum over the ranks, for each class of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from hta_widgets.analyses.timeline.lanes_of_job import JobLanes, least_median_most, rank_rows
from hta_widgets.analyses.timeline.overview import OVERVIEW_CLASSES, RankOverview, Span
from hta_widgets.analyses.timeline.window import pixel_edges
from hta_widgets.errors import ParameterError
from hta_widgets.intervals import edges_of_parts
from hta_widgets.panels.timeline.encoding import in_bytes, together
from hta_widgets.panels.timeline.messages import Band
from hta_widgets.quantities import counted

FEW_RANKS: Final = 32
"""Maximum number of ranks that get a lane each; with more, bands are shown."""

MOST_CELLS: Final = 2**16
"""Maximum pixels, over all ranks, of one request for bands; these take about 40 ms."""

LEAST_SHARE: Final = 0.001
"""Share of the ranks' time that a class needs to get a band: less would look empty."""

_TOGETHER: Final = 2
"""Number of overview bins per bin of a band."""


def bands(
    overviews: Mapping[int, RankOverview], analysed: Span, at: int
) -> tuple[list[Band], int, bytes]:
    """Bands of the classes that take time, the number of their bins, and their planes.

    The planes hold the exact minimum, median and maximum time that the ranks spend in the class in
    each bin; they start at offset `at` of the bytes that are sent.
    """
    if len(overviews) <= FEW_RANKS:
        return [], 0, b""
    whole = next(iter(overviews.values())).of_classes_ns.shape[1]
    count = whole // _TOGETHER
    edges = edges_of_parts(*analysed, whole)[::_TOGETHER][: count + 1]
    found: list[Band] = []
    parts: list[bytes] = []
    least_ns = LEAST_SHARE * len(overviews) * int(edges[-1] - edges[0])
    every = [together(each.covered_ns, _TOGETHER, count) for each in overviews.values()]
    for place, code in enumerate(OVERVIEW_CLASSES):
        by_rank = np.array([each[place] for each in every])
        if by_rank.sum() > least_ns:
            found.append({"code": code, "at": at + 3 * len(found) * count})
            parts.append(in_bytes(least_median_most(by_rank), edges).tobytes())
    return found, count, b"".join(parts)


def most_band_pixels(ranks: int) -> int:
    """Maximum number of pixels of a window of bands over this many ranks."""
    return max(1, MOST_CELLS // max(1, ranks))


def band_window(
    lanes: JobLanes, ranks: Sequence[int], start_ns: int, end_ns: int, pixels: int
) -> tuple[list[Band], int, bytes]:
    """Bands of all classes in a window of the common clock, the number of bins, and their planes.

    They are as in the first message, but with fewer and shorter bins; classes that do not occur
    have zeros.
    """
    if end_ns <= start_ns or pixels < 1:
        msg = f"bands need start < end and pixels ≥ 1, got ({start_ns}, {end_ns}) on {pixels}"
        raise ParameterError(msg)
    chosen = lanes.job.select_ranks(ranks)
    if lanes.job.too_many_to_hold(chosen):
        msg = f"{counted(len(chosen), 'rank')} are too many for one request"
        raise ParameterError(msg)
    edges = pixel_edges(start_ns, end_ns, min(pixels, most_band_pixels(len(chosen))))
    spread = rank_rows(lanes.job, chosen).spread(edges)
    found: list[Band] = [
        {"code": code, "at": 3 * place * (edges.size - 1)}
        for place, code in enumerate(OVERVIEW_CLASSES)
    ]
    return found, edges.size - 1, in_bytes(spread, edges).tobytes()
