"""The lanes of all ranks of a job on its common clock, and what they do together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import NamedTuple

import numpy as np

from hta_widgets.analyses.clocks.aligned import common_offsets_ns
from hta_widgets.analyses.collectives import rank_splits
from hta_widgets.analyses.communication.partition import RankSplit
from hta_widgets.analyses.timeline.added import (
    LANE_KINDS,
    AddedLane,
    JobLaneKind,
    LaneKind,
    reasons_for_none,
)
from hta_widgets.analyses.timeline.curve import Curves
from hta_widgets.analyses.timeline.event import EventFacts, drawn_at, event_facts
from hta_widgets.analyses.timeline.lanes import RANK_LANE, RankLanes
from hta_widgets.analyses.timeline.overview import (
    OVERVIEW_CLASSES,
    RankOverview,
    Span,
    overview_of,
    rank_overview,
    spans_of,
)
from hta_widgets.analyses.timeline.search import Search, first_found, found_time, next_row
from hta_widgets.analyses.timeline.tracks import LaneName, Track
from hta_widgets.analyses.timeline.window import LaneWindow, curve_window, lane_window, pixel_edges
from hta_widgets.arrays import Float64Array, Int64Array
from hta_widgets.errors import ParameterError
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.questions import asked_once


class LaneAsked(NamedTuple):
    """A requested lane."""

    rank: int
    key: str
    """Key of the lane, see `RankLanes.names`."""
    shift_ns: int = 0
    """How much later than the window the requested time is; returned times are shifted back by
    it."""


class JobLanes:
    """The lanes of the ranks of a job, built when they are first asked for.

    Parameters
    ----------
    job : Job

    Attributes
    ----------
    offsets_ns : dict of int to int
        Time that turns times of each rank into times since the first event of all ranks.
    span : Span
        From the first to the last event of all ranks.
    analysed : Span
        From the first analysed step of all ranks to the end of the last.
    of_job : dict of str to JobLaneKind
        Kinds of lanes that can be added, in addition to those of each rank.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.offsets_ns = common_offsets_ns(job)
        self._splits: dict[int, RankSplit] = rank_splits(job)
        self._built: dict[int, RankLanes] = {}
        self.of_job: dict[str, JobLaneKind] = {}
        self._search: Search | None = None
        self._matches: dict[tuple[int, str], Intervals] = {}
        spans = job.reduce(spans_of, job.ranks)
        self.span = self._together({rank: each.whole for rank, each in spans.items()})
        self.analysed = self._together({rank: each.analysed for rank, each in spans.items()})

    def with_kinds(self, kinds: Iterable[JobLaneKind]) -> JobLanes:
        """The same lanes, to which lanes of more kinds can be added."""
        found = copy(self)  # lanes that are already built are shared
        found.of_job = {each.name: each for each in kinds}
        return found

    @property
    def kinds(self) -> dict[str, JobLaneKind | LaneKind]:
        """All kinds of lanes that can be added, by name, from top to bottom."""
        return {**self.of_job, **LANE_KINDS}

    def _together(self, spans: Mapping[int, Span]) -> Span:
        lasting = {rank: each for rank, each in spans.items() if each.end_ns > each.start_ns}
        starts = [self.offsets_ns[rank] + each.start_ns for rank, each in lasting.items()]
        ends = [self.offsets_ns[rank] + each.end_ns for rank, each in lasting.items()]
        return Span(min(starts, default=0), max(ends, default=1))

    def of(self, rank: int) -> RankLanes:
        """The lanes of a rank; those of the most recently used ranks are kept."""
        found = self._built.pop(rank, None)
        if found is None:
            found = RankLanes(self.job.rank(rank), self._splits[rank])
        self._built[rank] = found
        if self.job.hold_at_most is not None:
            for oldest in [*self._built][: -self.job.hold_at_most]:
                del self._built[oldest]
        return found

    def overviews(self, ranks: Iterable[int], bins: int) -> dict[int, RankOverview]:
        """The own lanes of ranks in equal bins of `analysed`; ranks too many to hold are not."""
        asked = {}
        for rank in ranks:
            offset_ns = self.offsets_ns[rank]
            start_ns, end_ns = self.analysed
            span = Span(start_ns - offset_ns, end_ns - offset_ns)
            asked[rank] = self._splits[rank], span, bins
        if not self.job.too_many_to_hold(asked):
            return {
                rank: overview_of(self.of(rank), span, bins)
                for rank, (_, span, bins) in asked.items()
            }
        return self.job.reduce_each(rank_overview, asked)

    def kinds_without_lanes(self) -> dict[str, str]:
        """For each kind that can be added, by name, why no rank has any lanes of it."""
        first, *others = self.job.reduce(reasons_for_none, self.job.ranks).values()
        of_job = {name: kind.why_none(self.job) for name, kind in self.of_job.items()}
        return {name: why for name, why in of_job.items() if why} | {
            kind: why for kind, why in first.items() if why and all(each[kind] for each in others)
        }

    def added(self, rank: int, kind: str) -> list[LaneName]:
        """The lanes of a rank of one of `kinds`; empty if nothing was recorded."""
        lanes = self.of(rank)
        if kind in self.of_job:
            return [each.name for each in self._added(rank, kind)]
        return lanes.added(kind)

    def _added(self, rank: int, kind: str) -> Sequence[AddedLane]:
        return self.job.remember(self.of_job[kind].lanes).by_rank.get(rank, ())

    def why_none(self, rank: int, kind: str) -> str:
        """Why a rank has no lanes of a kind."""
        if kind in self.of_job:
            of_job = self.of_job[kind]
            return of_job.why_none(self.job) or self.job.remember(of_job.lanes).nothing
        return LANE_KINDS[kind].why_none(self.of(rank).rank) or LANE_KINDS[kind].nothing

    def window(
        self,
        lanes: Iterable[LaneAsked],
        start_ns: int,
        end_ns: int,
        pixels: int,
        *,
        most_events: int,
        search: Search | None = None,
    ) -> list[LaneWindow | None]:
        """What lanes look like in a window of the common clock.

        Parameters
        ----------
        start_ns, end_ns : int
            Bounds of the window since the first event of all ranks.
        pixels : int
            Bins of the coverage; at most one per nanosecond.
        most_events : int
            Most events to return for each lane.
        search : Search, optional
            Names whose coverage is also returned.

        Returns
        -------
        list of LaneWindow
            Times on the common clock; None for a lane that does not exist.

        Raises
        ------
        ParameterError
            If the window has no length, or there are no pixels.
        UnknownRankError
            If the job lacks a rank.
        """
        if end_ns <= start_ns or pixels < 1:
            msg = (
                "a window needs start < end and at least one pixel, got "
                f"({start_ns}, {end_ns}) on {pixels}"
            )
            raise ParameterError(msg)
        edges = pixel_edges(start_ns, end_ns, pixels)
        return [self._one(each, edges, most_events, search) for each in lanes]

    def names_of(self, found: Iterable[tuple[int, LaneWindow]]) -> tuple[list[str], Int64Array]:
        """Distinct names of the events of windows, and the position of each event's, or -1."""
        place: dict[str, int] = {}
        parts = [np.zeros(0, dtype=np.int64)]
        for rank, window in found:
            column = self.job.rank(rank).trace.events.name
            codes = np.where(window.row >= 0, column.codes[window.row], -1)
            distinct, which = np.unique(codes, return_inverse=True)
            of_code = [
                place.setdefault(column.values[code], len(place)) if code >= 0 else -1
                for code in distinct.tolist()
            ]
            parts.append(np.array(of_code, dtype=np.int64)[which])
        return [*place], np.concatenate(parts)

    def event(self, rank: int, row: int) -> EventFacts:
        """One event of a rank, with the call that launched it or the work that it launched.

        `ParameterError` if the rank has no such event.
        """
        return event_facts(self.of(rank), row, self.offsets_ns[rank])

    def next_event(self, rank: int, key: str, row: int, *, forward: bool) -> EventFacts | None:
        """The next or previous event of the same name in a lane; None at the end.

        `ParameterError` if the rank has no such event, or no such lane.
        """
        lanes = self.of(rank)
        lanes.check_row(row)
        found = next_row(self._tracks(rank, key), lanes.rank.trace.events, row, forward=forward)
        return None if found is None else self.event(rank, found)

    def first_event(self, rank: int, key: str, time_ns: int, *, forward: bool) -> EventFacts | None:
        """The first event of a lane that ends after a time, or the last that starts before it.

        In a lane of modules, it is the run of kernels of the module. None if there is none. Times
        are since the first event of all ranks. `ParameterError` if the rank has no such lane.
        """
        time_ns -= self.offsets_ns[rank]
        found = first_found(self._tracks(rank, key), time_ns, forward=forward)
        if found is None:
            return None
        start_ns = found.start_ns + self.offsets_ns[rank]
        return drawn_at(self.event(rank, found.row), key, start_ns, found.duration_ns)

    def _content(self, rank: int, key: str) -> tuple[Track, ...] | Curves | None:
        """What is drawn in a lane; None if the rank has no such lane."""
        kind = key.partition(" ")[0]
        if kind not in self.of_job:
            return self.of(rank).content(key)
        found = (each.content for each in self._added(rank, kind) if each.name.key == key)
        return next(found, None)

    def _tracks(self, rank: int, key: str) -> tuple[Track, ...]:
        content = self._content(rank, key)
        if content is None:
            msg = f"rank {rank} has no lane {key!r:.80}"
            raise ParameterError(msg)
        return () if isinstance(content, Curves) else content

    def _found(self, asked: LaneAsked, search: Search) -> Intervals:
        """Time of the events that match a search in a lane; kept for the last search.

        The lane of a rank stands for all of its streams.
        """
        if search != self._search:
            self._search, self._matches = search, {}
        place = asked.rank, asked.key
        if place not in self._matches:
            lanes = self.of(asked.rank)
            is_rank = asked.key == RANK_LANE
            tracks = lanes.work if is_rank else self._tracks(*place)
            self._matches[place] = found_time(tracks, lanes.rank.trace.events, search)
        return self._matches[place]

    def _one(
        self, asked: LaneAsked, edges: Times, most_events: int, search: Search | None
    ) -> LaneWindow | None:
        content = self._content(asked.rank, asked.key)
        if content is None:
            return None
        back_ns = self.offsets_ns[asked.rank] - asked.shift_ns
        if isinstance(content, Curves):
            return curve_window(content, edges - back_ns)
        found = lane_window(content, edges - back_ns, most_events)
        match = None if search is None else self._found(asked, search)
        return found._replace(
            start_ns=found.start_ns + back_ns,
            found_ns=None if match is None else match.length_in_bins(edges - back_ns),
        )


def job_lanes(job: Job, kinds: tuple[JobLaneKind, ...] = ()) -> JobLanes:
    """The lanes of a job, shared by all callers, to which lanes of more kinds can be added."""
    return job.remember(_with_kinds, kinds) if kinds else job.remember(JobLanes)


def _with_kinds(job: Job, kinds: tuple[JobLaneKind, ...]) -> JobLanes:
    return job.remember(JobLanes).with_kinds(kinds)


class ClassRow(NamedTuple):
    """The tracks of one class of all ranks, one rank after the other on the same axis.

    One search finds an instant on all ranks::

        rank 0                          rank 1
        |---|       |----|              |       |--|      |--|
        0                               length_ns
    """

    place_ns: Times
    """Where each segment starts, ascending; the first item is -1, before all of them."""
    sums_ns: Times
    """Length of all segments before each one, and of all segments."""

    @classmethod
    def of(cls, tracks: Iterable[tuple[Track, int]]) -> ClassRow:
        """Put tracks one after the other, each moved by its offset (ns)."""
        pairs = [*tracks]
        places = [track.start_ns + later_ns for track, later_ns in pairs]
        lengths = [np.diff(track.sums_ns) for track, _ in pairs]
        sums_ns = np.cumsum(np.concatenate([[0, 0], *lengths]), dtype=np.int64)
        return cls(np.concatenate([[-1], *places]), sums_ns)

    def covered_until(self, place_ns: Times) -> Times:
        """Covered length before places that are not negative."""
        last = np.searchsorted(self.place_ns, place_ns, side="right") - 1
        length_ns = self.sums_ns[last + 1] - self.sums_ns[last]
        return np.asarray(
            self.sums_ns[last] + np.minimum(place_ns - self.place_ns[last], length_ns)
        )


class RankRows(NamedTuple):
    """The own lanes of several ranks, for questions about all of them."""

    ranks: int
    """Number of ranks."""
    span: Span
    """The time that each rank has on each row, on the common clock."""
    rows: tuple[ClassRow, ...]
    """Rows of classes, in the order of `OVERVIEW_CLASSES`."""

    def spread(self, edges: Times) -> Float64Array:
        """Least, median and largest time (ns) that a rank spends in each class between edges.

        The shape is (classes of `OVERVIEW_CLASSES`, 3, bins); the edges are on the common clock,
        ascending.
        """
        since = np.clip(edges, *self.span) - self.span.start_ns
        ranks = np.arange(self.ranks, dtype=np.int64)[:, None]
        places = since + (self.span.end_ns - self.span.start_ns + 1) * ranks
        found = np.zeros((len(self.rows), 3, edges.size - 1))
        for row, spread in zip(self.rows, found, strict=True):
            if row.place_ns.size > 1:
                until = row.covered_until(places.ravel()).reshape(places.shape)
                spread[:] = least_median_most(np.diff(until, axis=1))
        return found


def least_median_most(by_rank: Int64Array) -> Float64Array:
    """Minimum, median and maximum of each column; an even number's median is the middle mean."""
    return np.array([by_rank.min(axis=0), np.median(by_rank, axis=0), by_rank.max(axis=0)])


@asked_once
def rank_rows(job: Job, ranks: tuple[int, ...]) -> RankRows:
    """The own lanes of ranks that the job can hold, joined once."""
    lanes = job_lanes(job)
    own = {rank: lanes.of(rank).tracks(RANK_LANE) or () for rank in ranks}
    return stacked([(tracks, lanes.offsets_ns[rank]) for rank, tracks in own.items()])


def stacked(ranks: Sequence[tuple[Sequence[Track], int]]) -> RankRows:
    """Join the own lanes of ranks, each given with its offset to the common clock (ns)."""
    every = [(track, offset) for tracks, offset in ranks for track in tracks]
    start_ns = min((int(track.start_ns[0]) + offset for track, offset in every), default=0)
    ends_ns = (track.end_of(track.start_ns.size - 1) + offset for track, offset in every)
    span = Span(start_ns, max(ends_ns, default=1))
    later_ns = [
        offset - start_ns + place * (span.end_ns - start_ns + 1)
        for place, (_, offset) in enumerate(ranks)
    ]
    rows = [
        ClassRow.of(
            (track, later)
            for (tracks, _), later in zip(ranks, later_ns, strict=True)
            for track in tracks
            if track.code == code
        )
        for code in OVERVIEW_CLASSES
    ]
    return RankRows(len(ranks), span, tuple(rows))
