"""Activity of a GPU over time, split exactly into time slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_widgets.arrays import Int64Array
from hta_widgets.intervals import Intervals, Times, sweep

ACTIVITIES = ("compute", "communicate", "overlap", "graph", "empty")
"""Only computation, only communication, both, a CUDA graph recorded as a whole, none of these; in
the order of every table."""

GRAPH = ACTIVITIES.index("graph")

_TIME, _ACTIVITY, _BEFORE = 0, 1, 2
_NOTHING = 0
_BUSY = len(ACTIVITIES) - 1
_ACTIVITY_OF = np.array([_NOTHING, 1, 2, 3, 1 + GRAPH, 1 + GRAPH, 1 + GRAPH, 3])
"""What happens, by what runs (bit 0: computation, bit 1: communication, bit 2: a graph). Where a
graph runs, it may compute and communicate: only `overlap` is certain."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """Start and end of each activity, with running sums so that it can be cut anywhere."""

    changes: Times
    """Times of the changes (ns, ascending); what happens from then on (0: nothing, 1 + place in
    `ACTIVITIES`); and the time (ns) of compute, communicate, overlap and graph before. Shape (6,
    changes)."""

    @classmethod
    def of(cls, running: Sequence[Intervals], start_ns: int, end_ns: int) -> Timeline:
        """Build the timeline of computation, communication and graphs between two times.

        Outside of these, none of them runs.
        """
        # computation     |-----|    |---|
        # communication      |----|
        # activity      0  1   3  2 0  1   0     from the first edge to the last: `sweep`
        edges, covering = sweep(running)
        times = np.concatenate(([start_ns], edges, [end_ns]))
        changes = np.empty((_BEFORE + _BUSY, times.size), dtype=np.int64)
        changes[_TIME], changes[_ACTIVITY] = times, _NOTHING
        changes[_ACTIVITY, 1:-2] = _ACTIVITY_OF[covering]
        length, activity = np.diff(times), changes[_ACTIVITY, :-1].astype(np.int8)
        for place in range(_BUSY):
            before = changes[_BEFORE + place]
            before[0] = 0
            np.cumsum(length * (activity == place + 1), out=before[1:])
        return cls(changes)

    @classmethod
    def of_changes(cls, flat: Times) -> Timeline:
        """Make a timeline from its flattened `changes`."""
        return cls(flat.reshape(_BEFORE + _BUSY, -1))

    @property
    def busy_ns(self) -> Times:
        """Total time (ns) of compute, communicate, overlap and graph."""
        return self.changes[_BEFORE:, -1]


def slice_edges(start_ns: int, end_ns: int, slices: int) -> Times:
    """Cut a stretch of time (ns) into slices of equal length, to the ns.

    Examples
    --------
    >>> slice_edges(10, 15, 3).tolist()
    [10, 11, 13, 15]
    """
    whole, rest = divmod(end_ns - start_ns, slices)
    places = np.arange(slices + 1, dtype=np.int64)
    return start_ns + places * whole + places * rest // slices


def at_edges(timelines: Sequence[Timeline], edges: Times) -> Int64Array:
    """Look up timelines at edges.

    Parameters
    ----------
    edges : ndarray of int64, shape (slices + 1,)
        Edges (ns) on the clock of the timelines, ascending.

    Returns
    -------
    ndarray of int64, shape (timelines, 6, slices + 1)
        Time (ns) from the last change to the edge; what happens then; and the time (ns) of compute,
        communicate, overlap and graph before that change.
    """
    at = np.empty((len(timelines), _BEFORE + _BUSY, edges.size), dtype=np.int64)
    for timeline, found in zip(timelines, at, strict=True):
        latest = timeline.changes[_TIME].searchsorted(edges, "right") - 1
        timeline.changes.take(latest, axis=1, out=found, mode="clip")
    at[:, _TIME] = edges - at[:, _TIME]
    return at


def time_in_slices(at: Int64Array, edges: Times, start_ns: Times, end_ns: Times) -> Int64Array:
    """Split timelines at edges, given what `at_edges` found there.

    Parameters
    ----------
    at : ndarray of int64, shape (timelines, 6, slices + 1)
        From `at_edges`.
    edges : ndarray of int64, shape (slices + 1,)
        The edges (ns) on one clock.
    start_ns, end_ns : ndarray of int64, shape (timelines,)
        Start and end of the timelines on that clock.

    Returns
    -------
    ndarray of int64, shape (5, timelines, slices)
        Time (ns) of each of the `ACTIVITIES`; before the start and after the end of a timeline
        there is none.
    """
    # Time before an edge: that before the last change, and, for what has gone on since, the time
    # since. A slice has the difference between its two edges.
    #   change   change      edge
    #   |--------|···since···|
    since = np.maximum(at[:, _TIME], 0)
    before = np.empty((len(ACTIVITIES), len(at), edges.size), dtype=np.int64)
    for place in range(_BUSY):
        before[place] = at[:, _BEFORE + place] + since * (at[:, _ACTIVITY] == place + 1)
    starts, ends = start_ns[:, np.newaxis], end_ns[:, np.newaxis]
    before[_BUSY] = np.clip(edges, starts, ends) - starts - before[:_BUSY].sum(axis=0)
    return np.diff(before, axis=2)
