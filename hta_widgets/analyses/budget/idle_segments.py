"""Segments of idle time, and what cuts them: the calls of a thread, overhead, steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hta_widgets.analyses.time.calls import Calls
from hta_widgets.arrays import Int32Array, Int64Array, IntArray, Mask
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.model.cut_forest import Thread

NOBODY = -1
_BEFORE_ALL = np.iinfo(np.int64).min
_AFTER_ALL = np.iinfo(np.int64).max
_NO_TIMES: Times = np.zeros(0, dtype=np.int64)


class IdleSegments(NamedTuple):
    """Stretches of idle time."""

    gap: IntArray
    """Position of the idle interval that each is part of, int32."""
    start_ns: Times
    length_ns: IntArray
    """int64, or the narrowest type that fits where segments are kept."""
    owner: IntArray
    """Place of the call that each belongs to, `NOBODY` for none, int32."""

    @classmethod
    def of(cls, start_ns: Times, end_ns: Times, owner: IntArray | None = None) -> IdleSegments:
        """One segment for each interval that has a length."""
        gap = np.flatnonzero(end_ns > start_ns)
        owners = np.full(gap.size, NOBODY) if owner is None else owner[gap]
        start_ns = start_ns[gap]
        length_ns = end_ns[gap] - start_ns
        return cls(gap.astype(np.int32), start_ns, length_ns, owners.astype(np.int32))

    def take(self, chosen: Mask | Int64Array) -> IdleSegments:
        """Some of the segments."""
        if chosen.dtype == np.bool_:
            if chosen.all():  # usual
                return self
            chosen = np.flatnonzero(chosen)  # faster for several columns
        return IdleSegments(*(column[chosen] for column in self))

    def clip(self, start_ns: int, end_ns: int) -> IdleSegments:
        """The part of each segment that is inside a window; all segments reach into it."""
        starts = np.maximum(self.start_ns, start_ns)
        return self._replace(start_ns=starts, length_ns=np.minimum(self.end_ns, end_ns) - starts)

    def cut_at(self, moments_ns: Sequence[Times]) -> tuple[IdleSegments, Int64Array]:
        """Cut each segment at some times of its interval; also which segment each part is from."""
        is_cut, end_ns = np.zeros(self.gap.size, dtype=np.bool_), self.end_ns
        for each in moments_ns:
            at_ns = each[self.gap]
            is_cut |= (self.start_ns < at_ns) & (at_ns < end_ns)
        chosen = np.flatnonzero(is_cut)
        starts, ends = self.start_ns[chosen], end_ns[chosen]
        inner = [np.clip(each[self.gap[chosen]], starts, ends) for each in moments_ns]
        edges = np.sort(np.stack((starts, *inner, ends), axis=1), axis=1)
        length_ns = np.diff(edges)
        lasting = length_ns > 0
        count = np.ones(self.gap.size, dtype=np.int64)
        count[chosen] = np.count_nonzero(lasting, axis=1)
        source = np.repeat(np.arange(count.size), count)
        parts, at = self.take(source), np.flatnonzero(is_cut[source])
        parts.start_ns[at], parts.length_ns[at] = edges[:, :-1][lasting], length_ns[lasting]
        return parts, source

    @property
    def end_ns(self) -> Times:
        """End of each segment."""
        return self.start_ns + self.length_ns


def joined(parts: list[IdleSegments]) -> IdleSegments:
    """Join segments."""
    nothing = IdleSegments.of(_NO_TIMES, _NO_TIMES)
    parts = [each for each in parts if each.gap.size]
    if len(parts) == 1:
        return parts[0]
    return IdleSegments(*map(np.concatenate, zip(nothing, *parts, strict=True)))


def _changes_of(calls: Calls, thread: Thread) -> tuple[Times, Int32Array]:
    """When the innermost call of a thread changes, and to which: ends of calls, then starts."""
    own = slice(thread.first, thread.last)
    start, end = calls.events.start_ns[calls.forest.rows[own]], calls.forest.cut_end_ns[own]
    places = np.flatnonzero(end > start)
    inner_first = places[::-1]
    by_end = inner_first[np.argsort(end[inner_first], kind="stable")]
    times = np.empty((2, places.size), dtype=np.int64)
    holds = np.empty(times.shape, dtype=np.int32)
    np.take(end, by_end, out=times[0], mode="clip")
    np.take(start, places, out=times[1], mode="clip")
    holds[0] = calls.forest.parent[own][by_end]
    np.add(places, thread.first, out=holds[1], casting="same_kind")
    return times.ravel(), holds.ravel()


class OwnerTimeline(NamedTuple):
    """What holds when: ``holds[i]`` from ``edges[i]`` to ``edges[i + 1]``."""

    edges: Times
    """Times in ns, ascending; the first is before everything, the last after everything."""
    holds: Int32Array
    """A place, or `NOBODY`; for steps, a position."""

    @classmethod
    def innermost(cls, calls: Calls, thread: Thread) -> OwnerTimeline:
        """The innermost call of a thread."""
        # a |---------------|        edges  a  b  b' c   c' a'
        #     b |---|                owner  a  b  a  c   a  -
        #              c |--|        (c and a end together: the end of the outer one counts last)
        return cls._of_changes(*_changes_of(calls, thread))  # frees what these are made of

    @classmethod
    def covering(cls, *covered: Intervals) -> OwnerTimeline:
        """Which of some intervals cover each time, else `NOBODY`; no two may at the same time."""
        sizes = [len(each) for each in covered]
        ends = np.full(sum(sizes), NOBODY, dtype=np.int32)
        starts = np.repeat(np.arange(len(covered), dtype=np.int32), sizes)
        return cls._of_changes(
            np.concatenate([*(each.ends for each in covered), *(each.starts for each in covered)]),
            np.concatenate((ends, starts)),
        )

    @classmethod
    def of_steps(cls, edges: Times) -> OwnerTimeline:
        """How many of some edges, ascending, come before each time."""
        edges = np.concatenate(([_BEFORE_ALL], edges, [_AFTER_ALL]))
        return cls(edges, np.arange(edges.size - 1, dtype=np.int32))

    @classmethod
    def _of_changes(cls, times: Times, holds: Int32Array) -> OwnerTimeline:
        """Sort changes by time; among those at the same time, the last one given counts."""
        order = np.argsort(times, kind="stable")
        edges = np.empty(times.size + 2, dtype=np.int64)
        held = np.empty(times.size + 1, dtype=np.int32)
        edges[0], edges[-1], held[0] = _BEFORE_ALL, _AFTER_ALL, NOBODY
        np.take(times, order, out=edges[1:-1], mode="clip")
        np.take(holds, order, out=held[1:], mode="clip")
        return cls(edges, held)

    def cut(self, segments: IdleSegments) -> tuple[IdleSegments, Int64Array]:
        """Cut segments where something else starts to hold, and let that own each part.

        Also returns the position of the segment that each part was cut from.
        """
        if self.holds.size == 1:  # nothing ever changes
            owner = np.broadcast_to(self.holds, segments.gap.shape)
            return segments._replace(owner=owner), np.arange(segments.gap.size)
        first = np.searchsorted(self.edges, segments.start_ns, side="right") - 1
        parts = np.searchsorted(self.edges, segments.end_ns, side="left") - first
        ends = np.cumsum(parts)
        source = np.repeat(np.arange(parts.size), parts)
        at = np.arange(source.size) + (first - (ends - parts))[source]
        start = np.maximum(segments.start_ns[source], self.edges[at])
        length = np.minimum(segments.end_ns[source], self.edges[at + 1]) - start
        if not (is_lasting := length > 0).all():  # one by one: each takes 8 MB for 1 M parts
            lasting = np.flatnonzero(is_lasting)
            start, length = start[lasting], length[lasting]
            source, at = source[lasting], at[lasting]
        return IdleSegments(segments.gap[source], start, length, self.holds[at]), source
