"""When everything happens, given how long each takes: an event graph that one pass solves.

The points between two ends of waiting calls make one node, and so do consecutive operations of a
stream that nothing outside it waits for. Times inside a node follow from sums::

    line      p0 p1 p2 | p3 p4 | p5 ...       a segment starts with each end of a waiting call
    stream    i0 i1 | i2 i3 i4 | i5           a block ends where something waits for its end

A job of 150,000 events has some 3,000 nodes. Communication whose partners are not recorded is a
meeting of one, and no node: its finish comes one transfer after its arrival, in the same block.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.arrays import Float64Array, Int32Array, Int64Array, Mask
from hta_widgets.diagnosis.replay.operations import NONE
from hta_widgets.diagnosis.replay.recorded_job import RecordedJob, Weights
from hta_widgets.grouping import reduce_runs

_LATER: Final = 0.25
"""Time (ns) by which a segment or meeting is ordered after an end at the same time, as it waits."""


class Times(NamedTuple):
    """When everything happens (ns on the common clock, float64)."""

    point: Float64Array
    """Time of each point."""
    end: Float64Array
    """End of each operation."""
    meeting: Float64Array
    """Last arrival of each meeting."""


class Kept(NamedTuple):
    """The edges that remain after those contradicting the order of the others are dropped."""

    waits: Int64Array
    dependencies: Int64Array
    members: Int64Array
    """Positions among the waits, dependencies and members of the job, ascending."""


class _Sums(NamedTuple):
    """Running sums of the weights.

    ``own`` sums host time along all lines, ``host`` from the start of the segment; ``stream`` sums
    gaps and durations along all operations.
    """

    own: Float64Array
    host: Float64Array
    stream: Float64Array


@dataclass(frozen=True, eq=False)
class Network:
    """Nodes and edges of a recorded job; each question brings its own weights."""

    job: RecordedJob

    @cached_property
    def segment_first(self) -> Int64Array:
        """First point of each segment."""
        job = self.job
        begins = job.ends_wait.copy()
        begins[job.origins] = True
        return np.flatnonzero(begins)

    @cached_property
    def segment(self) -> Int32Array:
        """Segment of each point."""
        return _numbers(self.segment_first, self.job.line.size)

    @cached_property
    def opens_stream(self) -> Mask:
        """Whether each operation is the first of its stream."""
        return np.asarray(np.diff(self.job.stream, prepend=NONE) != 0)

    @cached_property
    def is_met(self) -> Mask:
        """Whether each member meets others."""
        number = self.job.meeting
        return np.asarray(np.bincount(number, minlength=self.job.meetings)[number] > 1)

    @cached_property
    def met(self) -> _Members:
        """Members that meet others, with their operations."""
        return _Members.of(self.job, self.is_met)

    @cached_property
    def lone(self) -> _Members:
        """Members that meet no others, with their operations."""
        return _Members.of(self.job, ~self.is_met)

    @cached_property
    def block_first(self) -> Int64Array:
        """First operation of each block."""
        job = self.job
        begins = self.opens_stream.copy()
        begins[job.after] = begins[self.met.finish] = True
        ends = np.concatenate((job.source, job.awaited, self.met.arrival, job.last)) + 1
        begins[ends[ends < begins.size]] = True
        launched = np.flatnonzero(job.launch >= 0)
        changes = np.diff(self.segment[job.launch[launched]], prepend=NONE) != 0
        begins[launched[changes]] = True
        return np.flatnonzero(begins)

    @cached_property
    def block_last(self) -> Int64Array:
        """Last operation of each block."""
        return np.append(self.block_first[1:], self.job.stream.size)[: self.block_first.size] - 1

    @cached_property
    def block(self) -> Int32Array:
        """Block of each operation."""
        return _numbers(self.block_first, self.job.stream.size)

    @cached_property
    def _edges(self) -> _Edges:
        return _Edges.of(self)

    @cached_property
    def dropped(self) -> int:
        """Number of edges dropped, as they contradict the order of others: 0 with sound clocks."""
        return self._edges.dropped

    def _sums(self, weights: Weights) -> _Sums:
        along = np.cumsum(weights.own)
        host = along - along[self.segment_first][self.segment]
        gap = np.where(self.opens_stream, 0, weights.gap)
        taken = gap + weights.duration
        taken[self.lone.finish] += np.maximum(weights.transfer[self.lone.place], 0)
        return _Sums(along, host, np.cumsum(taken))

    def _edge_weights(self, weights: Weights, sums: _Sums) -> Float64Array:
        """Weight of each edge, in order of the edges."""
        job, edges = self.job, self._edges
        along, first, last = sums.stream, self.block_first, self.block_last
        length = np.where(
            self.opens_stream[first],
            along[last] - along[first] + weights.duration[first],
            along[last] - along[first - 1],
        )
        gap_first = np.where(self.opens_stream[first], 0, weights.gap[first])
        inner = length - gap_first
        # earliest end of each operation, from the start of the segment that launches it
        ready = sums.host[job.launch] + weights.latency + weights.duration
        ready = np.where(job.launch >= 0, ready, -np.inf)
        ready = reduce_runs(np.maximum, ready - along, first)
        line = (
            sums.own[self.segment_first[edges.line]] - sums.own[self.segment_first[edges.line - 1]]
        )
        pieces = (
            line,
            weights.returning,
            length[edges.stream],
            (ready + along[last])[edges.launch],
            inner[self.block[job.after]] + weights.delay,
            np.zeros(self.met.place.size),
            inner[self.block[self.met.finish]] + weights.transfer[self.met.place],
        )
        return np.concatenate(pieces)[edges.order]

    @cached_property
    def _start(self) -> Float64Array:
        """Times of the nodes that nothing precedes; -inf for the others."""
        found = np.full(self._edges.nodes, -np.inf)
        own = np.flatnonzero(np.diff(self.job.line[self.segment_first], prepend=NONE))
        found[self._edges.of_segment[own]] = self.job.point_ns[self.segment_first[own]]
        return found

    def _begun(self, weights: Weights, sums: _Sums) -> Float64Array:
        """Time before which each node cannot happen."""
        edges, lone = self._edges, self.lone
        found = self._start.copy()
        found[edges.of_meeting] = weights.earliest[edges.meetings]
        if (weights.earliest > -np.inf).any():
            along, block = sums.stream, self.block[lone.finish]
            left = along[self.block_last[block]] - along[lone.finish]
            finish = weights.earliest[lone.meeting] + weights.transfer[lone.place]
            np.maximum.at(found, edges.of_block[block], finish + left)
        return found

    def forward(self, weights: Weights) -> tuple[Float64Array, Float64Array]:
        """Earliest time of each node, and the weights of the edges."""
        edges, sums = self._edges, self._sums(weights)
        of_edges = self._edge_weights(weights, sums)
        value = self._begun(weights, sums)
        found = value.tolist()
        for source, target, weight in zip(
            edges.source, edges.target, of_edges.tolist(), strict=True
        ):
            time = found[source] + weight
            if time > found[target]:  # noqa: PLR1730, a third faster than max()
                found[target] = time
        return np.array(found), of_edges

    def backward(self, of_edges: Float64Array, latest: Float64Array) -> Float64Array:
        """Latest time of each node at which no node exceeds its limit in ``latest``.

        Infinite for nodes that no limit reaches.
        """
        edges = self._edges
        found = latest.tolist()
        for source, target, weight in zip(
            reversed(edges.source),
            reversed(edges.target),
            of_edges[::-1].tolist(),
            strict=True,
        ):
            time = found[target] - weight
            if time < found[source]:  # noqa: PLR1730, a third faster than min()
                found[source] = time
        return np.array(found)

    def latest(self, weights: Weights, ends: Int64Array, end_ns: float) -> Times:
        """Latest time of everything at which some operations still end by ``end_ns``.

        The operations are from `RecordedJob.last`. Infinite for what none of them waits for.
        """
        job, edges, sums = self.job, self._edges, self._sums(weights)
        along, own = sums.stream, sums.own
        nodes = np.full(edges.nodes, np.inf)
        nodes[edges.of_block[self.block[ends]]] = end_ns
        nodes = self.backward(self._edge_weights(weights, sums), nodes)
        end = nodes[edges.of_block][self.block] - (along[self.block_last][self.block] - along)
        launched = np.flatnonzero(job.launch >= 0)
        point = np.full(job.line.size, np.inf)
        latest_launch = (end - weights.duration - weights.latency)[launched]
        np.minimum.at(point, job.launch[launched], latest_launch)
        ahead = point - own
        bounds = np.append(job.origins, job.line.size)
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            backward = ahead[first:last][::-1]
            np.minimum.accumulate(backward, out=backward)
        meeting = np.empty(job.meetings)
        meeting[edges.meetings] = nodes[edges.of_meeting]
        meeting[self.lone.meeting] = end[self.lone.finish] - weights.transfer[self.lone.place]
        return Times(ahead + own, end, meeting)

    @cached_property
    def positions(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Places of points, operations and meetings in an order that all edges follow."""
        edges = self._edges
        sizes = np.ones(edges.nodes, dtype=np.int64)
        segment_sizes = np.diff(np.append(self.segment_first, self.job.line.size))
        sizes[edges.of_segment] = segment_sizes
        takes = np.ones(self.block.size, dtype=np.int64)
        takes[self.lone.finish] += 1  # its meeting comes before it
        along = np.cumsum(takes)
        before = along[self.block_first] - takes[self.block_first]
        sizes[edges.of_block] = along[self.block_last] - before
        first = np.cumsum(sizes) - sizes
        point = np.arange(self.segment.size) - self.segment_first[self.segment]
        operation = along - 1 - before[self.block] + first[edges.of_block][self.block]
        meeting = np.empty(self.job.meetings, dtype=np.int64)
        meeting[edges.meetings] = first[edges.of_meeting]
        meeting[self.lone.meeting] = operation[self.lone.finish] - 1
        return point + first[edges.of_segment][self.segment], operation, meeting

    @property
    def kept(self) -> Kept:
        """Waits, dependencies and members of meetings that contradict no other edges."""
        return self._edges.kept

    def solve(self, weights: Weights) -> Times:
        """Time of every point, operation and meeting."""
        nodes, _ = self.forward(weights)
        return self.expanded(nodes, weights)

    def expanded(self, nodes: Float64Array, weights: Weights) -> Times:
        """Times of what is inside the nodes."""
        job, edges, sums = self.job, self._edges, self._sums(weights)
        met, lone = self.met, self.lone
        point = nodes[edges.of_segment][self.segment] + sums.host
        meeting = np.empty(job.meetings)
        meeting[edges.meetings] = nodes[edges.of_meeting]
        end = np.full(job.stream.size, -np.inf)
        launched = np.flatnonzero(job.launch >= 0)
        end[launched] = point[job.launch[launched]] + weights.latency[launched]
        after, source = job.after[self.kept.dependencies], job.source[self.kept.dependencies]
        delay = weights.delay[self.kept.dependencies]
        np.maximum.at(end, after, nodes[edges.of_block][self.block[source]] + delay)
        np.maximum.at(end, met.finish, meeting[met.meeting] + weights.transfer[met.place])
        end[lone.finish] = weights.earliest[lone.meeting] + weights.transfer[lone.place]
        end += weights.duration
        ahead = end - sums.stream
        bounds = np.append(np.flatnonzero(self.opens_stream), job.stream.size)
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            np.maximum.accumulate(ahead[first:last], out=ahead[first:last])
        end = ahead + sums.stream
        meeting[lone.meeting] = np.maximum(end[lone.arrival], weights.earliest[lone.meeting])
        return Times(point, end, meeting)

    def step_ends(self, nodes: Float64Array) -> Float64Array:
        """End of each step: of its last operation on any rank, and not before the previous step."""
        job = self.job
        ends = nodes[self._edges.of_block][self.block[job.last]]
        found = np.full(len(job.steps), -np.inf)
        np.maximum.at(found, job.last_step, ends)
        return np.maximum.accumulate(np.maximum(found, job.first_ns.min(initial=np.inf)))

    @cached_property
    def last_launches(self) -> Int64Array:
        """Last point of each rank and step that launches an operation, `NONE` if none does."""
        job = self.job
        own = np.flatnonzero((job.launch >= 0) & (job.step >= 0))
        own = own[np.argsort(job.point_ns[job.launch[own]], kind="stable")]
        found = np.full((len(job.ranks), len(job.steps)), NONE, dtype=np.int64)
        found[job.operation_rank[own], job.step[own]] = job.launch[own]
        return found

    def host_ns(self, weights: Weights) -> Float64Array:
        """Time (ns) of each host from the last launch of one step to that of the next.

        Shape (ranks, steps - 1), without waiting for the GPU; nan if a step has no launch, or its
        last one is on another line.
        """
        points, line = self.last_launches, self.job.line
        before, after = points[:, :-1], points[:, 1:]
        along = np.cumsum(weights.own)
        is_known = (before >= 0) & (after >= 0) & (line[before] == line[after])
        return np.where(is_known, along[after] - along[before], np.nan)

    def rank_ends(self, nodes: Float64Array) -> Float64Array:
        """End of the last step of each rank."""
        job = self.job
        ends = nodes[self._edges.of_block][self.block[job.last]]
        found = job.first_ns.copy()
        np.maximum.at(found, job.operation_rank[job.last], ends)
        return found


class _Members(NamedTuple):
    """Some members of meetings."""

    place: Int64Array
    """Position among all members."""
    arrival: Int64Array
    finish: Int64Array
    meeting: Int64Array

    @classmethod
    def of(cls, job: RecordedJob, chosen: Mask) -> _Members:
        place = np.flatnonzero(chosen)
        return cls(place, job.arrival[place], job.finish[place], job.meeting[place])


class _Edges(NamedTuple):
    """Edges between nodes, sorted by target in an order that puts causes before effects."""

    line: Int64Array
    stream: Int64Array
    launch: Int64Array
    """Segments with a previous one, blocks with a previous one, and blocks with a launch."""
    order: Int64Array
    """Position of each edge if the edges of all kinds were joined, kind by kind."""
    of_segment: Int64Array
    of_block: Int64Array
    meetings: Int64Array
    """Numbers of the meetings that are nodes, ascending."""
    of_meeting: Int64Array
    """Nodes of the segments, of the blocks, and of these meetings."""
    source: list[int]
    target: list[int]
    """Nodes at both ends of each edge, as lists for a loop."""
    dropped: int
    kept: Kept

    @property
    def nodes(self) -> int:
        return self.of_segment.size + self.of_block.size + self.of_meeting.size

    @classmethod
    def of(cls, network: Network) -> _Edges:
        job = network.job
        segments, blocks = network.segment_first.size, network.block_first.size
        met = network.met
        meetings, meeting = np.unique(met.meeting, return_inverse=True)
        line = np.flatnonzero(np.diff(job.line[network.segment_first], prepend=NONE) == 0)
        stream = np.flatnonzero(~network.opens_stream[network.block_first])
        is_launched = reduce_runs(np.logical_or, job.launch >= 0, network.block_first)
        launch = np.flatnonzero(is_launched)
        launched = np.flatnonzero(job.launch >= 0)
        segment_of = np.full(blocks, NONE)
        segment_of[network.block[launched]] = network.segment[job.launch[launched]]
        base, last = segments, segments + blocks
        pairs = (
            (line - 1, line),
            (base + network.block[job.awaited], network.segment[job.waiter]),
            (base + stream - 1, base + stream),
            (segment_of[launch], base + launch),
            (base + network.block[job.source], base + network.block[job.after]),
            (base + network.block[met.arrival], last + meeting),
            (last + meeting, base + network.block[met.finish]),
        )
        source = np.concatenate([each for each, _ in pairs])
        target = np.concatenate([each for _, each in pairs])
        kind = np.repeat(np.arange(len(pairs)), [each.size for each, _ in pairs])
        position, kept = _ordered(_recorded(network, meetings), source, target, kind)
        dropped = int(source.size - kept.size)
        bounds = np.cumsum([0, *(each.size for each, _ in pairs)])
        waits, dependencies, members = (kept[kind[kept] == each] - bounds[each] for each in _MAY_GO)
        members = np.sort(np.concatenate((met.place[members], network.lone.place)))
        source, target = position[source[kept]], position[target[kept]]
        by_target = np.argsort(target, kind="stable")
        number = list(range(position.size))  # shared: 9 MB less for 180 k edges, and in cache
        return cls(
            line=line,
            stream=stream,
            launch=launch,
            order=kept[by_target],
            of_segment=position[:segments],
            of_block=position[segments:last],
            meetings=meetings,
            of_meeting=position[last:],
            source=[number[each] for each in source[by_target].tolist()],
            target=[number[each] for each in target[by_target].tolist()],
            dropped=dropped,
            kept=Kept(waits, dependencies, members),
        )


def _numbers(first: Int64Array, count: int) -> Int32Array:
    """Number of the run that each of ``count`` items is in, given the first item of each run."""
    return np.repeat(np.arange(first.size, dtype=np.int32), np.diff(np.append(first, count)))


def _recorded(network: Network, meetings: Int64Array) -> Float64Array:
    """Recorded time of each node, by which they are ordered; ``meetings`` are those with a node."""
    job, member = network.job, network.met
    met = np.full(job.meetings, -np.inf)
    np.maximum.at(met, member.meeting, job.end_ns[member.arrival])
    ends = job.end_ns[network.block_last]
    block = network.block[member.finish]
    ends[block] = np.maximum(ends[block], met[member.meeting] + 2 * _LATER)
    points = job.point_ns[network.segment_first] + _LATER
    return np.concatenate((points, ends, met[meetings] + _LATER))


_MAY_GO: Final = (1, 4, 5)
"""Kinds of edges that may be dropped if they close a cycle: waits, dependencies and meetings."""


def _ordered(
    recorded: Float64Array, source: Int64Array, target: Int64Array, kind: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Position of each node in an order, and the edges that follow it; others are dropped."""
    order = np.argsort(recorded, kind="stable")
    position = np.empty(order.size, dtype=np.int64)
    position[order] = np.arange(order.size)
    everything = np.arange(source.size)
    goes_back = position[source] >= position[target]
    if not goes_back.any():
        return position, everything
    kept, may_go = everything, np.isin(kind, _MAY_GO)
    while True:
        position, stuck = _sorted(recorded, source[kept], target[kept])
        if not stuck.any():
            return position, kept
        closing = stuck[source[kept]] & stuck[target[kept]] & may_go[kept]
        back = closing & goes_back[kept]  # each cycle has one, which may be of a kind to keep
        kept = kept[~(back if back.any() else closing)]


def _sorted(
    recorded: Float64Array, source: Int64Array, target: Int64Array
) -> tuple[Int64Array, Mask]:
    """Kahn's order, earliest ready node first; and which nodes a cycle keeps out of it."""
    count = recorded.size
    waiting = np.bincount(target, minlength=count).tolist()
    by_source = np.argsort(source, kind="stable")
    bounds = np.searchsorted(source[by_source], np.arange(count + 1)).tolist()
    targets = target[by_source].tolist()
    times = recorded.tolist()
    ready = [(times[node], node) for node in range(count) if not waiting[node]]
    heapq.heapify(ready)
    position = np.full(count, NONE)
    place = 0
    while ready:
        _, node = heapq.heappop(ready)
        position[node] = place
        place += 1
        for after in targets[bounds[node] : bounds[node + 1]]:
            waiting[after] -= 1
            if not waiting[after]:
                heapq.heappush(ready, (times[after], after))
    return position, np.asarray(position == NONE)
