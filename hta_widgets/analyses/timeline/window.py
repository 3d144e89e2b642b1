"""What a window of a lane looks like on a given number of pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.timeline.curve import Curves
from hta_widgets.analyses.timeline.tracks import Track, coverage
from hta_widgets.arrays import Float64Array, Int64Array
from hta_widgets.intervals import Times, edges_of_parts

MOST_EVENTS: Final = 1_500
"""Maximum number of events of a lane that are returned one by one."""


class LaneWindow(NamedTuple):
    """A lane in a window."""

    codes: tuple[int, ...]
    """Classes that the lane has in the window, as positions in `CLASSES`."""
    covered_ns: Int64Array
    """Time of each class in each pixel, exact. Shape (classes, pixels)."""
    start_ns: Times
    duration_ns: Times
    """Starts and durations of the segments that overlap the window, ascending: all of them if they
    are few, else those at least a pixel long, or the longest of these if they are too many."""
    code: Int64Array
    row: Int64Array
    """Row of each segment in the rank's events, -1 for none."""
    is_complete: bool
    """Whether these are all segments."""
    found_ns: Times | None = None
    """Time of each pixel that is covered by events that match the search."""
    extremes: Float64Array | None = None
    """Smallest and largest value of curves in each pixel, NaN if they are not known. Shape
    (curves, 2, pixels)."""


def pixel_edges(start_ns: int, end_ns: int, pixels: int) -> Times:
    """Bounds of pixels in a window (ns); there is at most one pixel per nanosecond.

    Examples
    --------
    >>> pixel_edges(0, 10, 4).tolist()
    [0, 2, 5, 7, 10]
    >>> pixel_edges(5, 7, 4).tolist()
    [5, 6, 7]
    """
    return edges_of_parts(start_ns, end_ns, min(pixels, end_ns - start_ns))


def curve_window(curves: Curves, edges: Times) -> LaneWindow:
    """Curves between the edges of pixels, on the lane's clock."""
    none = np.zeros(0, dtype=np.int64)
    covered_ns = np.zeros((0, edges.size - 1), dtype=np.int64)
    extremes = np.array([curve.extremes(edges) for curve in curves])
    return LaneWindow((), covered_ns, none, none, none, none, True, extremes=extremes)


def lane_window(
    tracks: Sequence[Track],
    edges: Times,
    most_events: int = MOST_EVENTS,
) -> LaneWindow:
    """Coverage and events of one lane between the edges of pixels, on the lane's clock."""
    start_ns, end_ns = int(edges[0]), int(edges[-1])
    every = [(track, track.between(start_ns, end_ns)) for track in tracks]
    tracks = [track for track, (first, last) in every if last > first]
    spans = [(first, last) for _, (first, last) in every if last > first]
    is_complete = sum(last - first for first, last in spans) <= most_events
    least_ns = 1 if is_complete else -(-(end_ns - start_ns) // (edges.size - 1))
    places = [
        track.places(first, last, least_ns)
        for track, (first, last) in zip(tracks, spans, strict=True)
    ]
    return LaneWindow(
        tuple(track.code for track in tracks),
        coverage(tracks, edges),
        *_events(tracks, places, most_events),
        is_complete,
    )


def _events(
    tracks: Sequence[Track], places: Sequence[Int64Array], most: int
) -> tuple[Times, Times, Int64Array, Int64Array]:
    none = np.zeros(0, dtype=np.int64)
    pairs = list(zip(tracks, places, strict=True))
    start = np.concatenate([none, *(track.start_ns[each] for track, each in pairs)])
    length = np.concatenate([none, *(track.length_ns(each) for track, each in pairs)])
    code = np.concatenate([none, *(np.full(each.size, track.code) for track, each in pairs)])
    row = np.concatenate([none, *(track.row[each].astype(np.int64) for track, each in pairs)])
    if start.size > most:
        longest = np.argsort(-length, kind="stable")[:most]
        start, length, code, row = (column[longest] for column in (start, length, code, row))
    order = np.argsort(start, kind="stable")
    return start[order], length[order], code[order], row[order]
