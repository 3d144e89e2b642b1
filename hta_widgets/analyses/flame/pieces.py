"""When calls have some of a weight: pieces of all of the recorded time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.flame.call_tree import Rows
from hta_widgets.analyses.flame.runs import work_runs
from hta_widgets.analyses.flame.weights import Weight, allocations
from hta_widgets.analyses.idle_owners.gaps import gaps_of
from hta_widgets.analyses.idle_owners.innermost import NOBODY, Timeline
from hta_widgets.analyses.idle_owners.owned_time import owned_time
from hta_widgets.analyses.time.calls import calls_of, nearest_at_or_above
from hta_widgets.analyses.time.counted import (
    has_cpu_time,
    host_step_edges,
    host_time,
)
from hta_widgets.analyses.time.excerpt import Excerpt
from hta_widgets.analyses.time.window import window_of
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.ranks.rank import Rank


class Pieces(NamedTuple):
    """Pieces of time of calls.

    Attributes
    ----------
    start_ns, end_ns : ndarray of int64
    clock : ndarray of int32
        Position of the time in which each is counted: of a device, or of the host.
    work, run : ndarray of int64, optional
        Code of the name of the GPU work, and number of its run; not given of time of calls
        themselves.
    amount : ndarray of int64, optional
        What a ns of each counts; 1 when not given.
    """

    start_ns: Times
    end_ns: Times
    clock: NDArray[np.int32]
    work: Rows | None = None
    run: Rows | None = None
    amount: Rows | None = None

    @property
    def size(self) -> int:
        """Number of the pieces."""
        return int(self.start_ns.size)

    def take(self, chosen: Rows) -> Pieces:
        """Some of the pieces."""
        return Pieces(
            self.start_ns[chosen],
            self.end_ns[chosen],
            self.clock[chosen],
            work=None if self.work is None else self.work[chosen],
            run=None if self.run is None else self.run[chosen],
            amount=None if self.amount is None else self.amount[chosen],
        )

    def in_all(self) -> Rows:
        """What each has in all of the time."""
        ns = self.end_ns - self.start_ns
        return ns if self.amount is None else ns * self.amount

    def counted(self, at: Rows, times: list[Intervals]) -> Rows:
        """What some of the pieces have in some time of each clock."""
        ns = np.zeros(at.size, dtype=np.int64)
        for clock, time in enumerate(times):
            own = slice(None) if len(times) == 1 else np.flatnonzero(self.clock[at] == clock)
            start_ns, end_ns = self.start_ns[at[own]], self.end_ns[at[own]]
            ns[own] = time.covered_until(end_ns) - time.covered_until(start_ns)
        return ns if self.amount is None else ns * self.amount[at]


def times_of(rank: Rank, weight: Weight, excerpt: Excerpt) -> list[Intervals]:
    """The time of each clock that an excerpt counts."""
    if weight == "bytes":
        return [excerpt.asked_time(rank)]
    if weight == "cpu":
        return [host_time(rank, excerpt)]
    return [excerpt.time(rank, device) for device in rank.gpu_work.devices]


def step_edges_of(rank: Rank, weight: Weight) -> list[Times]:
    """Where steps begin and end on each clock."""
    if weight in {"cpu", "bytes"}:
        return [host_step_edges(rank)]
    return [window_of(rank).step_edges(rank, device) for device in rank.gpu_work.devices]


def pieces_of(rank: Rank, weight: Weight) -> tuple[Rows, Pieces]:
    """Place of the call that each piece of a weight belongs to (-1 for none), and all pieces.

    They are in no particular order, and what is counted of them are parts.
    """
    return {"gpu": _gpu, "cpu": _cpu, "idle": _idle, "bytes": _bytes}[weight](rank)


def _gpu(rank: Rank) -> tuple[Rows, Pieces]:
    calls = calls_of(rank)
    works = [rank.all_work(device) for device in rank.gpu_work.devices]
    parts = [
        (
            *(calls.places_of(work.launch), work.start_ns, work.end_ns),
            *(work.name.astype(np.int64), work_runs(rank)[work.rows]),
        )
        for work in works
    ]
    place, start_ns, end_ns, name, run = _joined(parts, 5)
    clock = np.repeat(np.arange(len(works), dtype=np.int32), [len(work) for work in works])
    return place, Pieces(start_ns, end_ns, clock, name, run)


def _cpu(rank: Rank) -> tuple[Rows, Pieces]:
    calls = calls_of(rank)
    counted = np.append(nearest_at_or_above(calls.forest, has_cpu_time(rank)), NOBODY)
    parts = []
    for thread in calls.threads:
        edges, holds = Timeline.innermost(calls, thread)
        holds = counted[holds]
        held = np.flatnonzero((holds != NOBODY) & (edges[1:] > edges[:-1]))
        parts.append((holds[held], edges[held], edges[held + 1]))
    place, start_ns, end_ns = _joined(parts, 3)
    return place, Pieces(start_ns, end_ns, _on_one_clock(place))


def _idle(rank: Rank) -> tuple[Rows, Pieces]:
    pieces, gaps = rank.remember(owned_time).segments, rank.remember(gaps_of)
    clock = np.searchsorted(np.array(rank.gpu_work.devices), gaps.device)[pieces.gap]
    return pieces.owner, Pieces(pieces.start_ns, pieces.end_ns, clock.astype(np.int32))


def _bytes(rank: Rank) -> tuple[Rows, Pieces]:
    place, time_ns, size = allocations(rank, None)
    return place, Pieces(time_ns, time_ns + 1, _on_one_clock(place), amount=size)


def _on_one_clock(places: Rows) -> NDArray[np.int32]:
    return np.zeros(places.size, dtype=np.int32)


def _joined(parts: Sequence[tuple[Rows, ...]], columns: int) -> list[Rows]:
    """Columns of all parts."""
    if len(parts) == 1:
        return [*parts[0]]
    nothing = np.zeros((columns, 0), dtype=np.int64)
    return [np.concatenate(each) for each in zip(nothing, *parts, strict=True)]
