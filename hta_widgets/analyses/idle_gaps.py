"""Idle intervals of streams and devices, in the order that any breakdown by cause needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hta_widgets.intervals import Times
from hta_widgets.trace.events import Events
from hta_widgets.trace.gpu_work import GpuWork

NO_STREAM = -1
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Gaps:
    """Intervals by group (a stream or a device), then late launches first, then by length.

    Attributes
    ----------
    device, stream : ndarray of int64
        Of each group; `NO_STREAM` where groups are devices.
    span_ns : ndarray of int64
        First start to last end of each group.
    edges : ndarray of int64
        Group `g` has its late launches in ``edges[2 * g]:edges[2 * g + 1]`` and its other
        intervals from there to ``edges[2 * g + 2]``.
    length_ns : ndarray of int64
        Length of each interval.
    total_ns, unknown_launches : ndarray of int64
        Time, and number of intervals whose launch is not in the trace, before each interval; one
        longer than `length_ns`.
    """

    device: NDArray[np.int64]
    stream: NDArray[np.int64]
    span_ns: Times
    edges: NDArray[np.int64]
    length_ns: Times
    total_ns: Times
    unknown_launches: NDArray[np.int64]

    def category_edges(self, delay_ns: int) -> NDArray[np.int64]:
        """Bounds of late, shorter and other intervals of each group, one run after the other."""
        middle, last = self.edges[1::2], self.edges[2::2]
        shorter = [
            start + int(np.searchsorted(self.length_ns[start:end], delay_ns))
            for start, end in zip(middle.tolist(), last.tolist(), strict=True)
        ]
        bounds = np.stack([self.edges[:-1:2], middle, np.array(shorter, dtype=np.int64)], axis=1)
        return np.append(bounds.ravel(), self.edges[-1])


def stream_gaps(events: Events, work: GpuWork) -> Gaps:
    """Find the idle intervals of each stream; streams of a device by first place in the trace."""
    order = np.argsort(events.index[work.rows], kind="stable")
    keys = np.stack([work.device[order], work.stream[order]])
    distinct, first, inverse = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    by_place = np.lexsort((first, distinct[0]))
    code_of = np.empty(by_place.size, dtype=np.int64)
    code_of[by_place] = np.arange(by_place.size)
    group = np.empty(len(work), dtype=np.int64)
    group[order] = code_of[inverse.reshape(-1)]
    device, stream = distinct[:, by_place]
    return _gaps(events, work, group, device, stream)


def device_gaps(events: Events, work: GpuWork) -> Gaps:
    """Find the intervals of each device in which none of its streams is busy."""
    device, group = np.unique(work.device, return_inverse=True)
    return _gaps(events, work, group.reshape(-1), device, np.full(device.size, NO_STREAM))


def _gaps(
    events: Events,
    work: GpuWork,
    group: NDArray[np.int64],
    device: NDArray[np.int64],
    stream: NDArray[np.int64],
) -> Gaps:
    """Measure from the running maximum of ends, so that overlapping operations leave no gap.

    Of several operations that start at once, the one launched first ends the gap.
    """
    launched = work.launch >= 0
    launch_ns = np.where(launched, events.start_ns[work.launch], _NEVER)
    order = np.lexsort((work.end_ns, launch_ns, work.start_ns, group))
    group, start_ns = group[order], work.start_ns[order]
    first = np.searchsorted(group, np.arange(device.size + 1))
    reached_ns = _running_maximum(work.end_ns[order], first)
    length_ns = start_ns[1:] - reached_ns[:-1]
    after = np.flatnonzero((length_ns >= 0) & (group[1:] == group[:-1]))
    known = launched[order][1:][after]
    in_time = ~known | (launch_ns[order][1:][after] <= reached_ns[after])
    run = 2 * group[after] + in_time
    sort = np.lexsort((length_ns[after], run))
    length_ns = length_ns[after][sort]
    return Gaps(
        device=device,
        stream=stream,
        span_ns=reached_ns[first[1:] - 1] - start_ns[first[:-1]],
        edges=np.searchsorted(run[sort], np.arange(2 * device.size + 1)),
        length_ns=length_ns,
        total_ns=_before_each(length_ns),
        unknown_launches=_before_each(~known[sort]),
    )


def _running_maximum(values: Times, first: NDArray[np.int64]) -> Times:
    """Maximum so far within each run of values."""
    reached = np.empty_like(values)
    for start, end in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        np.maximum.accumulate(values[start:end], out=reached[start:end])
    return reached


def _before_each(values: NDArray[np.generic]) -> NDArray[np.int64]:
    """Sum of the values before each place, and of all at the end."""
    return np.concatenate(([0], np.cumsum(values, dtype=np.int64)))
