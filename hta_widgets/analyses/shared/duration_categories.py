"""Durations of the events of each category: kernels, copies and CUDA API calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.shared.sorted_durations import SortedDurations
from hta_widgets.grouping import grouped
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.events import GPU_WORK, Events, Kind
from hta_widgets.trace.ranks.rank import Rank

DEVICE = "device"
HOST = "host"

Rows = NDArray[np.int64]

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
class DurationCategory:
    """Events of one category.

    Attributes
    ----------
    durations : SortedDurations
    nested : int
        How many of them run inside a runtime call of their thread; counted for driver calls only.
    nested_ns : int
        Total duration of these.
    """

    durations: SortedDurations
    nested: int = 0
    nested_ns: int = 0


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
    name = CATEGORY_NAMES[category]
    return name[0].upper() + name[1:]


def categories_of_rank(job: Job, rank: int) -> Categories:
    """Categories that occur on a rank, after the step filter, sorted once per job."""
    return job.reduce(_categories, [rank])[rank]


def categories_of_ranks(job: Job, ranks: tuple[int, ...]) -> Categories:
    """Categories of the events of several ranks, merged once per choice of ranks."""
    return job.remember(_merged_categories, ranks)


def _merged_categories(job: Job, ranks: tuple[int, ...]) -> Categories:
    return _together(job.reduce(_categories, ranks).values())


def _categories(rank: Rank) -> Categories:
    events = rank.trace.events
    found = {}
    for category in CATEGORY_NAMES:
        rows = events.rows_of(Kind[category.upper()])
        rows = rows[rank.analysed[rows]]
        if rows.size:
            is_driver = category == Kind.DRIVER.name.lower()
            nested = _inside_runtime_calls(events, rows) if is_driver else rows[:0]
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


def _inside_runtime_calls(events: Events, calls: Rows) -> Rows:
    """Rows of the calls that lie within a runtime call of their thread."""
    runtime = _rows_by_thread(events, events.rows_of(Kind.RUNTIME))
    inside = [
        own[_within(events, own, runtime[thread])]
        for thread, own in _rows_by_thread(events, calls).items()
        if thread in runtime
    ]
    return np.concatenate([calls[:0], *inside])


def _rows_by_thread(events: Events, rows: Rows) -> dict[tuple[int, int], Rows]:
    """Rows of each process and thread, in order of start."""
    parts = [rows[part] for part in grouped(events.pid[rows], events.tid[rows]).parts]
    return {(int(events.pid[part[0]]), int(events.tid[part[0]])): part for part in parts}


def _within(events: Events, inner: Rows, outer: Rows) -> NDArray[np.bool_]:
    """Mask of the inner events that lie within an outer event; outer events ascend by start."""
    reached = np.maximum.accumulate(events.end_ns[outer])
    begun = np.searchsorted(events.start_ns[outer], events.start_ns[inner], side="right")
    return np.asarray((begun > 0) & (reached[begun - 1] >= events.end_ns[inner]))
