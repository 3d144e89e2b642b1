"""What many ranks do together in any window: the least, the median and the most of each class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from hta_widgets.analyses.timeline.lanes import RANK_LANE
from hta_widgets.analyses.timeline.lanes_of_job import job_lanes
from hta_widgets.analyses.timeline.overview import OVERVIEW_CLASSES, Span
from hta_widgets.analyses.timeline.tracks import Track
from hta_widgets.arrays import Float64Array, Int64Array
from hta_widgets.intervals import Times
from hta_widgets.trace.job import Job


class ClassRow(NamedTuple):
    """The tracks of one class of all ranks, one rank after the other on the same axis.

    One search finds an instant of all of them::

        rank 0                          rank 1
        |---|       |----|              |       |--|      |--|
        0                               length_ns
    """

    place_ns: Times
    """Where each segment starts, ascending; before all of them -1."""
    sums_ns: Times
    """Length of all that lie before each, and of all."""

    @classmethod
    def of(cls, tracks: Iterable[tuple[Track, int]]) -> ClassRow:
        """Put tracks one after the other, each moved by its offset (ns)."""
        pairs = [*tracks]
        places = [track.start_ns + later_ns for track, later_ns in pairs]
        lengths = [np.diff(track.sums_ns) for track, _ in pairs]
        sums_ns = np.cumsum(np.concatenate([[0, 0], *lengths]), dtype=np.int64)
        return cls(np.concatenate([[-1], *places]), sums_ns)

    def covered_until(self, place_ns: Times) -> Times:
        """Covered length before places, which are not negative."""
        last = np.searchsorted(self.place_ns, place_ns, side="right") - 1
        length_ns = self.sums_ns[last + 1] - self.sums_ns[last]
        return np.asarray(
            self.sums_ns[last] + np.minimum(place_ns - self.place_ns[last], length_ns)
        )


class RankRows(NamedTuple):
    """The own lanes of several ranks, for questions about all of them."""

    ranks: int
    """Number of them."""
    span: Span
    """The time that each rank has on each row, on the common clock."""
    rows: tuple[ClassRow, ...]
    """In the order of `OVERVIEW_CLASSES`."""

    def spread(self, edges: Times) -> Float64Array:
        """Least, median and largest time (ns) that a rank spends in each class between edges.

        Parameters
        ----------
        edges : ndarray of int64
            On the common clock, ascending.

        Returns
        -------
        ndarray of float64, shape (classes of `OVERVIEW_CLASSES`, 3, bins)
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
    """Spread of each column; a median of an even number is the mean of the two in the middle."""
    return np.array([by_rank.min(axis=0), np.median(by_rank, axis=0), by_rank.max(axis=0)])


def rank_rows(job: Job, ranks: tuple[int, ...]) -> RankRows:
    """The own lanes of ranks that the job can hold, put together once."""
    return job.remember(_rank_rows, ranks)


def _rank_rows(job: Job, ranks: tuple[int, ...]) -> RankRows:
    lanes = job_lanes(job)
    own = {rank: lanes.of(rank).tracks(RANK_LANE) or () for rank in ranks}
    return stacked([(tracks, lanes.offsets_ns[rank]) for rank, tracks in own.items()])


def stacked(ranks: Sequence[tuple[Sequence[Track], int]]) -> RankRows:
    """Put the own lanes of ranks together, given with the time to add to their own."""
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
