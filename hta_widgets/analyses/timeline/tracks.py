"""Events that do not overlap, packed so that any window of them is summed at once.

A lane has one track for each class that occurs in it. A track is a slice of these columns::

    events        |----a----|   |b|        |--c--|
    start_ns      10            22         33
    sums_ns       0             8          9        14       covered before each, and in total

One binary search finds the time covered before any instant, and a thousand searches that of a
thousand pixels, however many events there are. An event takes 20 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Int8Array, Int32Array, Int64Array, IntArray
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Intervals, Times

NO_ROW: Final = -1
BLOCK: Final = 256
"""Number of events for which the longest is stored, so that long events are found quickly."""


class Segments(NamedTuple):
    """Stretches of time, each of one lane and class; those of one lane and class do not overlap."""

    lane: IntArray
    """Number of the lane."""
    code: Int8Array
    """Position in `CLASSES`."""
    start_ns: Times
    end_ns: Times
    row: IntArray
    """Row in the rank's events of the event that each segment is part of, `NO_ROW` for none."""

    @classmethod
    def of(
        cls,
        lane: int,
        code: int | Int8Array,
        start_ns: Times,
        end_ns: Times,
        row: IntArray | int = NO_ROW,
    ) -> Segments:
        """Segments of one lane, all of one class or each with its own."""
        lanes, rows = (
            np.broadcast_to(np.asarray(each, dtype=np.int32), start_ns.shape)
            for each in (lane, row)
        )
        codes = np.broadcast_to(np.asarray(code, dtype=np.int8), start_ns.shape)
        return cls(lanes, codes, start_ns, end_ns, rows)

    @classmethod
    def covering(cls, lane: int, code: int, covered: Intervals) -> Segments:
        """Segments of covered time."""
        return cls.of(lane, code, covered.starts, covered.ends)

    def lasting(self) -> Segments:
        """The segments that have a length."""
        has_length = self.end_ns > self.start_ns
        if has_length.all():
            return self
        columns: tuple[NDArray[Any], ...] = self
        return Segments(*(column[has_length] for column in columns))


class Track(NamedTuple):
    """The segments of one lane and class, ascending."""

    code: int
    """Position in `CLASSES`."""
    start_ns: Times
    sums_ns: Times
    """Time covered before each segment, and by all: one more item than there are segments."""
    row: Int32Array
    longest_ns: Times
    """Longest segment of each `BLOCK` of segments."""

    def covered_between(self, edges: Times) -> Times:
        """Covered time (ns) between consecutive, ascending edges."""
        # Only the segments in the window are searched, and only those around an edge are cut:
        #   |----|     |------|    |---|
        #                  e···            unfinished: the end of the second minus e
        first, last = self.between(int(edges[0]), int(edges[-1]))
        start_ns, sums_ns = self.start_ns[first:last], self.sums_ns[first : last + 1]
        if not start_ns.size:
            return np.zeros(edges.size - 1, dtype=np.int64)
        opened = np.searchsorted(start_ns, edges, side="right")
        until = sums_ns[opened]
        last_opened = np.maximum(opened - 1, 0)
        ends_ns = start_ns[last_opened] + until - sums_ns[last_opened]
        unfinished = np.where(opened > 0, np.maximum(ends_ns - edges, 0), 0)
        return np.diff(until - unfinished)

    def between(self, start_ns: int, end_ns: int) -> tuple[int, int]:
        """Positions of the first segment that overlaps a window, and after the last one."""
        first = int(np.searchsorted(self.start_ns, start_ns, side="right"))
        if first and self.end_of(first - 1) > start_ns:
            first -= 1
        return first, max(first, self.before(end_ns))

    def before(self, time_ns: int) -> int:
        """Number of the segments that start before a time."""
        return int(np.searchsorted(self.start_ns, time_ns, side="left"))

    def end_of(self, place: int) -> int:
        """End of a segment (ns)."""
        return int(self.start_ns[place] + self.sums_ns[place + 1] - self.sums_ns[place])

    def length_ns(self, places: Int64Array) -> Times:
        """Length of some segments."""
        return np.asarray(self.sums_ns[places + 1] - self.sums_ns[places])

    def places(self, first: int, last: int, least_ns: int) -> Int64Array:
        """Positions in a range of the segments that are at least a given length."""
        if least_ns <= 1:
            return np.arange(first, last)
        blocks = np.arange(first // BLOCK, -(-last // BLOCK))
        blocks = blocks[self.longest_ns[blocks] >= least_ns]
        inside = (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
        inside = inside[(inside >= first) & (inside < last)]
        return np.asarray(inside[self.length_ns(inside) >= least_ns])


@dataclass(frozen=True, eq=False)
class Tracks:
    """Packed tracks of several lanes."""

    lane: Int64Array
    """Lane of each track, ascending."""
    code: Int64Array
    """Class of each track, ascending within a lane."""
    first: Int64Array
    """Where each track starts in `start_ns` and `row`, and where the last one ends."""
    start_ns: Times
    sums_ns: Times
    """One more than `start_ns` for each track."""
    row: Int32Array

    @classmethod
    def of(cls, *parts: Segments) -> Tracks:
        """Sort and pack segments; those without length are left out."""
        none = np.zeros(0, dtype=np.int64)
        lasting = [each.lasting() for each in parts] or [Segments.of(0, 0, none, none)]

        def column(name: str) -> NDArray[Any]:
            """Join one column at a time; all together would be in memory twice."""
            return np.concatenate([getattr(each, name) for each in lasting])

        groups, start_ns = grouped(column("lane"), column("code")), column("start_ns")
        _sort_by_start(groups.parts, start_ns)
        order, heads, edges = groups.order, groups.first, groups.edges
        lane, code = (column(name)[heads].astype(np.int64) for name in ("lane", "code"))
        row = column("row")[order].astype(np.int32, copy=False)
        start_ns = start_ns[order]
        length_ns = column("end_ns")[order]
        length_ns -= start_ns
        del groups, order  # 9 MB for 1.1 M segments
        return cls(lane, code, edges, start_ns, _sums(length_ns, edges), row)

    @cached_property
    def by_lane(self) -> Mapping[int, tuple[Track, ...]]:
        """The tracks of each lane."""
        found: dict[int, list[Track]] = {}
        for place, (lane, code) in enumerate(
            zip(self.lane.tolist(), self.code.tolist(), strict=True)
        ):
            found.setdefault(lane, []).append(self._track(place, code))
        return {lane: tuple(tracks) for lane, tracks in found.items()}

    def _track(self, place: int, code: int) -> Track:
        first, last = int(self.first[place]), int(self.first[place + 1])
        sums = self.sums_ns[first + place : last + place + 1]
        longest = np.maximum.reduceat(np.diff(sums), np.arange(0, last - first, BLOCK))
        return Track(code, self.start_ns[first:last], sums, self.row[first:last], longest)


def _sort_by_start(parts: Sequence[Int64Array], start_ns: Times) -> None:
    for own in parts:
        own_ns = start_ns[own]
        if np.any(own_ns[1:] < own_ns[:-1]):  # rare: most ascend already
            own[:] = own[np.argsort(own_ns, kind="stable")]


def coverage(tracks: Sequence[Track], edges: Times) -> Int64Array:
    """Time (ns) that each track covers between consecutive edges, of shape (tracks, bins)."""
    rows = [track.covered_between(edges) for track in tracks]
    return np.array(rows, dtype=np.int64).reshape(len(rows), edges.size - 1)


def _sums(length_ns: Times, edges: Int64Array) -> Times:
    """Running sums of each group, from 0 to its total: one more item than the group has events."""
    sums = np.zeros(length_ns.size + edges.size - 1, dtype=np.int64)
    for place, (first, last) in enumerate(pairwise(edges.tolist()), 1):
        np.cumsum(length_ns[first:last], out=sums[first + place : last + place])
    return sums


Drawn: TypeAlias = Literal["rank", "phases", "stream", "thread", "range", "curve", "path"]
"""What is drawn in a lane."""


class LaneName(NamedTuple):
    """The name and kind of a lane of a rank."""

    key: str
    """Unique among the lanes of the rank."""
    kind: Drawn
    """What is drawn; a ``range`` is a named stretch of GPU work, a ``path`` what sets the time of
    the steps."""
    label: str
    """Name on screen."""
    level: int = 0
    """Level of nesting, or 0."""
    unit: str = ""
    """Unit of curves: ``operations``, ``GB/s`` or ``bytes``; of a path, ``ns``."""
    most: tuple[float, ...] = ()
    """Largest value of each curve; for a path, the length of all of it over all ranks."""
    words: tuple[str, ...] = ()
    """What each curve shows, if there are several."""
