"""Sorted durations: the total time of any number of the longest events is one look-up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hta_widgets.intervals import Times

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SortedDurations:
    """Distinct durations, longest first, with the number of events that last at least as long.

    Attributes
    ----------
    duration_ns : ndarray of int64
        Distinct, descending.
    events : ndarray of int64
        Number of events of each duration and all longer ones.
    time_ns : ndarray of int64
        Total duration of these events.
    """

    duration_ns: Times
    events: Counts
    time_ns: Times

    @classmethod
    def of(cls, duration_ns: Times, counts: Counts | None = None) -> SortedDurations:
        """Sort durations, each of one event or of the given number of events."""
        order = np.argsort(duration_ns)[::-1]
        longest_first = duration_ns[order]
        number = np.ones_like(longest_first) if counts is None else counts[order]
        last = np.flatnonzero(np.diff(longest_first, append=-1))
        return cls(
            duration_ns=longest_first[last],
            events=np.cumsum(number)[last],
            time_ns=np.cumsum(number * longest_first)[last],
        )

    @classmethod
    def merged(cls, parts: Iterable[SortedDurations]) -> SortedDurations:
        """Durations of the events of all parts together."""
        every = list(parts)
        if len(every) == 1:
            return every[0]
        counts = [np.diff(each.events, prepend=0) for each in every]
        return cls.of(np.concatenate([each.duration_ns for each in every]), np.concatenate(counts))

    @property
    def count(self) -> int:
        """Number of events."""
        return int(self.events[-1]) if self.events.size else 0

    @property
    def total_ns(self) -> int:
        """Total duration in ns."""
        return int(self.time_ns[-1]) if self.time_ns.size else 0

    def longest(self, numbers: Counts) -> tuple[Times, Times]:
        """Total and shortest duration of the longest events.

        Parameters
        ----------
        numbers : ndarray of int64
            Numbers of longest events, each from 1 to `count`.

        Returns
        -------
        time_ns : ndarray of int64
            Total duration of each number of longest events.
        shortest_ns : ndarray of int64
            Duration of the shortest of them.

        Examples
        --------
        >>> durations = SortedDurations.of(np.array([5, 9, 5, 1]))
        >>> time_ns, shortest_ns = durations.longest(np.array([1, 2, 4]))
        >>> time_ns.tolist(), shortest_ns.tolist()
        ([9, 14, 20], [9, 5, 1])
        """
        place = np.searchsorted(self.events, numbers)
        shortest_ns = self.duration_ns[place]
        too_many = self.events[place] - numbers
        return self.time_ns[place] - too_many * shortest_ns, shortest_ns
