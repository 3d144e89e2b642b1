"""The host of one rank as lines of points, and how long its own work takes between two of them.

A point is where a call launches GPU work (one for each part, if it hands over a graph in parts),
where the host touches pages of managed memory that then move to it, or the end of a call that may
wait for GPU work. What the host does from one point to the next takes as
long as recorded, whenever it starts::

    calls    [launch]    [launch] [ cudaDeviceSynchronize    ]      [launch]
    points   p0          p1                                  p2     p3
    own time    |---------->|------->|  what it waits         |----->|
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.causes import LAUNCH_NS
from hta_widgets.arrays import Float64Array, Int64Array
from hta_widgets.diagnosis.replay.operations import NONE, Operations
from hta_widgets.diagnosis.replay.waiting_calls import WaitingCalls
from hta_widgets.intervals import Times

OVERLAP_NS: Final = 1_000
"""Calls of two threads overlap if they do for longer."""

MOST_OVERLAPS: Final = 3
MOST_OVERLAPS_SHARE: Final = 0.01
"""Threads that hand over to each other, such as the main thread and that of the backward pass, make
one line, unless more of their calls overlap than this number and this share."""


class HostLine(NamedTuple):
    """Points of a rank, line by line, in order of time; each line starts with an origin."""

    time_ns: Times
    line: Int64Array
    launch_row: Int64Array
    """Row of the call that launches work there, -1 for other points."""
    wait: Int64Array
    """Position among the `WaitingCalls` of the call that ends there, -1 for other points."""
    own_ns: Float64Array
    """Time since the previous point, without waiting; 0 for an origin."""

    @property
    def is_origin(self) -> Int64Array:
        """Positions of the origins."""
        return np.flatnonzero(np.diff(self.line, prepend=NONE))


def host_line(
    operations: Operations, waits: WaitingCalls, origin_ns: int, touched_ns: Times
) -> HostLine:
    """Put the points of a rank in order; a line starts at the origin, or at an earlier point.

    Pages that the host touches start to move at ``touched_ns``. The busiest thread counts as the
    one that does.
    """
    handed = np.flatnonzero(operations.is_handed_over)
    launched = np.flatnonzero(operations.is_launched & ~operations.is_handed_over)
    launched = launched[np.argsort(operations.start_ns[launched], kind="stable")]
    _, first = np.unique(operations.call[launched], return_index=True)
    begins = np.concatenate((launched[first], handed))
    launches = operations.call[begins]
    row = np.concatenate((launches, waits.row))
    time_ns = np.concatenate((operations.launched_ns[begins], waits.end_ns))
    wait = np.concatenate((np.full(launches.size, NONE), np.arange(waits.row.size)))
    distinct, which = np.unique(row, return_inverse=True)  # a copy that waits has two points
    line = _lines(operations, distinct)[which] if row.size else row
    lines = np.unique(line) if row.size else np.zeros(1, dtype=np.int64)
    first_ns = np.full(lines.size, origin_ns)
    np.minimum.at(first_ns, line, time_ns)
    nothing = np.full(lines.size, NONE)
    no_call = np.full(touched_ns.size, NONE)
    line = np.concatenate((lines, line, np.zeros_like(no_call)))
    time_ns = np.concatenate((first_ns, time_ns, touched_ns - LAUNCH_NS))
    launch_row = np.concatenate((nothing, launches, np.full(waits.row.size, NONE), no_call))
    wait = np.concatenate((nothing, wait, no_call))
    # at the same time, an origin comes first, then the end of a waiting call, then a launch
    rank_of_kind = np.concatenate((nothing, np.where(wait[lines.size :] >= 0, 0, 1)))
    order = np.lexsort((rank_of_kind, time_ns, line))
    time_ns, line, wait = time_ns[order], line[order], wait[order]
    before_ns = np.roll(time_ns, 1)
    own_ns = (time_ns - before_ns).astype(np.float64)
    ends = np.flatnonzero((wait >= 0) & waits.waited[wait] if waits.row.size else wait >= 0)
    done_ns = waits.start_ns[wait[ends]] + waits.own_ns[wait[ends]]
    own_ns[ends] = np.clip(done_ns - before_ns[ends], 0, own_ns[ends])
    own_ns[np.flatnonzero(np.diff(line, prepend=NONE))] = 0
    return HostLine(time_ns, line, launch_row[order], wait, own_ns)


def _lines(operations: Operations, row: Int64Array) -> Int64Array:
    """Line of each call: from the busiest thread down, each joins the first line that it fits."""
    calls, events = calls_of(operations.rank), operations.rank.trace.events
    thread = calls.thread_of(calls.places_of(row))
    numbers, counts = np.unique(thread, return_counts=True)
    start = events.start_ns[row]
    end = start + events.duration_ns[row]
    line = np.full(row.size, NONE)
    for number in numbers[np.argsort(-counts, kind="stable")].tolist():
        own = np.flatnonzero(thread == number)
        most = max(MOST_OVERLAPS, MOST_OVERLAPS_SHARE * own.size)
        place = 0
        while _overlapping(start, end, own, np.flatnonzero(line == place)) > most:
            place += 1
        line[own] = place
    return line


def _overlapping(start: Times, end: Times, own: Int64Array, others: Int64Array) -> int:
    """How many calls overlap with one of the others for longer than `OVERLAP_NS`."""
    own, others = (each[end[each] - start[each] > OVERLAP_NS] for each in (own, others))
    begun = np.searchsorted(np.sort(start[others]), end[own] - OVERLAP_NS, side="left")
    ended = np.searchsorted(np.sort(end[others]), start[own] + OVERLAP_NS, side="right")
    return int(np.count_nonzero(begun > ended))
