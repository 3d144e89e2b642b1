"""Which communication kernels of several ranks cannot end before all of them have started."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.clocks.aligned import JobClocks, job_clocks
from hta_widgets.analyses.clocks.alignment import CONTRADICTORY
from hta_widgets.arrays import Float64Array, Int64Array
from hta_widgets.grouping import grouped
from hta_widgets.trace.job import Job

TOGETHER_NS: Final = 20_000
TOGETHER_SHARE: Final = 0.02
"""Kernels of one name on all ranks meet if they end within this time, or share of their length, of
each other."""

MOST_APART: Final = 0.1
"""Largest share of them that may not. Broadcasts matched in this way would otherwise seem to take
the time for which they wait for a late rank."""


class Meetings(NamedTuple):
    """Kernels that meet."""

    rank: Int64Array
    row: Int64Array
    """Rank of each member, and row of its kernel in the events of the rank."""
    number: Int64Array
    """Number of the meeting of each member, ascending from 0."""
    series: Int64Array
    """Position of each member's series in the matches of the job's clocks, -1 for kernels matched
    by name alone."""


def meetings(job: Job) -> Meetings:
    """The meetings of all ranks of a job."""
    if len(job.ranks) < 2:  # noqa: PLR2004
        nothing = np.zeros(0, dtype=np.int64)
        return Meetings(nothing, nothing, nothing, nothing)
    clocks = job_clocks(job)
    kernels, matches = clocks.matches.kernels, clocks.matches
    meets = matches.meets[matches.of_row]
    members, numbers = matches.rows[meets], matches.of_row[meets]
    rows, of_rows = _alike(clocks, np.setdiff1d(np.arange(len(kernels)), members))
    row = np.concatenate((members, rows))
    number = np.concatenate((numbers, of_rows + len(matches)))
    series = np.concatenate((matches.series[numbers], np.full(rows.size, -1)))
    number, which = _possible(clocks, row, number)
    row = row[which]
    ranks = np.array(kernels.ranks, dtype=np.int64)
    return Meetings(
        rank=ranks[kernels.place[row]],
        row=kernels.row[row],
        number=np.unique(number, return_inverse=True)[1].astype(np.int64),
        series=series[which],
    )


def _times(clocks: JobClocks, rows: Int64Array) -> tuple[Float64Array, Float64Array]:
    kernels, aligned = clocks.matches.kernels, clocks.alignment.aligned
    places = kernels.place[rows]
    start, end = aligned(kernels.start_ns[rows], places), aligned(kernels.end_ns[rows], places)
    return start.astype(np.float64), end.astype(np.float64)


def _possible(
    clocks: JobClocks, rows: Int64Array, number: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Members that end after all have started, on ranks with sound clocks; two or more of each."""
    kernels = clocks.matches.kernels
    sound = np.array([state != CONTRADICTORY for state in clocks.states], dtype=np.bool_)
    kept = np.flatnonzero(sound[kernels.place[rows]])
    while True:
        found = grouped(number[kept])
        start, end = _times(clocks, rows[kept])
        last_ns = found.reduce(np.maximum, start)[found.of_rows]
        stays = (end >= last_ns) & (found.sizes[found.of_rows] > 1)
        if stays.all():
            order = np.argsort(number[kept], kind="stable")
            return number[kept[order]], kept[order]
        kept = kept[stays]


def _alike(clocks: JobClocks, others: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Kernels outside any series, or that need not meet, which meet all the same: broadcasts."""
    kernels = clocks.matches.kernels
    found, numbers, count = [others[:0]], [others[:0]], 0
    for rows in grouped(kernels.name.codes[others]).parts:
        of_name = others[rows]
        by_rank = grouped(kernels.place[of_name])
        sizes = by_rank.sizes
        if sizes.size != len(kernels.ranks) or np.ptp(sizes):
            continue
        members = of_name[by_rank.order].reshape(sizes.size, -1)
        start, end = (each.reshape(members.shape) for each in _times(clocks, members.ravel()))
        length = (end - start).max(axis=0)
        together = np.ptp(end, axis=0) <= np.maximum(TOGETHER_NS, TOGETHER_SHARE * length)
        together &= start.max(axis=0) <= end.min(axis=0)
        if np.mean(together) < 1 - MOST_APART:
            continue
        found.append(members.ravel())
        numbers.append(np.tile(np.arange(count, count + members.shape[1]), sizes.size))
        count += members.shape[1]
    return np.concatenate(found), np.concatenate(numbers)
