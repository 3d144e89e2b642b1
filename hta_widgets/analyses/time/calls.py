"""The CPU calls of one rank as a properly nested forest, and what their names show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Int8Array, Int32Array, Int64Array, IntArray, Mask
from hta_widgets.trace.model.cut_forest import CutForest, Thread, cut_forest
from hta_widgets.trace.model.events import LAUNCH_CALLS, Events, Fits, Kind, KindSet, fitting
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.trace.ranks.replayed_calls import captured_work, with_replayed_calls


@dataclass(frozen=True, eq=False)
class Calls:
    """The CPU calls of one rank, by their place in its `CutForest`."""

    events: Events
    forest: CutForest
    kind: Int8Array
    """Kind of the call at each place, a value of `Kind`."""
    name: Int32Array
    """Codes of names in the events."""
    threads: list[Thread]
    """Threads, ascending by process and thread."""

    @classmethod
    def of(cls, rank: Rank) -> Calls:
        """Nest the calls of a rank; cached for large ranks."""
        events = rank.trace.events
        columns = rank.derive(_cut_forest)
        rows, parent, ends, cut, cut_end_ns = columns.values()
        end_ns = events.start_ns[rows] + events.duration_ns[rows]
        end_ns[cut] = cut_end_ns
        forest = CutForest(rows, parent, end_ns, ends)
        return cls(
            events=events,
            forest=forest,
            kind=events.kind[forest.rows],
            name=events.name.codes[forest.rows],
            threads=forest.threads(events),
        )

    @property
    def start_ns(self) -> Int64Array:
        """Start of the call at each place."""
        return self.events.start_ns[self.forest.rows]

    @cached_property
    def is_launch_call(self) -> Mask:
        """Which calls are calls of the CUDA or HIP runtime or driver."""
        return KindSet(LAUNCH_CALLS).among(self.kind)

    @cached_property
    def operator(self) -> Int32Array:
        """Place of the innermost operator at or around each call; -1 for none, and last."""
        found = nearest_at_or_above(self.forest, self.kind == Kind.CPU_OP)
        return np.append(found, np.int32(NO_PARENT))

    @cached_property
    def has_frames(self) -> bool:
        """Whether Python frames were recorded, at any time, as events of their own."""
        return bool((self.kind == Kind.PYTHON).any())

    @cached_property
    def _names_in_use(self) -> list[int]:
        return np.flatnonzero(np.bincount(self.name)).tolist() if self.name.size else []

    def named(self, fits: Fits) -> Mask:
        """Which calls have a name that fits; each distinct name is checked once."""
        found = fitting(fits, self.events.name.values, self._names_in_use)
        return found[self.name] if found.any() else np.zeros(self.name.size, dtype=np.bool_)

    def places_of(self, rows: Int64Array) -> Int64Array:
        """Places of calls by their rows, -1 for row -1."""
        return self._place_of_row[rows].astype(np.int64)

    @cached_property
    def _place_of_row(self) -> Int32Array:
        return self.forest.place_of_row(self.events)

    def thread_of(self, places: IntArray) -> Int64Array:
        """Position in `threads` of the thread of each call."""
        first = np.array([thread.first for thread in self.threads], dtype=np.int64)
        return np.searchsorted(first, places, side="right") - 1


def calls_of(rank: Rank) -> Calls:
    """The calls of a rank, nested once."""
    return rank.remember(Calls.of)


@asked_once
def operators_of_work(rank: Rank) -> NDArray[np.object_]:
    """Name of the innermost operator around the launch of each piece of work; empty for none.

    For what a graph replays, the operator around its capture.
    """
    rank = with_replayed_calls(rank)
    calls = calls_of(rank)
    around = calls.operator[calls.places_of(rank.gpu_work.launch)]
    names = np.array([*calls.events.name.values, ""], dtype=object)
    found: NDArray[np.object_] = names[np.append(calls.name, NO_PARENT)[around]]
    return found


def captured_operators(rank: Rank) -> NDArray[np.object_]:
    """The same if known from a capture, empty for other work."""
    is_captured = np.isin(rank.gpu_work.rows, captured_work(rank))
    return np.where(is_captured, operators_of_work(rank), "")


def _cut_forest(rank: Rank) -> Mapping[str, NDArray[Any]]:
    """Columns of the forest; only the few ends that are cut are stored."""
    events = rank.trace.events
    columns = dict(cut_forest(events, rank.parents, rank.names_of_marks))
    rows, end_ns = columns["rows"], columns.pop("cut_end_ns")
    cut = np.flatnonzero(end_ns != events.start_ns[rows] + events.duration_ns[rows])
    return {**columns, "cut": cut, "cut_end_ns": end_ns[cut]}


def nearest_at_or_above(forest: CutForest, chosen: Mask) -> Int32Array:
    """Place of the innermost of some calls (a mask by place) at or around each; -1 for none."""
    if not chosen.any():
        return np.broadcast_to(np.int32(NO_PARENT), chosen.size)  # takes no memory
    places = np.arange(chosen.size, dtype=np.int32)
    found = np.append(np.where(chosen, places, forest.parent), np.int32(NO_PARENT))
    is_found = np.append(chosen, True)
    climbing = np.flatnonzero(~is_found[found])
    while climbing.size:  # each pass doubles how far they have climbed
        found[climbing] = found[found[climbing]]
        climbing = climbing[~is_found[found[climbing]]]
    return found[:-1]


def nearest_above(forest: CutForest, chosen: Mask) -> Int64Array:
    """Place of the innermost of some calls around each call, never the call itself."""
    at_or_above = np.append(nearest_at_or_above(forest, chosen), NO_PARENT)
    return at_or_above[forest.parent]


def at_or_around(parent: NDArray[np.integer[Any]], positions: Int64Array) -> Mask:
    """Mask of some nodes of a tree and all nodes around them; -1 stands for none.

    Positions may come in any order, and repeat.

    Examples
    --------
    >>> at_or_around(np.array([-1, 0, 1, 0]), np.array([2, 2, -1])).tolist()
    [True, True, True, False]
    """
    chosen = np.zeros(parent.size + 1, dtype=np.bool_)
    chosen[NO_PARENT] = True
    last_at = np.empty(parent.size + 1, dtype=np.int32)
    positions = positions[positions != NO_PARENT]
    while positions.size:
        chosen[positions] = True
        around = parent[positions]
        around = around[~chosen[around]]
        numbers = np.arange(around.size, dtype=np.int32)
        last_at[around] = numbers  # far faster than sorting for distinct ones
        positions = around[last_at[around] == numbers]
    return chosen[:-1]
