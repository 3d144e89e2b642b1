"""The lanes of one rank, built once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.budget.device_steps import device_steps
from hta_widgets.analyses.communication.partition import RankSplit
from hta_widgets.analyses.time.calls import Calls, calls_of
from hta_widgets.analyses.time.modules import MODULE
from hta_widgets.analyses.time.patterns import BLOCKING
from hta_widgets.analyses.time.window import window_of
from hta_widgets.analyses.timeline.added import LANE_KINDS, AddedLane
from hta_widgets.analyses.timeline.classes import CODE
from hta_widgets.analyses.timeline.curve import Curves
from hta_widgets.analyses.timeline.gpu_lanes import (
    budget_segments,
    phase_segments,
    stream_segments,
    streams_of,
)
from hta_widgets.analyses.timeline.tracks import LaneName, Segments, Track, Tracks
from hta_widgets.arrays import Int8Array, Int32Array, Mask
from hta_widgets.errors import ParameterError
from hta_widgets.intervals import Times
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.loaders.freed_memory import return_freed_memory
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.rank import Rank

_RANK, _PHASES, _FIRST_STREAM = range(3)

RANK_LANE: Final = "rank"
PHASE_LANE: Final = "phases"


class StepEdges(NamedTuple):
    """The analysed steps of a rank."""

    number: Times
    """Number of each step; -1 for the GPU span if there are no steps."""
    edges: Times
    """Where each step starts on the device, and where the last one ends (ns)."""


@dataclass(frozen=True, eq=False)
class RankLanes:
    """Everything that is drawn for one rank, on its own clock."""

    rank: Rank
    split: RankSplit
    """Times until which its communication kernels wait."""

    def check_row(self, row: int) -> None:
        """Raise a `ParameterError` if the rank has no such event."""
        count = len(self.rank.trace.events)
        if not 0 <= row < count:
            msg = f"row must be that of one of {count:,} events, got {row}"
            raise ParameterError(msg)

    @cached_property
    def steps(self) -> StepEdges:
        """The analysed steps, with the same bounds as in the diagnosis."""
        device = self.rank.gpu_work.main_device
        if device is None:
            return StepEdges(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        window = window_of(self.rank)
        return StepEdges(window.steps, window.step_edges(self.rank, device))

    @cached_property
    def _budget(self) -> tuple[Track, ...]:
        parts = budget_segments(self.rank, self.split, _RANK)
        return_freed_memory()  # 60 MB for 1.5 M events, which would add to what follows
        return Tracks.of(*parts).by_lane.get(_RANK, ())

    @cached_property
    def _gpu(self) -> Tracks:
        steps = device_steps(self.rank, self.split)
        phases = [] if steps is None else [phase_segments(self.rank, steps, _PHASES)]
        streams = stream_segments(self.rank, self.split, _FIRST_STREAM)
        return Tracks.of(*phases, *streams)

    @cached_property
    def _threads(self) -> Tracks:
        return thread_tracks(self.rank)

    @cached_property
    def _lanes(self) -> dict[str, tuple[LaneName, tuple[Track, ...]]]:
        lanes = {RANK_LANE: (LaneName(RANK_LANE, "rank", ""), self._budget)}
        if _PHASES in self._gpu.by_lane:
            name = LaneName(PHASE_LANE, "phases", "phases")
            lanes[PHASE_LANE] = name, self._gpu.by_lane[_PHASES]
        for place, (device, stream) in enumerate(streams_of(self.rank), _FIRST_STREAM):
            where = f"GPU {device} · " if len(self.rank.gpu_work.devices) > 1 else ""
            name = LaneName(f"stream {device} {stream}", "stream", f"{where}stream {stream}")
            lanes[name.key] = name, self._gpu.by_lane.get(place, ())
        return lanes | self._lanes_of_threads()

    def _lanes_of_threads(self) -> dict[str, tuple[LaneName, tuple[Track, ...]]]:
        calls, lanes = calls_of(self.rank), {}
        ids = calls.events.ids_in_source(np.array([each.tid for each in calls.threads]))
        processes = {each.pid for each in calls.threads}
        for lane in np.unique(self._threads.lane).tolist():
            thread, level = divmod(lane, MOST_LEVELS)
            where = f"process {calls.threads[thread].pid} · " if len(processes) > 1 else ""
            label = f"{where}thread {ids[thread]}"
            name = LaneName(f"thread {thread} {level}", "thread", label, level)
            lanes[name.key] = name, self._threads.by_lane[lane]
        return lanes

    @property
    def work(self) -> Iterator[Track]:
        """The tracks of all streams."""
        for lane, tracks in self._gpu.by_lane.items():
            if lane >= _FIRST_STREAM:
                yield from tracks

    @property
    def names(self) -> list[LaneName]:
        """All lanes, from top to bottom."""
        return [name for name, _ in self._lanes.values()]

    def added(self, kind: str) -> list[LaneName]:
        """The lanes of one of `LANE_KINDS`; empty if nothing was recorded."""
        return [each.name for each in self._added(kind).values()]

    def _added(self, kind: str) -> dict[str, AddedLane]:
        return self.rank.remember(_added_lanes, kind)

    def content(self, key: str) -> tuple[Track, ...] | Curves | None:
        """What is drawn in a lane; None if the rank has no such lane."""
        if key == RANK_LANE:  # the only one until a rank is opened
            return self._budget
        kind = key.partition(" ")[0]
        if kind in LANE_KINDS:
            added = self._added(kind).get(key)
            return None if added is None else added.content
        found = self._lanes.get(key)
        return None if found is None else found[1]

    def tracks(self, key: str) -> tuple[Track, ...] | None:
        """The tracks of a lane, empty for curves; None if the rank has no such lane."""
        found = self.content(key)
        return () if isinstance(found, Curves) else found


def _added_lanes(rank: Rank, kind: str) -> dict[str, AddedLane]:
    return {each.name.key: each for each in LANE_KINDS[kind].lanes(rank)}


MOST_LEVELS: Final = 32
"""Calls below this many levels are not shown."""


def thread_tracks(rank: Rank) -> Tracks:
    """The calls of all threads, which the cache keeps for large ranks.

    Operators, annotated ranges, frames of modules, and calls of the runtime and driver are shown;
    other Python frames are not. The lane of a call is `MOST_LEVELS` × thread + level.
    """
    return Tracks(**rank.derive(_thread_columns))


@asked_once
def shown_levels(rank: Rank) -> Int32Array:
    """Level of the lane of each call, by place; hidden calls have that of the call around them."""
    calls = calls_of(rank)
    return calls.forest.levels_among(_shown(calls))


def _shown(calls: Calls) -> Mask:
    return np.asarray((calls.kind != Kind.PYTHON) | calls.named(MODULE.search))


def _thread_columns(rank: Rank) -> Columns:
    calls = calls_of(rank)
    shown, level = _shown(calls), shown_levels(rank)
    places = np.flatnonzero(shown & (level < MOST_LEVELS))
    lane = calls.thread_of(places) * MOST_LEVELS + level[places]
    tracks = Tracks.of(
        Segments(
            lane,
            _codes(calls, shown)[places],
            calls.start_ns[places],
            calls.forest.cut_end_ns[places],
            calls.forest.rows[places].astype(np.int64),
        )
    )
    return {name: getattr(tracks, name) for name in Tracks.__dataclass_fields__}


def _codes(calls: Calls, shown: Mask) -> Int8Array:
    code = np.full(calls.kind.size, CODE["range"], dtype=np.int8)
    code[calls.kind == Kind.CPU_OP] = CODE["operator"]
    code[(calls.kind == Kind.PYTHON) & shown] = CODE["module"]
    code[calls.is_launch_call] = CODE["launch_call"]
    code[calls.is_launch_call & calls.named(BLOCKING.search)] = CODE["blocking_call"]
    return code
