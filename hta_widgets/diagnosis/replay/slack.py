"""How much later everything may happen, and how much earlier the end comes without an operation.

Slack is how much longer something may take before the end moves. It does not say what shortening
gains: another path may be hardly shorter, so that shortening an operation without slack gains
hardly anything. What is gained if an operation takes no time is its drag.

Take an order in which everything comes after what it waits for. Each path then passes through an
operation at its place, or jumps over it by one edge::

    place   0     1     2     3     4
            a --> b ----------> d --> end
            `---------> c ----->|            over b: a -> c;  over c: b -> d

The longest path through an edge is shorter than the longest of all by the slack of the edge. The
drag is therefore the least slack of the edges over an operation, but at most its duration.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from hta_widgets.arrays import Float64Array, Int64Array
from hta_widgets.diagnosis.replay.binding import Solution
from hta_widgets.diagnosis.replay.network import Times

CRITICAL_NS: Final = 0.5
"""Slack that counts as none: the recording has whole ns."""


@dataclass(frozen=True, eq=False)
class Slack:
    """Slack and drag of a replay."""

    solution: Solution
    ends: Int64Array
    """Operations the last of which is the end."""
    begin_ns: float
    end_ns: float
    """Start and end of the time that counts."""

    @cached_property
    def latest(self) -> Times:
        """Latest time of everything at which the end does not move."""
        return self.solution.network.latest(self.solution.weights, self.ends, self.end_ns)

    @cached_property
    def points_ns(self) -> Float64Array:
        """Slack of each point (ns); infinite where the end does not wait for it."""
        return self.latest.point - self.solution.times.point

    @cached_property
    def operations_ns(self) -> Float64Array:
        """Slack of each operation (ns); infinite where the end does not wait for it."""
        return self.latest.end - self.solution.times.end

    @cached_property
    def drag_ns(self) -> Float64Array:
        """How much earlier (ns) the end would be if each operation alone took no time.

        For a finish: if its transfer took no time.
        """
        job, weights = self.solution.network.job, self.solution.weights
        longest = weights.duration.copy()
        longest[job.finish] = np.maximum(weights.transfer, 0)
        drag = np.minimum(longest, self._least_over[self.solution.network.positions[1]])
        return np.where(drag > CRITICAL_NS, drag, 0)

    @property
    def _least_over(self) -> Float64Array:
        """Least slack (ns) of the edges over each place of the order."""
        solution = self.solution
        places = np.concatenate(solution.network.positions)
        late_ns = np.concatenate(self.latest)
        count = places.size
        first, last, slack = [], [], []
        for edges in solution.edges:
            after, until = places[edges.source] + 1, places[edges.target]
            jumps = np.flatnonzero(until > after)
            first.append(after[jumps])
            last.append(until[jumps])
            slack.append(late_ns[edges.target[jumps]] - edges.at_ns[jumps])
        # from the beginning to what waits for nothing, and from the last operations to the end
        job, times = solution.network.job, solution.times
        origins = job.origins
        meetings = np.flatnonzero(solution.weights.earliest > -np.inf)
        starts = np.concatenate((origins, solution.first_meeting + meetings))
        begun_ns = np.concatenate((times.point[origins], solution.weights.earliest[meetings]))
        ends = solution.first_operation + self.ends
        first += [np.zeros(starts.size, dtype=np.int64), places[ends] + 1, np.zeros(1, np.int64)]
        last += [places[starts], np.full(ends.size, count), np.full(1, count)]
        slack += [
            late_ns[starts] - begun_ns,
            self.end_ns - times.end[self.ends],
            np.full(1, self.end_ns - self.begin_ns),
        ]
        return least_over(np.concatenate(first), np.concatenate(last), np.concatenate(slack), count)


def least_over(
    first: Int64Array, last: Int64Array, values: Float64Array, count: int
) -> Float64Array:
    """The least value of the intervals over each place, infinite where there is none.

    Each interval is the union of two whose length is a power of two; those of one length are
    halved together, from the longest down.

    An interval excludes its last place; intervals without places are left out.

    Examples
    --------
    >>> least_over(np.array([0, 1]), np.array([3, 4]), np.array([5.0, 2.0]), 5).tolist()
    [5.0, 2.0, 2.0, 2.0, inf]
    """
    lasting = np.flatnonzero(last > first)
    first, last, values = first[lasting], last[lasting], values[lasting]
    level = np.frexp(last - first)[1] - 1
    order = np.argsort(level, kind="stable")
    bounds = np.searchsorted(level[order], np.arange(int(level.max(initial=0)) + 2)).tolist()
    found = np.full(count, np.inf)
    for power in range(len(bounds) - 2, -1, -1):
        chosen = order[bounds[power] : bounds[power + 1]]
        np.minimum.at(found, first[chosen], values[chosen])
        np.minimum.at(found, last[chosen] - 2**power, values[chosen])
        if power:
            half = 2 ** (power - 1)
            halves = found.copy()
            np.minimum(halves[half:], found[:-half], out=halves[half:])
            found = halves
    return found
