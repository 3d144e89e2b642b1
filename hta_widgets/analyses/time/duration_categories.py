"""Durations of the events of each category: kernels, copies and CUDA API calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hta_widgets.arrays import Int64Array
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Times
from hta_widgets.quantities import capitalised
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.events import GPU_WORK, LAUNCH_CALLS, Events, Kind
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.rank import Rank

DEVICE = "device"

HOST = "host"


CATEGORY_NAMES = {
    "kernel": "kernels",
    "memcpy": "copies",
    "memset": "memsets",
    "graph": "CUDA graphs",
    "runtime": "runtime API calls",
    "driver": "driver API calls",
}
"""Plural name of the events of each category; the categories are kinds of events."""


@dataclass(frozen=True, eq=False)
class SortedDurations:
    """Distinct durations, longest first, with the number of events that last at least as long."""

    duration_ns: Times
    """Distinct durations, descending."""
    events: Int64Array
    """Number of events of each duration or longer."""
    time_ns: Times
    """Total duration of these events."""

    @classmethod
    def of(cls, duration_ns: Times, counts: Int64Array | None = None) -> SortedDurations:
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

    def longest(self, numbers: Int64Array) -> tuple[Times, Times]:
        """Total duration of some numbers (1 to `count`) of longest events, and the shortest one.

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


@dataclass(frozen=True, eq=False)
class DurationCategory:
    """Events of one category."""

    durations: SortedDurations
    nested: int = 0
    """Number of events that run inside another API call of their thread; 0 on the device."""
    nested_ns: int = 0
    """Total duration of these events."""


Categories = dict[str, DurationCategory]


def side_of(category: str) -> str:
    """Side on which the events of a category run: `DEVICE` or `HOST`."""
    return DEVICE if Kind[category.upper()] in GPU_WORK else HOST


def category_label(category: str) -> str:
    """Name of a category with a capital letter, for axes and legends.

    Examples
    --------
    >>> category_label("graph"), category_label("driver")
    ('CUDA graphs', 'Driver API calls')
    """
    return capitalised(CATEGORY_NAMES[category])


def categories_of_rank(job: Job, rank: int) -> Categories:
    """Categories that occur on a rank, after the step filter; sorted once per job."""
    return job.reduce(_categories, [rank])[rank]


@asked_once
def categories_of_ranks(job: Job, ranks: tuple[int, ...]) -> Categories:
    """Categories of the events of several ranks; merged once per choice of ranks."""
    return _together(job.reduce(_categories, ranks).values())


def _categories(rank: Rank) -> Categories:
    events = rank.trace.events
    inside = _inside_other_calls(events)
    inside = inside[rank.analysed[inside]]
    found = {}
    for category in CATEGORY_NAMES:
        kind = Kind[category.upper()]
        rows = events.rows_of(kind)
        rows = rows[rank.analysed[rows]]
        if rows.size:
            nested = inside[events.kind[inside] == kind]
            found[category] = DurationCategory(
                durations=SortedDurations.of(events.duration_ns[rows]),
                nested=nested.size,
                nested_ns=int(events.duration_ns[nested].sum()),
            )
    return found


def _together(ranks: Iterable[Categories]) -> Categories:
    every = list(ranks)
    found = {}
    for category in CATEGORY_NAMES:
        if parts := [each[category] for each in every if category in each]:
            found[category] = DurationCategory(
                durations=SortedDurations.merged(part.durations for part in parts),
                nested=sum(part.nested for part in parts),
                nested_ns=sum(part.nested_ns for part in parts),
            )
    return found


def _inside_other_calls(events: Events) -> Int64Array:
    """Rows of the API calls that lie within another API call of their thread.

    If calls start and end together, the runtime call is outside, or else the first in the file.
    """
    calls = events.rows_of(*LAUNCH_CALLS)
    threads = grouped(events.pid[calls], events.tid[calls]).parts
    return np.concatenate([calls[:0], *(_within_another(events, calls[each]) for each in threads)])


def _within_another(events: Events, calls: Int64Array) -> Int64Array:
    """The calls of a thread, ascending by start, that lie within an earlier one."""
    start_ns, end_ns = events.start_ns[calls], events.end_ns[calls]
    if (start_ns[1:] == start_ns[:-1]).any():
        calls = calls[np.lexsort((events.index[calls], events.kind[calls], -end_ns, start_ns))]
        end_ns = events.end_ns[calls]
    reached_ns = np.maximum.accumulate(end_ns)
    return np.asarray(calls[1:][reached_ns[:-1] >= end_ns[1:]])
