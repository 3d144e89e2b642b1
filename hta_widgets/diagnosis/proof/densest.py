"""Windows that show most of some intervals: the densest first, then what it leaves."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hta_widgets.arrays import Int64Array
from hta_widgets.intervals import Times

LEAST_SHARE: Final = 0.2
"""Part of the whole that the densest window holds, if it can: with less, it is an example."""

_NONE: Final = np.zeros(0, dtype=np.int64)

MOST_WINDOWS: Final = 50
"""Windows that somebody steps through; the last of more hold next to nothing each."""


class Edges(NamedTuple):
    """Intervals that may overlap, as the starts and the ends that they have.

    Which start belongs to which end matters to nothing here: the time of all intervals before a
    time is that since all starts before it, less that since all ends before it.

    Attributes
    ----------
    starts, ends : ndarray of int64
        Each ascending.
    """

    starts: Times
    ends: Times

    @classmethod
    def of(cls, starts: Times, ends: Times) -> Edges:
        """Of intervals in any order."""
        return cls(np.sort(starts), np.sort(ends))

    def until(self) -> tuple[Times, Times, Int64Array]:
        """Time of all intervals (ns) before each start and each end, and ends up to each start.

        Of intervals that overlap, the time is added.
        """
        places = np.arange(self.starts.size)
        starts, ends = (each - self.starts[:1] for each in self)
        begun = np.searchsorted(starts, ends, side="right")
        over = np.searchsorted(ends, starts, side="right")
        of_starts, of_ends = (np.concatenate(([0], np.cumsum(each))) for each in (starts, ends))
        before_start = starts * (places - over) - of_starts[places] + of_ends[over]
        before_end = ends * (begun - places) - of_starts[begun] + of_ends[places]
        return before_start, before_end, over

    def without(self, start: int, end: int) -> Edges:
        """What is outside of a window; what is in it and outside is cut."""
        starts, ends = self.starts, self.ends
        first, last = (np.searchsorted(starts, at, side="left") for at in (start, end))
        over, past = (np.searchsorted(ends, at, side="right") for at in (start, end))
        return Edges(
            np.concatenate((starts[:first], np.full(last - past, end), starts[last:])),
            np.concatenate((ends[:over], np.full(first - over, start), ends[past:])),
        )


class Window(NamedTuple):
    """A window, from the start of an interval to the end of one.

    Attributes
    ----------
    start_ns, end_ns : int
    held_ns : int
        Time of the intervals in it.
    """

    start_ns: int
    end_ns: int
    held_ns: int


def windows_of(edges: Edges, longest_ns: int) -> list[Window]:
    """Divide intervals among windows: first the densest, then always the fullest of what is left.

    The densest is the one with most of the intervals per time, of those that hold `LEAST_SHARE`. If
    it is longer than somebody can look at, it is the fullest that is not. The others are not longer
    than the first, and disjoint; from the second on, none holds more than the one before it.

    Parameters
    ----------
    edges : Edges
    longest_ns : int
        Length of the longest window, unless a single interval is longer.
    """
    if not edges.starts.size:
        return []
    whole_ns = int((edges.ends - edges.starts).sum())
    first = densest(edges, LEAST_SHARE * whole_ns)
    if first.end_ns - first.start_ns > longest_ns:
        first = fullest(edges, longest_ns)
    others: list[Window] = []
    length_ns = first.end_ns - first.start_ns
    while 1 + len(others) < MOST_WINDOWS:
        found = [first, *others]
        edges = edges.without(found[-1].start_ns, found[-1].end_ns)
        if not edges.starts.size:
            break
        others.append(fullest(edges, length_ns, np.sort([each.start_ns for each in found])))
    return [first, *sorted(others, key=lambda each: -each.held_ns)]


def densest(edges: Edges, least_ns: float) -> Window:
    """The window with most of the intervals per time, of those that hold some time of them.

    Of each rate, the window is found that holds most beyond it; that one's rate is higher, unless
    there is no better one (Dinkelbach).
    """
    starts, ends = edges.starts, edges.ends
    before, until, _ = edges.until()
    count = np.searchsorted(before, until - least_ns, side="right")
    chosen = np.flatnonzero(count)
    start_ns, end_ns = (each - starts[0] for each in (starts, ends[chosen]))
    last, until = count[chosen] - 1, until[chosen]
    window, rate = Window(int(starts[0]), int(ends[-1]), int(until[-1])), -1.0
    while (found := window.held_ns / (window.end_ns - window.start_ns)) > rate:
        best, rate = window, found
        least_at = _place_of_least(before - rate * start_ns)[last]
        beyond = until - rate * end_ns - (before - rate * start_ns)[least_at]
        place = int(np.argmax(beyond))
        at = int(least_at[place])
        window = Window(int(starts[at]), int(ends[chosen[place]]), int(until[place] - before[at]))
    return best


def _place_of_least(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Int64Array:
    """Place of the least value up to each."""
    is_new = values <= np.minimum.accumulate(values)
    return np.maximum.accumulate(np.where(is_new, np.arange(values.size), 0))


def fullest(edges: Edges, longest_ns: int, taken: Times = _NONE) -> Window:
    """The window with most of the intervals, of those that are not longer than this.

    A window holds one whole interval at least, however long; of equal ones it is the first.

    Parameters
    ----------
    edges : Edges
    longest_ns : int
    taken : ndarray of int64
        Starts of other windows, ascending, of which there is nothing in `edges`: none is in this
        one.
    """
    starts, ends = edges.starts, edges.ends
    barrier = np.append(taken, ends[-1])[np.searchsorted(taken, starts)]
    at = np.searchsorted(ends, np.minimum(starts + longest_ns, barrier), side="right") - 1
    before, until, own = edges.until()  # `own` is the first that ends behind a start
    last = np.maximum(at, own)
    held_ns = until[last] - before
    place = int(np.argmax(held_ns))
    return Window(int(starts[place]), int(ends[last[place]]), int(held_ns[place]))
