"""Interval algebra on sorted int64 arrays.

Every interval is half-open, ``[start, end)``, in integer nanoseconds. Zero-length intervals cover
no time and are dropped; intervals that overlap or touch are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hta_widgets.arrays import Int8Array, Int64Array, Mask

Times = Int64Array

_FIRST, _BOTH = 0b01, 0b11


@dataclass(frozen=True, eq=False)
class Intervals:
    """Covered time: disjoint, non-touching intervals in ascending order."""

    starts: Times
    ends: Times
    """Edges in ns, ``starts[i] < ends[i] < starts[i + 1]``."""

    @classmethod
    def union(cls, starts: ArrayLike, ends: ArrayLike) -> Intervals:
        """Merge intervals, in any order, into the time that they cover together.

        Examples
        --------
        >>> covered = Intervals.union([5, 0, 10], [7, 6, 12])
        >>> covered.starts.tolist(), covered.ends.tolist()
        ([0, 10], [7, 12])
        """
        first = np.asarray(starts, dtype=np.int64)
        last = np.asarray(ends, dtype=np.int64)
        if not first.size:
            return cls(first, last)
        not_empty = last > first
        if not not_empty.all():
            first, last = first[not_empty], last[not_empty]
        if np.any(first[1:] < first[:-1]):
            order = np.argsort(first, kind="stable")  # most are sorted runs, which it merges
            first, last = first[order], last[order]
        # `reached` is the latest end so far; an interval that starts later opens a new one:
        #   |------|                 reached 6
        #        |---|               reached 7
        #                |--|        starts at 10 > 7
        reached = np.maximum.accumulate(last)
        opens = np.flatnonzero(first[1:] > reached[:-1]) + 1
        return cls(
            np.concatenate((first[:1], first[opens])),
            np.concatenate((reached[opens - 1], reached[-1:])),
        )

    def __len__(self) -> int:
        """Number of disjoint intervals."""
        return int(self.starts.size)

    def __and__(self, other: Intervals) -> Intervals:
        """Time covered by both."""
        edges, covering = sweep([self, other])
        return _where(edges, covering == _BOTH)

    def __or__(self, other: Intervals) -> Intervals:
        """Time covered by either."""
        if not (self.starts.size and other.starts.size):
            return self if self.starts.size else other
        starts = np.concatenate((self.starts, other.starts))
        return Intervals.union(starts, np.concatenate((self.ends, other.ends)))

    def __sub__(self, other: Intervals) -> Intervals:
        """Time covered by this set but not by the other."""
        if not other.starts.size:
            return self
        if other is self:  # as when a part of the budget adds nothing to the parts before it
            return Intervals.union([], [])
        edges, covering = sweep([self, other])
        return _where(edges, covering == _FIRST)

    @cached_property
    def sums(self) -> Times:
        """Covered time (ns) before each interval, and in total."""
        return np.concatenate(([0], np.cumsum(self.ends - self.starts)))

    @property
    def length(self) -> int:
        """Covered time in ns."""
        return int(self.sums[-1])

    @property
    def span(self) -> int:
        """Time from the first start to the last end in ns; 0 when nothing is covered."""
        return int(self.ends[-1] - self.starts[0]) if len(self) else 0

    def covers(self, times: Times) -> Mask:
        """Mask of the times (ns) that are covered."""
        if len(self) == 1:
            return np.asarray((self.starts[0] <= times) & (times < self.ends[0]))
        opened = np.searchsorted(self.starts, times, side="right")
        closed = np.searchsorted(self.ends, times, side="right")
        return np.asarray(opened > closed)

    def covered_until(self, times: Times) -> Times:
        """Covered time (ns) before each of the given times."""
        if not len(self):
            return np.zeros(np.shape(times), dtype=np.int64)
        if len(self) == 1:  # a window over many calls: 1 ms for 400 k instead of 8 ms
            inside: Times = np.asarray(np.clip(times, self.starts[0], self.ends[0]))
            inside -= self.starts[0]
            return inside
        # All intervals opened so far, minus the part of the last one after the time:
        #   |----|   |------|    |---|
        #                t···             unfinished: the end of the second minus t
        opened = np.searchsorted(self.starts, times, side="right")
        unfinished = np.maximum(0, self.ends[opened - 1] - times)
        return self.sums[opened] - np.where(opened > 0, unfinished, 0)

    def gaps(self) -> Intervals:
        """Time between the first start and the last end that is not covered."""
        return Intervals(self.ends[:-1], self.starts[1:])

    def clip(self, start: int, end: int) -> Intervals:
        """Keep the covered time inside ``[start, end)``."""
        return Intervals.union(np.maximum(self.starts, start), np.minimum(self.ends, end))

    def length_in_bins(self, edges: Times) -> Times:
        """Covered time (ns) in each of the ``len(edges) - 1`` bins; edges ascend."""
        return np.diff(self.covered_until(edges))


def time_of_both(one: Intervals, other: Intervals) -> int:
    """Time (ns) that both cover: the sum, over the intervals of the shorter, of the other's time.

    Examples
    --------
    >>> time_of_both(Intervals.union([0, 8], [5, 9]), Intervals.union([3], [20]))
    3
    """
    few, many = sorted((one, other), key=len)
    return int((many.covered_until(few.ends) - many.covered_until(few.starts)).sum())


def edges_of_parts(start_ns: int, end_ns: int, parts: int) -> Times:
    """Cut a stretch of time (ns) into parts of equal length, to the ns.

    Examples
    --------
    >>> edges_of_parts(10, 15, 3).tolist()
    [10, 11, 13, 15]
    """
    whole, rest = divmod(end_ns - start_ns, parts)
    places = np.arange(parts + 1, dtype=np.int64)
    return start_ns + places * whole + places * rest // parts


def time_by_combination(sets: Sequence[Intervals]) -> Times:
    """Split time by which of the sets cover it.

    Entry ``c`` is the time in ns covered by exactly the sets whose bit is set in ``c``; entry 0 is
    the time between the outermost edges that no set covers.
    """
    edges, covering = sweep(sets)
    total = np.zeros(2 ** len(sets), dtype=np.int64)
    np.add.at(total, covering, np.diff(edges))
    return total


def sweep(sets: Sequence[Intervals]) -> tuple[Times, Int8Array]:
    """Sort the edges of several sets, at most seven.

    With them comes which sets (as bits) cover the time between each edge and the next.
    """
    # first   |-------|              edges      0   4   8    12
    # second      |--------|         covering    01  11   10     (bits: second, first)
    # A start adds the bit of its set, an end subtracts it; the running sum is what covers.
    runs: list[Times] = [run for each in sets for run in (each.starts, each.ends)]
    steps = [step for bit in range(len(sets)) for step in (1 << bit, -(1 << bit))]
    changes = np.repeat(np.array(steps, dtype=np.int8), [run.size for run in runs])
    edges = np.concatenate(runs)
    changes = changes[np.argsort(edges, kind="stable")]
    edges.sort(kind="stable")  # a second sort takes 40 % less memory than both orders at once
    return edges, np.cumsum(changes, dtype=np.int8)[:-1]


def distinct_times(*times: Times) -> Times:
    """Distinct times, ascending."""
    ascending = np.sort(np.concatenate(times))
    return np.asarray(ascending[np.diff(ascending, prepend=ascending[:1] - 1) != 0])


def _where(edges: Times, wanted: Mask) -> Intervals:
    return Intervals.union(edges[:-1][wanted], edges[1:][wanted])


class Reach(NamedTuple):
    """Finds the intervals that may touch a window, without looking at all of them."""

    ended_by: Times
    """Latest end among each interval and those before it."""
    begun_from: Times
    """Earliest start among each interval and those after it."""

    @classmethod
    def of(cls, starts: Times, ends: Times) -> Reach:
        """Index intervals in any order; the nearer they are to time order, the fewer are found."""
        return cls(np.maximum.accumulate(ends), np.minimum.accumulate(starts[::-1])[::-1])

    def inside(self, start: int, end: int) -> slice:
        """Range of positions that holds all intervals that touch a window.

        Examples
        --------
        >>> reach = Reach.of(np.array([0, 5, 3, 20, 30]), np.array([4, 9, 4, 25, 31]))
        >>> reach.inside(8, 21)
        slice(1, 4, None)
        """
        first = int(np.searchsorted(self.ended_by, start, side="left"))
        last = int(np.searchsorted(self.begun_from, end, side="right"))
        return slice(first, max(first, last))
