"""Captures of CUDA graphs: calls that record launches to replay later, while nothing runs.

Only a capture with both its begin and its end call counts. A call that asks whether a stream is
capturing is no evidence: collectives and blocking copies ask in every ordinary training trace.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import numpy as np

from hta_widgets.arrays import Int64Array
from hta_widgets.trace.model.events import LAUNCH_CALLS, Events

LAUNCHING: Final = re.compile(r"LaunchKernel|LaunchCooperativeKernel|GraphLaunch|Memcpy|Memset")
"""Calls that launch kernels, copies, fills or graphs."""

_BEGIN: Final = re.compile(r"StreamBeginCapture")
_END: Final = re.compile(r"StreamEndCapture")


NodeType = Literal["kernel", "copy", "fill"]
Identity = Literal["names", "prefix", "order", "refused"]

LEAST_FOR_PREFIX: Final = 50
"""Fewest nodes of a capture whose last nodes the recorder may have lost in a replay."""

NODES_PER_LOST: Final = 200
"""At the end of a replay, one node in this many may be lost (0.5 %), but always one."""

LEAST_FOR_ORDER: Final = 20
"""Fewest nodes of a capture without names that is compared by number and types alone."""


class Capture(NamedTuple):
    """A complete capture."""

    begin: int
    """Row of the call that starts it."""
    launches: Int64Array
    """Rows of its launching calls, in order of time."""


class Captures(NamedTuple):
    """The complete captures of a recording."""

    operations: tuple[int, ...]
    """Number of launching calls in each, in order of time."""
    launches: int
    """Number of launching calls in the whole recording."""

    @property
    def share(self) -> float:
        """Share of all launching calls that are in captures, from 0 to 1."""
        return sum(self.operations) / self.launches if self.launches else 0.0


def captures_of(events: Events) -> Captures:
    """Count the launching calls in each capture, and in the whole recording."""
    launching = _launching(events)
    found = _captures(events, launching)
    return Captures(tuple(each.launches.size for each in found), int(launching.size))


def captures_in(events: Events) -> list[Capture]:
    """Find the captures: each end call with the latest begin call before it on its thread.

    If launching calls are nested, as a driver call in a runtime call, only the outer one counts.
    """
    return _captures(events, _launching(events))


def capture_marks(events: Events) -> tuple[Int64Array, Int64Array]:
    """Rows of the calls that start a capture, and of those that end one."""
    rows = events.rows_of(*LAUNCH_CALLS)
    return rows[events.named(rows, _BEGIN)], rows[events.named(rows, _END)]


def _launching(events: Events) -> Int64Array:
    rows = events.rows_of(*LAUNCH_CALLS)
    return _outer(events, rows[events.named(rows, LAUNCHING)])


def _captures(events: Events, launching: Int64Array) -> list[Capture]:
    begins, ends = capture_marks(events)
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


def _outer(events: Events, rows: Int64Array) -> Int64Array:
    """The rows that start inside no other of the given rows on their thread."""
    order = np.lexsort((rows, events.tid[rows], events.pid[rows]))
    by_thread = rows[order]
    starts = events.start_ns[by_thread]
    thread = np.stack((events.pid[by_thread], events.tid[by_thread]))
    begins_thread = np.append(True, (np.diff(thread, axis=1) != 0).any(axis=0))[: rows.size]
    which = np.cumsum(begins_thread, dtype=np.int64)
    # later threads are shifted after all earlier ones, so that one running maximum serves for all
    span_ns = int(events.ends_of(by_thread).max(initial=0) - starts.min(initial=0)) + 1
    ends = events.ends_of(by_thread) + which * span_ns
    before = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, ends))[:-1]
    return np.sort(by_thread[starts + which * span_ns >= before])


class Node(NamedTuple):
    """A launch in a capture, or GPU work of a replay; the name is empty if not recorded."""

    type: NodeType
    name: str = ""


def graph_identity(capture: Sequence[Node], replay: Sequence[Node]) -> Identity:
    """Say how a replay fits a capture; a single different name refuses the whole graph.

    ``names``: number, types and all recorded names are equal. ``prefix``: the same, but the replay
    lacks the last nodes. ``order``: number and types are equal, and no names are recorded.
    """
    lost = len(capture) - len(replay)
    if not replay or lost < 0 or not all(map(_fits, capture, replay)):
        return "refused"
    if not any(node.name and seen.name for node, seen in zip(capture, replay, strict=False)):
        return "order" if not lost and len(capture) >= LEAST_FOR_ORDER else "refused"
    if not lost:
        return "names"
    may_lose = max(1, len(capture) // NODES_PER_LOST)
    return "prefix" if len(capture) >= LEAST_FOR_PREFIX and lost <= may_lose else "refused"


def _fits(node: Node, seen: Node) -> bool:
    if node.type == "fill":
        return seen.type == "fill" or "Memset" in seen.name or "fillBuffer" in seen.name
    return node.type == seen.type and (not node.name or not seen.name or node.name == seen.name)
