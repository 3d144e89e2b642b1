"""How long a rank was recorded, and its own lane in equal bins."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.budget.classes import BUDGET_CLASSES
from hta_widgets.analyses.communication.partition import RankSplit
from hta_widgets.analyses.time.window import window_of
from hta_widgets.analyses.timeline.classes import CODE, HIDDEN, LEAD_IN
from hta_widgets.analyses.timeline.lanes import RANK_LANE, RankLanes, StepEdges
from hta_widgets.analyses.timeline.tracks import coverage
from hta_widgets.arrays import Int64Array, IntArray, narrowed
from hta_widgets.intervals import Times, edges_of_parts
from hta_widgets.trace.model.events import Kind, KindSet
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.trace.ranks.recorded_kind import recorded_kind

OVERVIEW_CLASSES: Final = tuple(CODE[name] for name in (*BUDGET_CLASSES, LEAD_IN, HIDDEN))
"""Classes that are the rows of an overview."""

LEAST_SEEN: Final = 0.75
"""Part of the analysed time that its steps must take on the device for all of it to be shown at
first."""


class Span(NamedTuple):
    """A stretch of time (ns)."""

    start_ns: int
    end_ns: int


class RankSpans(NamedTuple):
    """How long a rank was recorded, on its own clock."""

    whole: Span
    """From the first to the last event."""
    analysed: Span
    """From the first analysed step to the end of the last one or of its GPU work. If the steps on
    the device are less than `LEAST_SEEN` of that, only these."""


class RankOverview(NamedTuple):
    """A rank's own lane in the analysed time."""

    classes: Int64Array
    """Positions in `OVERVIEW_CLASSES` of the classes that occur."""
    of_classes_ns: IntArray
    """Their time in equal bins. Shape (classes that occur, bins): all classes of 256 ranks took
    22 MB."""
    by_step_ns: Int64Array
    """Time of each class in each step. Shape (classes of `OVERVIEW_CLASSES`, steps)."""
    steps: StepEdges
    """The steps, on the rank's own clock."""

    @property
    def covered_ns(self) -> Int64Array:
        """Time of each class in equal bins. Shape (classes of `OVERVIEW_CLASSES`, bins)."""
        found = np.zeros((len(OVERVIEW_CLASSES), self.of_classes_ns.shape[1]), dtype=np.int64)
        found[self.classes] = self.of_classes_ns
        return found


def rank_overview(rank: Rank, split: RankSplit, span: Span, bins: int) -> RankOverview:
    """The overview of a rank, for workers."""
    return overview_of(RankLanes(rank, split), span, bins)


def overview_of(lanes: RankLanes, span: Span, bins: int) -> RankOverview:
    """The own lane of a rank in equal bins of a span of its own clock."""
    covered_ns = by_class(lanes, edges_of_parts(*span, bins))
    classes = np.flatnonzero(covered_ns.any(axis=1))
    return RankOverview(
        classes,
        narrowed(covered_ns[classes]),
        by_class(lanes, lanes.steps.edges),
        lanes.steps,
    )


def by_class(lanes: RankLanes, edges: Times) -> Int64Array:
    """Time of each of `OVERVIEW_CLASSES` between consecutive edges."""
    covered = np.zeros((len(OVERVIEW_CLASSES), max(edges.size - 1, 0)), dtype=np.int64)
    tracks = lanes.tracks(RANK_LANE) or ()
    if edges.size:
        for track, row in zip(tracks, coverage(tracks, edges), strict=True):
            covered[OVERVIEW_CLASSES.index(track.code)] = row
    return covered


def spans_of(rank: Rank) -> RankSpans:
    """How long a rank was recorded, by all of its events except counters and instants."""
    events = rank.trace.events
    is_timed = ~_NOT_TIMED.among(events.kind)
    first = int(events.start_ns[np.argmax(is_timed)]) if is_timed.any() else 0
    last = int(np.max(events.end_ns, initial=first, where=is_timed))
    recorded = Span(first, last)
    return RankSpans(recorded, _analysed(rank, recorded))


def _analysed(rank: Rank, recorded: Span) -> Span:
    """The analysed time, or the time of its steps on the device if that is much shorter.

    A step of 10 ms that follows 463 ms of work from before the recording (SGLang) would otherwise
    be a line at one end. A capture of graphs is shown in full, because little runs before it, and
    so is everything without GPU work.
    """
    window = window_of(rank)
    device = rank.gpu_work.main_device
    if device is None:
        return recorded
    start, *_, end = window.step_edges(rank, device).tolist()
    is_short = end - start < LEAST_SEEN * (window.end_ns - window.start_ns)
    is_short &= recorded_kind(rank).name != "graph capture"
    return Span(start, end) if is_short else Span(window.start_ns, window.end_ns)


_NOT_TIMED: Final = KindSet((Kind.COUNTER, Kind.INSTANT, Kind.OTHER))
