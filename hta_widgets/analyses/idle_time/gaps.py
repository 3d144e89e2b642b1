"""Idle intervals of streams and devices, sorted so that each cause is one run of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hta_widgets.grouping import Groups, grouped
from hta_widgets.intervals import Times
from hta_widgets.trace.cache.derived_columns import Columns
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import NEVER, Rank

NO_STREAM = -1


@dataclass(frozen=True, eq=False)
class Gaps:
    """Intervals by group (a stream or a device), then late launches first, then by length.

    Attributes
    ----------
    device, stream : ndarray of int64
        Of each group; `NO_STREAM` if groups are devices.
    span_ns : ndarray of int64
        First start to last end of each group.
    edges : ndarray of int64
        Group `g` has its late launches in ``edges[2 * g]:edges[2 * g + 1]`` and its other
        intervals from there to ``edges[2 * g + 2]``.
    length_ns : ndarray of int64
        Length of each interval.
    total_ns : ndarray of int64
        Time before each interval; one longer than `length_ns`.
    unknown_edges, unknown_ns : ndarray of int64
        Lengths of the intervals of each group whose launch is not in the trace, ascending:
        ``unknown_ns[unknown_edges[g]:unknown_edges[g + 1]]``. None of them is a late launch.
    """

    device: NDArray[np.int64]
    stream: NDArray[np.int64]
    span_ns: Times
    edges: NDArray[np.int64]
    length_ns: Times
    total_ns: Times
    unknown_edges: NDArray[np.int64]
    unknown_ns: Times

    def category_edges(self, delay_ns: int) -> NDArray[np.int64]:
        """Bounds of late, shorter and other intervals of each group, one run after the other."""
        middle = self.edges[1::2]
        shorter = middle + _shorter(self.length_ns, middle, self.edges[2::2], delay_ns)
        return np.append(np.stack([self.edges[:-1:2], middle, shorter], axis=1), self.edges[-1])

    def unknown_launches(self, delay_ns: int) -> NDArray[np.int64]:
        """Intervals whose launch is not in the trace: late, shorter and other of each group."""
        count = np.diff(self.unknown_edges)
        first, last = self.unknown_edges[:-1], self.unknown_edges[1:]
        shorter = _shorter(self.unknown_ns, first, last, delay_ns)
        return np.stack([np.zeros_like(count), shorter, count - shorter], axis=1).ravel()


def stream_gaps(rank: Rank) -> Gaps:
    """Idle intervals of each stream; the streams of a device in order of occurrence in the file."""
    return Gaps(**rank.derive(_stream_gaps))


def device_gaps(rank: Rank) -> Gaps:
    """Intervals of each device in which none of its streams is busy."""
    return Gaps(**rank.derive(_device_gaps))


def _stream_gaps(rank: Rank) -> Columns:
    work, streams = rank.gpu_work, rank.gpu_work.streams
    place = streams.reduce(np.minimum, rank.trace.events.index[work.rows])
    device, stream = work.device[streams.first], work.stream[streams.first]
    return vars(_gaps(rank, streams, np.lexsort((place, device)), stream))


def _device_gaps(rank: Rank) -> Columns:
    devices = grouped(rank.gpu_work.device)
    count = devices.first.size
    return vars(_gaps(rank, devices, np.arange(count), np.full(count, NO_STREAM)))


def _gaps(
    rank: Rank,
    groups: Groups,
    by_place: NDArray[np.int64],
    stream: NDArray[np.int64],
) -> Gaps:
    """Measure from the running maximum of ends, so that overlapping operations leave no gap.

    Parameters
    ----------
    rank : Rank
    groups : Groups
        Streams or devices.
    by_place : ndarray of int64
        The groups in the order of the result.
    stream : ndarray of int64
        Of each group.
    """
    work = rank.gpu_work
    parts = groups.parts
    lengths = [_of_group(work, rank.launched_ns, parts[group]) for group in by_place.tolist()]
    runs = [run for late, in_time, _, _ in lengths for run in (late, in_time)]
    unknown = [each for _, _, each, _ in lengths]
    length_ns = _joined(runs)
    return Gaps(
        device=work.device[groups.first][by_place],
        stream=stream[by_place],
        span_ns=np.array([span_ns for *_, span_ns in lengths], dtype=np.int64),
        edges=_edges(runs),
        length_ns=length_ns,
        total_ns=np.concatenate(([0], np.cumsum(length_ns))),
        unknown_edges=_edges(unknown),
        unknown_ns=_joined(unknown),
    )


def _of_group(
    work: GpuWork, launch_ns: Times, positions: NDArray[np.int64]
) -> tuple[Times, Times, Times, int]:
    """Ascending lengths of late, of other and of unknown gaps, and first start to last end."""
    # earlier operations  |====|
    #                       |======|  <- reached
    # next operation                ···gap···|====|
    # its launch                        ^ after `reached`: late; before: in time
    start_ns = work.start_ns[positions]
    positions = _first_launched_first(work, start_ns, launch_ns, positions)
    launch_ns = launch_ns[positions]
    reached_ns = np.maximum.accumulate(work.end_ns[positions])
    length_ns = start_ns[1:] - reached_ns[:-1]
    unknown = launch_ns[1:] == NEVER
    late = (launch_ns[1:] > reached_ns[:-1]) & ~unknown
    gap = length_ns >= 0
    return (
        np.sort(length_ns[late & gap]),
        np.sort(length_ns[~late & gap]),
        np.sort(length_ns[unknown & gap]),
        int(reached_ns[-1] - start_ns[0]),
    )


def _first_launched_first(
    work: GpuWork, start_ns: Times, launch_ns: Times, positions: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Order operations that start at once by launch, then by end: the first of them ends the gap.

    The positions ascend by start already.
    """
    same = np.flatnonzero(start_ns[1:] == start_ns[:-1])
    if not same.size:
        return positions
    tied = np.union1d(same, same + 1)
    among = positions[tied]
    keys = (work.end_ns[among], launch_ns[among], start_ns[tied])
    ordered = positions.copy()
    ordered[tied] = among[np.lexsort(keys)]
    return ordered


def _shorter(
    lengths: Times, first: NDArray[np.int64], last: NDArray[np.int64], delay_ns: int
) -> NDArray[np.int64]:
    """How many of each ascending run of lengths are below a delay."""
    runs = zip(first.tolist(), last.tolist(), strict=True)
    counts = [int(np.searchsorted(lengths[start:end], delay_ns)) for start, end in runs]
    return np.array(counts, dtype=np.int64)


def _edges(runs: list[Times]) -> NDArray[np.int64]:
    return np.cumsum([0, *(run.size for run in runs)], dtype=np.int64)


def _joined(runs: list[Times]) -> Times:
    return np.concatenate([np.zeros(0, dtype=np.int64), *runs])
