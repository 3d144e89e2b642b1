"""Leave out events that cannot be right when a trace is loaded.

Merged files have events twice, which would count double. If CUPTI does not know the start or end of
GPU work, it writes 0 or an arbitrary number, and a single such piece would fill the whole span::

    host                          |----------- calls -----------|
    GPU     |------- starts at 0 -------=|      == == == ==
                                         |=== takes 10 s =============================
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.intervals import Times
from hta_widgets.trace.model.details import UNCATEGORISED
from hta_widgets.trace.model.events import GPU_SIDE, Events, Kind, KindSet, Trace

_LASTING_CALLS: Final = (Kind.CPU_OP, Kind.RUNTIME, Kind.DRIVER, Kind.ANNOTATION, Kind.PYTHON)
_LASTS: Final = KindSet((*GPU_SIDE, *_LASTING_CALLS))

MERGED: Final = 0.01
"""Share of duplicates among the events without a correlation id above which the file is merged.
Below it, they are recursions within one µs of the clock: at most 0.03 % in sound traces."""

FEWEST: Final = 20
"""Fewest duplicates of a merged file, unless events with an id of their own are duplicates, too."""

AT_EDGES: Final = 0.1
"""Share of the GPU work that may be out of place: that much at either end is not in the span."""

LEAST_NS: Final = 1_000_000_000
"""GPU work is out of place by at least this much: a value in place of an unknown time is years off,
while the gaps between a few short events may well be longer than the events."""


def without_wrong_events(trace: Trace) -> Trace:
    """Leave out duplicates and GPU work at impossible times; `Trace.faults` counts them.

    Only neighbours are compared, unless there is something to leave out.
    """
    events = trace.events
    repeated, impossible = repeated_rows(events), impossible_rows(events)
    impossible = np.setdiff1d(impossible, repeated)
    wrong = np.concatenate([repeated, impossible])
    if not wrong.size:
        return trace
    is_right = np.ones(len(events), dtype=np.bool_)
    is_right[wrong] = False
    kept, first_ns = _from_first(events.having(is_right))
    faults = trace.faults._replace(repeated=repeated.size, impossible=impossible.size)
    return replace(trace, events=kept, origin_ns=trace.origin_ns + first_ns, faults=faults)


def repeated_rows(events: Events) -> Int64Array:
    """Rows of all but the first of events with equal times, name, place and correlation id.

    Events that last and have an id of their own are never written twice. Others may be recursive
    within one step of the clock, so they count only if there are many duplicates.
    """
    start_ns = events.start_ns
    same = start_ns[1:] == start_ns[:-1]
    rows = np.flatnonzero(np.append(same, [False]) | np.append([False], same))
    rows = rows[_LASTS.among(events.kind[rows]) & (events.duration_ns[rows] > 0)]
    columns = (
        start_ns,
        events.duration_ns,
        events.name.codes,
        events.kind,
        events.correlation,
        events.pid,
        events.tid,
        events.device,
        events.stream,
    )
    rows = rows[np.lexsort([column[rows] for column in columns[::-1]])]
    is_again = np.full(max(rows.size - 1, 0), fill_value=True)
    for column in columns:
        is_again &= column[rows[1:]] == column[rows[:-1]]
    again = rows[1:][is_again]
    has_id = events.correlation[again] > 0
    others = np.count_nonzero(_LASTS.among(events.kind) & (events.correlation <= 0))
    count = np.count_nonzero(~has_id)
    is_merged = count > MERGED * others and (count >= FEWEST or has_id.any())
    return np.sort(again if is_merged else again[has_id])


def impossible_rows(events: Events) -> Int64Array:
    """Rows of GPU work far outside of the recording, or longer than it with others in it.

    The recording spans all host calls and the starts of the GPU work, except for a tenth of these
    at either end.
    """
    work = events.rows_of(*GPU_SIDE)
    calls = events.rows_of(*_LASTING_CALLS)
    start_ns, end_ns = events.start_ns[work], events.ends_of(work)
    known = start_ns[(edge := max(1, int(AT_EDGES * work.size))) : work.size - edge]
    times = np.concatenate([known, events.start_ns[calls], events.ends_of(calls)])
    if not times.size:
        return work[:0]
    first_ns, last_ns = int(times.min()), int(times.max())
    away_ns = max(last_ns - first_ns, LEAST_NS)
    is_far = (start_ns < first_ns - away_ns) | (start_ns > last_ns + away_ns)
    is_long = end_ns - start_ns > away_ns
    if not (is_far | is_long).any():
        return work[:0]
    is_long[is_long] = [_holds_others(events, row, work) for row in work[is_long]]
    return work[is_far | is_long]


def _holds_others(events: Events, row: int, work: Int64Array) -> bool:
    """Whether other work on the same stream starts during this work."""
    start_ns = events.start_ns[work]
    during = (start_ns > events.start_ns[row]) & (start_ns < events.ends_of(row))
    during &= events.kind[work] != Kind.GPU_ANNOTATION
    same: Mask = events.stream[work] == events.stream[row]
    return bool((during & same & (events.device[work] == events.device[row])).any())


def _from_first(events: Events) -> tuple[Events, int]:
    """The events with times since the first one, and the time of the first one."""
    first_ns = int(events.start_ns[0]) if len(events) else 0
    if not first_ns:
        return events, 0
    side = dict(events.side)
    if UNCATEGORISED in side:
        columns = side[UNCATEGORISED].columns
        time_ns: Times = columns["time_ns"] - first_ns  # type: ignore[operator, assignment]
        side[UNCATEGORISED] = replace(side[UNCATEGORISED], columns={**columns, "time_ns": time_ns})
    return replace(events, start_ns=events.start_ns - first_ns, side=side), first_ns
