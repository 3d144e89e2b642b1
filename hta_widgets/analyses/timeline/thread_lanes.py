"""The lanes of a rank's CPU threads: one lane per level of nesting."""

from __future__ import annotations

from typing import Final

import numpy as np

from hta_widgets.analyses.time.calls import Calls, calls_of
from hta_widgets.analyses.time.modules import MODULE
from hta_widgets.analyses.time.patterns import BLOCKING
from hta_widgets.analyses.timeline.classes import CODE
from hta_widgets.analyses.timeline.tracks import Segments, Tracks
from hta_widgets.arrays import Int8Array, Int32Array, Mask
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.rank import Rank

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
