"""Captures of graphs: calls that record launches to be replayed later, while nothing runs.

Only a capture from its begin to its end counts. What asks whether a stream is capturing is no
evidence: collectives and blocking copies ask it in every ordinary training trace.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.arrays import Int64Array
from hta_widgets.trace.model.events import LAUNCH_CALLS, Events

LAUNCHING: Final = re.compile(r"LaunchKernel|LaunchCooperativeKernel|GraphLaunch|Memcpy|Memset")
"""Calls that launch kernels, copies, fills or graphs."""

_BEGIN: Final = re.compile(r"StreamBeginCapture")
_END: Final = re.compile(r"StreamEndCapture")


class Capture(NamedTuple):
    """A complete capture.

    Attributes
    ----------
    begin : int
        Row of the call that begins it.
    launches : ndarray of int64
        Rows of its launching calls, in order of time.
    """

    begin: int
    launches: Int64Array


class Captures(NamedTuple):
    """The complete captures of a recording.

    Attributes
    ----------
    operations : tuple of int
        Launching calls in each of them, in order of time.
    launches : int
        Launching calls of the whole recording.
    """

    operations: tuple[int, ...]
    launches: int

    @property
    def share(self) -> float:
        """Part of all launching calls that captures record, from 0 to 1."""
        return sum(self.operations) / self.launches if self.launches else 0.0


def captures_of(events: Events) -> Captures:
    """Count the launching calls in captures and in all."""
    launching = _launching(events)
    found = _captures(events, launching)
    return Captures(tuple(each.launches.size for each in found), int(launching.size))


def captures_in(events: Events) -> list[Capture]:
    """Find the captures: each end, with the latest begin before it on its thread.

    Of launching calls inside one another, as a driver call in that of the runtime, the outer one
    counts.
    """
    return _captures(events, _launching(events))


def _launching(events: Events) -> Int64Array:
    return _outer(events, _named(events, events.rows_of(*LAUNCH_CALLS), LAUNCHING))


def _captures(events: Events, launching: Int64Array) -> list[Capture]:
    rows = events.rows_of(*LAUNCH_CALLS)
    begins, ends = _named(events, rows, _BEGIN), _named(events, rows, _END)
    marks = np.sort(np.concatenate((begins, ends)))
    begun: dict[tuple[int, int], int] = {}
    found = []
    for row, is_end in zip(marks.tolist(), np.isin(marks, ends).tolist(), strict=True):
        thread = int(events.pid[row]), int(events.tid[row])
        if not is_end:
            begun[thread] = row
        elif thread in begun:
            begin = begun.pop(thread)
            first, last = np.searchsorted(launching, (begin, row))
            inside = launching[first:last]
            of_thread = (events.pid[inside] == thread[0]) & (events.tid[inside] == thread[1])
            found.append(Capture(begin, inside[of_thread]))
    return found


def _named(events: Events, rows: Int64Array, pattern: re.Pattern[str]) -> Int64Array:
    """Those of some rows whose name fits; each distinct name is looked at once."""
    codes = events.name.codes[rows]
    names = events.name.values
    used = np.flatnonzero(np.bincount(codes)).tolist() if codes.size else []
    return rows[np.isin(codes, [code for code in used if pattern.search(names[code])])]


def _outer(events: Events, rows: Int64Array) -> Int64Array:
    """Those of some rows that begin inside none of the others of their thread."""
    order = np.lexsort((rows, events.tid[rows], events.pid[rows]))
    by_thread = rows[order]
    starts = events.start_ns[by_thread]
    thread = np.stack((events.pid[by_thread], events.tid[by_thread]))
    begins_thread = np.append(True, (np.diff(thread, axis=1) != 0).any(axis=0))[: rows.size]
    which = np.cumsum(begins_thread, dtype=np.int64)
    # later threads are put behind all earlier ones, so that one running maximum serves for all
    span_ns = int(events.end_ns[by_thread].max(initial=0) - starts.min(initial=0)) + 1
    ends = events.end_ns[by_thread] + which * span_ns
    before = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, ends))[:-1]
    return np.sort(by_thread[starts + which * span_ns >= before])
