"""What everything waits for, edge by edge. What comes last decides when something happens.

Points, operations and meetings are numbered one after another::

    0 ... points | points ... points + operations | ... + meetings

An edge says when its target can happen because of its source::

    host        H[p - 1] + own[p]               point before, of the same line
    stream      E[i - 1] + gap[i] + duration    operation before, of the same stream
    launch      H[launch] + latency + duration
    dependency  E[source] + delay + duration
    wait        E[awaited] + return             the end of a call
    transfer    M[c] + transfer                 a finish
    arrival     E[arrival]                      a meeting
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.arrays import Float64Array, Int8Array, Int64Array, IntArray
from hta_widgets.diagnosis.replay.network import Network, Times
from hta_widgets.diagnosis.replay.operations import NONE
from hta_widgets.diagnosis.replay.recorded_job import Weights

TIE_NS: Final = 1e-3
"""Edges this close to the last one tie (sums are rounded); the highest `Edge` among them binds."""


class Edge(IntEnum):
    """Kinds of edges; if several bind at once, the highest counts."""

    HOST = 0
    STREAM = 1
    LAUNCH = 2
    DEPENDENCY = 3
    WAIT = 4
    TRANSFER = 5
    ARRIVAL = 6


_BEFORE: Final = (Edge.HOST, Edge.STREAM)
"""Kinds of edges that come from the previous number."""

_SEVERAL: Final = (Edge.DEPENDENCY, Edge.WAIT, Edge.ARRIVAL)
"""Kinds of edges of which a target may have several."""


class Edges(NamedTuple):
    """All edges of one kind."""

    kind: Edge
    source: IntArray
    target: IntArray
    """Numbers at both ends of each edge."""
    at_ns: Float64Array
    """When the target can happen because of the source."""


class Binding(NamedTuple):
    """What decides when each point, operation and meeting happens."""

    kind: Int8Array
    """`Edge` that decides for each, -1 for what waits for nothing."""
    source: Int64Array
    """Number that each waits for; -1 if it waits for nothing, or for the previous number."""
    head: Int64Array
    """First number of each run: points of a line, or operations of a stream, each of which waits
    for the one before it. Anything else is a run of its own."""
    run: Int64Array
    """Position in ``head`` of the run that each belongs to."""


class Solution:
    """A solved replay: times, and the edges between them."""

    def __init__(self, network: Network, weights: Weights) -> None:
        self.network, self.weights = network, weights
        self.first_operation = network.job.line.size
        """Number of the first operation."""
        self.first_meeting = self.first_operation + network.job.stream.size
        """Number of the first meeting."""
        self.nodes, _ = network.forward(weights)
        """Times of the nodes of the network."""
        self.time_ns = np.concatenate(network.expanded(self.nodes, weights))
        """Times of all points, ends of operations, and meetings, by number."""
        bounds = [self.first_operation, self.first_meeting]
        self.times = Times(*np.split(self.time_ns, bounds))
        """The same times as three arrays."""

    @property
    def edges(self) -> Iterator[Edges]:
        """All edges, kind by kind: for 1.5 M events, 20 MB that nothing needs at once."""
        job, weights, times = self.network.job, self.weights, self.times
        waits, dependencies, members = self.network.kept
        base, meetings = self.first_operation, self.first_meeting
        point = np.flatnonzero(np.diff(job.line, prepend=NONE) == 0)
        at_ns = times.point[point - 1] + weights.own[point]
        yield Edges(Edge.HOST, point - 1, point, at_ns)
        follows = np.flatnonzero(~self.network.opens_stream)
        at_ns = times.end[follows - 1] + weights.gap[follows] + weights.duration[follows]
        yield Edges(Edge.STREAM, base + follows - 1, base + follows, at_ns)
        launched = np.flatnonzero(job.launch >= 0)
        launch = job.launch[launched]
        at_ns = times.point[launch] + weights.latency[launched] + weights.duration[launched]
        yield Edges(Edge.LAUNCH, launch, base + launched, at_ns)
        after, source = job.after[dependencies], job.source[dependencies]
        at_ns = times.end[source] + weights.delay[dependencies] + weights.duration[after]
        yield Edges(Edge.DEPENDENCY, base + source, base + after, at_ns)
        awaited = job.awaited[waits]
        at_ns = times.end[awaited] + weights.returning[waits]
        yield Edges(Edge.WAIT, base + awaited, job.waiter[waits], at_ns)
        at_ns = times.meeting[job.meeting] + weights.transfer
        yield Edges(Edge.TRANSFER, meetings + job.meeting, base + job.finish, at_ns)
        arrival, meeting = job.arrival[members], job.meeting[members]
        yield Edges(Edge.ARRIVAL, base + arrival, meetings + meeting, times.end[arrival])

    def binding(self) -> Binding:
        """What decides when each number happens."""
        count = self.time_ns.size
        latest = np.full(count, -np.inf)
        latest[self.first_meeting :] = self.weights.earliest
        kind = np.full(count, NONE, dtype=np.int8)
        found = np.full(count, NONE)
        for edges in self.edges:
            if edges.kind in _BEFORE:
                latest[edges.target], kind[edges.target] = edges.at_ns, edges.kind
                continue
            source, target, at_ns = edges.source, edges.target, edges.at_ns
            if edges.kind in _SEVERAL:
                chosen = _last_of_each(target, at_ns)
                source, target, at_ns = source[chosen], target[chosen], at_ns[chosen]
            binds = np.flatnonzero((at_ns >= latest[target] - TIE_NS) & (at_ns > -np.inf))
            target = target[binds]
            latest[target] = np.maximum(latest[target], at_ns[binds])
            kind[target], found[target] = edges.kind, source[binds]
        begins = (kind != Edge.HOST) & (kind != Edge.STREAM)
        run = np.cumsum(begins)
        run -= 1
        return Binding(kind, found, np.flatnonzero(begins), run)


def _last_of_each(target: Int64Array, at_ns: Float64Array) -> Int64Array:
    """The latest edge into each target."""
    order = np.lexsort((at_ns, target))
    return np.asarray(order[np.diff(target[order], append=NONE) != 0])
