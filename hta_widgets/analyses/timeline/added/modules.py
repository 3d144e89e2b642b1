"""Which module the GPU works for, a lane for each level of nesting.

A piece of work belongs to the module of the call that launched it, as in `modules`; where no
modules were recorded, annotations of the program stand in, such as NVTX ranges.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.time.calls import calls_of, nearest_above
from hta_widgets.analyses.time.modules import (
    module_frames,
    module_places,
    phases,
    region_marks,
    region_places,
)
from hta_widgets.analyses.timeline.added.kind import AddedLane, LaneKind
from hta_widgets.analyses.timeline.classes import CODE
from hta_widgets.analyses.timeline.gpu_lanes import COMPUTES, runs_of
from hta_widgets.analyses.timeline.tracks import LaneName, Segments, Tracks
from hta_widgets.arrays import Int64Array, IntArray, Mask
from hta_widgets.trace.ranks.rank import Rank

MOST_LEVELS: Final = 8
"""Modules below are those of the innermost level that is shown."""

_NOTHING: Final = "neither modules (with_stack=True records them) nor annotations were recorded"
_NO_WORK: Final = "no kernel was launched from within a module"


class _Marks(NamedTuple):
    """Calls of modules, or of annotations that stand in for them."""

    is_mark: Mask
    """By place."""
    around: IntArray
    """Place of the one that each call belongs to, -1 for none."""
    name: str
    """In `CODE`."""


def _marks(rank: Rank) -> _Marks:
    frames = module_frames(rank)
    if frames.any():
        return _Marks(frames, module_places(rank), "module")
    return _Marks(region_marks(rank), region_places(rank), "range")


def _lanes(rank: Rank) -> list[AddedLane]:
    device = rank.gpu_work.main_device
    if device is None:
        return []
    work, calls, marks = rank.all_work(device), calls_of(rank), _marks(rank)
    computes = np.isin(work.type, COMPUTES) & (work.launch >= 0)
    work = work.take(np.flatnonzero(computes))
    launches = calls.places_of(work.launch)
    phase = phases(rank)[launches]
    lanes = []
    for level, mark in enumerate(_by_level(rank, marks, np.append(marks.around, -1)[launches])):
        runs = runs_of(work.start_ns, work.end_ns, mark, phase)
        inside = np.flatnonzero(mark[runs.first] >= 0)
        rows = calls.forest.rows[mark[runs.first][inside]]
        start_ns, end_ns = runs.start_ns[inside], runs.end_ns[inside]
        segments = Segments.of(level, CODE[marks.name], start_ns, end_ns, rows)
        tracks = Tracks.of(segments).by_lane.get(level, ())
        label = f"{marks.name}s" if level == 0 else ""
        lanes.append(AddedLane(LaneName(f"modules {level}", "range", label, level), tracks))
    return lanes


def _by_level(rank: Rank, marks: _Marks, innermost: Int64Array) -> Iterator[Int64Array]:
    """Place of the mark of each level around some calls, outermost first, -1 where there is none.

    `innermost` is the place of the innermost mark around each call, -1 for none.
    """
    forest = calls_of(rank).forest
    above = np.append(nearest_above(forest, marks.is_mark), -1)
    level = np.append(forest.levels_among(marks.is_mark), -1)
    deepest = int(level[innermost].max(initial=-1))
    found, here = [], innermost
    for each in range(deepest, -1, -1):
        is_here = level[here] == each
        found.append(np.where(is_here, here, -1))
        here = np.where(is_here, above[here], here)
    yield from found[::-1][:MOST_LEVELS]


def _why_none(rank: Rank) -> str:
    return "" if _marks(rank).is_mark.any() else _NOTHING


MODULES: Final = LaneKind("modules", "modules", _lanes, _why_none, _NO_WORK)
"""Runs of computing kernels of one module and phase."""
