"""Encodes lanes for the browser: coverage of pixels, events and curves as compact bytes.

Also the intervals of the selected finding, which the timeline highlights on all ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.timeline.classes import CODE
from hta_widgets.analyses.timeline.lanes_of_job import JobLanes
from hta_widgets.analyses.timeline.overview import OVERVIEW_CLASSES, RankOverview
from hta_widgets.analyses.timeline.window import LaneWindow
from hta_widgets.arrays import Int64Array, IntArray
from hta_widgets.grouping import opens_run
from hta_widgets.intervals import Intervals, Times, edges_of_parts
from hta_widgets.panels.timeline.messages import RankRow, Step, WindowLane

MOST_BYTES: Final = 48_000
"""Maximum size of an overview; it takes a third more in a saved notebook."""

_FULL: Final = 255
_LONGEST_RUN: Final = 256


def in_bytes(covered_ns: NDArray[Any], edges: Times) -> NDArray[np.uint8]:
    """Coverage of each pixel in 1/255; anything present stays above 0, and any gap below 255.

    Examples
    --------
    >>> edges = np.array([0, 1_000, 2_000])
    >>> in_bytes(np.array([[1, 999], [0, 1_000]]), edges).tolist()
    [[1, 254], [0, 255]]
    """
    width = np.maximum(np.diff(edges), 1)
    scaled = np.rint(covered_ns * (_FULL / width))
    scaled[(covered_ns > 0) & (scaled < 1)] = 1
    scaled[(covered_ns < width) & (scaled > _FULL - 1)] = _FULL - 1
    return scaled.astype(np.uint8)


def in_runs(content: bytes, _: object = None) -> bytes:
    r"""Runs of equal bytes: the values of all runs, then their lengths minus 1.

    Content that is no longer than its runs is returned as is; js/src/timeline/runs.ts knows its
    length.

    Examples
    --------
    >>> in_runs(bytes([0, 0, 0, 0, 0, 255, 255, 255]))
    b'\x00\xff\x04\x02'
    >>> in_runs(bytes([1, 2, 3]))
    b'\x01\x02\x03'
    """
    values = np.frombuffer(content, np.uint8)
    starts = np.flatnonzero(opens_run(values))
    lengths = np.diff(starts, append=values.size)
    pieces = -(-lengths // _LONGEST_RUN)
    less_one = np.full(int(pieces.sum()), _LONGEST_RUN - 1)
    less_one[np.cumsum(pieces) - 1] = (lengths - 1) % _LONGEST_RUN
    runs = np.concatenate([np.repeat(values[starts], pieces), less_one]).astype(np.uint8)
    return runs.tobytes() if runs.size < values.size else content


def overview_bytes(
    lanes: JobLanes, overviews: dict[int, RankOverview], steps: dict[int, list[Step]]
) -> tuple[list[RankRow], int, bytes]:
    """The lane of each rank, the number of bins, and the coverage of the bins.

    With many ranks, bins are merged until they fit.
    """
    some = next(iter(overviews.values()), None)
    bins = 0 if some is None else some.of_classes_ns.shape[1]
    planes = sum(each.classes.size for each in overviews.values())
    by = max(1, -(-planes * bins // MOST_BYTES))
    edges = edges_of_parts(*lanes.analysed, max(bins, 1))[::by]
    edges = edges[: bins // by + 1]
    rows: list[RankRow] = []
    parts: list[bytes] = []
    count = edges.size - 1
    for rank, each in overviews.items():
        covered = together(each.covered_ns, by, count)
        occurs = np.flatnonzero(covered.any(axis=1))
        first = len(parts)
        parts += [row.tobytes() for row in in_bytes(covered[occurs], edges)]
        codes = [OVERVIEW_CLASSES[place] for place in occurs.tolist()]
        total = int(each.by_step_ns[:-1].sum())
        waiting = int(each.by_step_ns[_WAITING].sum())
        rows.append(
            {
                "rank": rank,
                "steps": steps.get(rank, []),
                "planes": [
                    {"code": code, "at": (first + place) * count}
                    for place, code in enumerate(codes)
                ],
                "waiting": waiting / total if total else 0.0,
            }
        )
    return rows, count, b"".join(parts)


def together(covered: IntArray, by: int, count: int) -> Int64Array:
    """Merge every `by` bins into one, and keep the first `count` of these."""
    shape = covered.shape[0], count, by
    return np.asarray(covered[:, : count * by].reshape(shape).sum(axis=2))


def curve_bytes(found: Sequence[LaneWindow | None]) -> bytes:
    """Extremes of all curves of a window, lane by lane, as float32."""
    parts = [each.extremes.ravel() for each in found if each and each.extremes is not None]
    return np.concatenate([np.zeros(0), *parts]).astype(np.float32).tobytes()


def window_bytes(
    found: Sequence[LaneWindow | None], edges: Times
) -> tuple[list[WindowLane], list[bytes]]:
    """Lanes of a window, and buffers: coverage, then starts, durations, rows and classes.

    Starts and rows are differences from the previous event, the first from the start of the window
    and from row 0. Packed this way, events take two thirds of the space in messages and reports.
    """
    told: list[WindowLane] = []
    planes: list[bytes] = []
    shown = [each for each in found if each is not None]
    bins, first, curve = edges.size - 1, 0, 0
    for place, each in enumerate(found):
        if each is None:
            continue
        at = len(planes) * bins
        planes += [row.tobytes() for row in in_bytes(each.covered_ns, edges)]
        found_at = None if each.found_ns is None else len(planes) * bins
        if each.found_ns is not None:
            planes.append(in_bytes(each.found_ns, edges).tobytes())
        curves = 0 if each.extremes is None else len(each.extremes)
        told.append(
            {
                "lane": place,
                "found": found_at,
                "curves": [curve + 2 * bins * number for number in range(curves)],
                "planes": [
                    {"code": code, "at": at + row * bins} for row, code in enumerate(each.codes)
                ],
                "first": first,
                "count": each.start_ns.size,
                "complete": each.is_complete,
            }
        )
        first += each.start_ns.size
        curve += 2 * bins * curves
    columns = [
        _differences([each.start_ns - edges[0] for each in shown], np.float64),
        _column([each.duration_ns for each in shown], np.float64),
        _differences([each.row for each in shown], np.int32),
        _column([each.code for each in shown], np.uint8),
    ]
    return told, [b"".join(planes), *columns]


def _column(parts: list[Int64Array], dtype: type[np.generic]) -> bytes:
    joined: NDArray[Any] = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
    return joined.astype(dtype).tobytes()


def _differences(parts: list[Int64Array], dtype: type[np.generic]) -> bytes:
    return _column([np.diff(np.concatenate([np.zeros(1, dtype=np.int64), *parts]))], dtype)


_WAITING: Final = OVERVIEW_CLASSES.index(CODE["waiting"])


MOST_LIT: Final = 6_000
"""Maximum intervals sent to a page, over all ranks: this many outside the window, and inside."""

LitRank = tuple[int, list[int]]
"""A rank, and the alternating starts and ends (ns, on the common clock) of its intervals."""


def lit(intervals: pd.DataFrame, window_ns: Sequence[int] | None) -> list[LitRank]:
    """Highlighted intervals of each rank, merged if too many; the window has its own limit."""
    ranks = intervals["rank"].unique().tolist()
    most = max(MOST_LIT // max(len(ranks), 1), 1)
    found = []
    for rank in ranks:
        own = intervals[intervals["rank"] == rank]
        whole = Intervals.union(own["start_ns"].to_numpy(), own["end_ns"].to_numpy())
        window = Intervals.union(*(([each] for each in window_ns) if window_ns else ([], [])))
        shown = coarse(whole - window, most) | coarse(whole & window, most)
        found.append((rank, np.column_stack((shown.starts, shown.ends)).ravel().tolist()))
    return found


def coarse(intervals: Intervals, most: int) -> Intervals:
    """The intervals, with the shortest gaps closed so that at most `most` intervals remain."""
    if len(intervals) <= most:
        return intervals
    gaps_ns = intervals.starts[1:] - intervals.ends[:-1]
    kept = np.sort(np.argsort(-gaps_ns, kind="stable")[: most - 1])
    starts = np.concatenate((intervals.starts[:1], intervals.starts[1:][kept]))
    ends = np.concatenate((intervals.ends[:-1][kept], intervals.ends[-1:]))
    return Intervals.union(starts, ends)
