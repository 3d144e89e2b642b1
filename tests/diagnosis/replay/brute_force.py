"""The replay in plain Python: every variable a node, every constraint an edge, solved by sweeps.

Written from the specification of the replay, to be held beside it, and as slow as it is simple. It
shares no code with `hta_widgets.diagnosis.replay`. All times are ns on the job's aligned clock.

Nodes are tuples::

    (rank, row of a call, "start" | "end")           a point of a host line            H
    (rank, number of the line, "origin")             where a host line begins
    (rank, row)                                      the end of an operation           E
    (rank, row, "arrival"), (rank, row, "finish")    the two items of a collective     E
    (number, "meeting")                              where a collective's members meet M
    ("recording",)                                   time 0, for what is fixed
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from hta_widgets.analyses.time.patterns import BLOCKING
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.kernels import KernelType
from tests.diagnosis.replay.recording import (
    Call,
    JobRecording,
    Operation,
    RankRecording,
    SyncRow,
    read,
)

Node = tuple
RECORDING: Node = ("recording",)

US = 1_000
LATE_LAUNCH = 25 * US
LATE_START = 4 * US
ASKED_BEFORE = 100 * US
BY_TIME_BEFORE, BY_TIME_AFTER = 40 * US, 0.5 * US
USUAL_DELAY = 1.5 * US
FULL_QUEUE = 500

FREES = re.compile(r"Free(?!Async)|HostUnregister")
LOADS = re.compile(
    r"ModuleLoad|Library(?:Load|Get|Unload)|nvrtc|cuLink|FuncGetAttributes|hipModuleGet"
    r"|Occupancy|FuncSetAttribute"
)
COPIES = re.compile(r"Memcpy")
WITHIN_GPU = re.compile(r"DtoD|DeviceToDevice")
WAITS_FOR_STREAM = re.compile(r"StreamSynchronize")
WAITS_FOR_EVENT = re.compile(r"EventSynchronize")
STREAM_WAIT = re.compile(r"StreamWaitEvent")


class Edge(NamedTuple):
    """``target >= source + weight``; `Weights.of` says the weight."""

    kind: str
    source: Node
    target: Node


@dataclass
class Weights:
    """What is fixed in a replay; an edit changes some of it. An edge without a weight is none.

    Attributes
    ----------
    d : dict of point to ns
        Host work before the point.
    dur, gap, lat : dict of item to ns
    delay : dict of (source item, item) to ns
    ret : dict of (awaited item, point) to ns
    transfer : dict of finish to ns
    at : dict of node to ns
        Times that are fixed: origins of lines, starts of items that nothing recorded launches.
    """

    d: dict[Node, float] = field(default_factory=dict)
    dur: dict[Node, float] = field(default_factory=dict)
    gap: dict[Node, float] = field(default_factory=dict)
    lat: dict[Node, float] = field(default_factory=dict)
    delay: dict[tuple[Node, Node], float] = field(default_factory=dict)
    ret: dict[tuple[Node, Node], float] = field(default_factory=dict)
    transfer: dict[Node, float] = field(default_factory=dict)
    at: dict[Node, float] = field(default_factory=dict)

    def of(self, edge: Edge) -> float:
        """Weight of an edge; minus infinity if an edit removed it."""
        kind, source, target = edge
        tables = {
            "host": self.d,
            "stream": self.gap,
            "launch": self.lat,
            "dependency": self.delay,
            "wait": self.ret,
            "meeting": {target: 0},
            "transfer": self.transfer,
            "origin": self.at,
        }
        key = (source, target) if kind in {"dependency", "wait"} else target
        return tables[kind].get(key, -math.inf) + self.dur.get(target, 0)


@dataclass
class Graph:
    """All of a replay.

    Attributes
    ----------
    weights : Weights
    edges : list of Edge
    recorded : dict of node to ns
    own_until : dict of point to ns
        Until when the distance before the point is work of the host.
    waited : dict of point to bool
        Coupled calls, and whether they waited.
    unexplained, for_room, behind : dict of item to ns
        Too late for no reason that is seen, while other kernels run, and while they do after all
        that it is asked to wait for.
    unmatched : set of node
        Items that communicate without a recorded partner.
    ends : dict of rank to list of node
        Item with which each analysed step ends that all ranks have; `RECORDING` if nothing ran.
    start_ns : int
        Where the first step begins on the rank that is first.
    dropped : list of Edge
        Edges that closed a cycle.
    order : list of node
        Each after all that it depends on.
    """

    weights: Weights = field(default_factory=Weights)
    edges: list[Edge] = field(default_factory=list)
    recorded: dict[Node, float] = field(default_factory=dict)
    own_until: dict[Node, float] = field(default_factory=dict)
    waited: dict[Node, bool] = field(default_factory=dict)
    unexplained: dict[Node, float] = field(default_factory=dict)
    for_room: dict[Node, float] = field(default_factory=dict)
    behind: dict[Node, float] = field(default_factory=dict)
    unmatched: set[Node] = field(default_factory=set)
    lines: dict[int, list[list[Node]]] = field(default_factory=dict)
    operations: dict[Node, Operation] = field(default_factory=dict)
    ends: dict[int, list[Node]] = field(default_factory=dict)
    start_ns: int = 0
    dropped: list[Edge] = field(default_factory=list)
    order: list[Node] = field(default_factory=list)

    def add(self, kind: str, source: Node, target: Node) -> None:
        self.edges.append(Edge(kind, source, target))

    @property
    def unexplained_percent(self) -> float:
        """How much too late work starts in the steps, for no reason that is seen."""
        return self.percent_late(self.unexplained)

    def percent_late(self, late: Mapping[Node, float]) -> float:
        """Time by which some work in the steps is late, as a share of the steps of all ranks."""
        inside = (
            ns for item, ns in late.items() if self.operations[item[:2]].start > self.start_ns
        )
        return 100 * sum(inside) / self._steps_ns

    @property
    def unmatched_percent(self) -> float:
        """Length of communication without a recorded partner, as a share of the steps."""
        lengths = (self.operations[item].duration for item in self.unmatched)
        return 100 * sum(lengths) / self._steps_ns

    @property
    def _steps_ns(self) -> float:
        return step_ns(self) * len(next(iter(self.ends.values()))) * len(self.ends)

    @property
    def sinks(self) -> list[Node]:
        """End of the last analysed step of each rank."""
        return [ends[-1] for ends in self.ends.values()]

    def edited(self, edit: Callable[[Weights], object]) -> Graph:
        """The same with other weights: the function changes a copy of them."""
        weights = deepcopy(self.weights)
        edit(weights)
        return replace(self, weights=weights)


# Solving


def earliest(graph: Graph) -> dict[Node, float]:
    """Earliest time of each node: sweeps over all edges until nothing changes."""
    rank_of = {node: at for at, node in enumerate(graph.order)}
    edges = sorted(graph.edges, key=lambda edge: rank_of[edge.target])
    times = dict.fromkeys(graph.order, -math.inf) | {RECORDING: 0}
    for _ in range(len(graph.order) + 1):
        changed = False
        for edge in edges:
            time = times[edge.source] + graph.weights.of(edge)
            if time > times[edge.target]:
                times[edge.target] = time
                changed = True
        if not changed:
            return times
    msg = "the graph has a cycle"
    raise AssertionError(msg)


def latest(graph: Graph) -> dict[Node, float]:
    """Latest time of each node that keeps the end of the last step; infinite if it is free."""
    times = earliest(graph)
    end = max(times[sink] for sink in graph.sinks)
    rank_of = {node: at for at, node in enumerate(graph.order)}
    edges = sorted(graph.edges, key=lambda edge: -rank_of[edge.source])
    late = dict.fromkeys(graph.order, math.inf) | dict.fromkeys(graph.sinks, end)
    for _ in range(len(graph.order) + 1):
        changed = False
        for edge in edges:
            weight = graph.weights.of(edge)
            if weight > -math.inf and late[edge.target] - weight < late[edge.source]:
                late[edge.source] = late[edge.target] - weight
                changed = True
        if not changed:
            return late
    msg = "the graph has a cycle"
    raise AssertionError(msg)


def step_ns(graph: Graph, times: dict[Node, float] | None = None) -> float:
    """Length of a step: until the last rank's last step ends, divided by the steps."""
    times = earliest(graph) if times is None else times
    steps = len(next(iter(graph.ends.values())))
    return (max(_ends(graph, times)) - graph.start_ns) / steps


def _ends(graph: Graph, times: dict[Node, float]) -> Iterator[float]:
    for sink in graph.sinks:
        yield graph.start_ns if sink == RECORDING else times[sink]


def slack(graph: Graph) -> dict[Node, float]:
    """How much later each node may be without moving the end; infinite if nothing depends on it."""
    times, late = earliest(graph), latest(graph)
    return {node: late[node] - times[node] for node in graph.order if node != RECORDING}


def drag(graph: Graph, item: Node) -> float:
    """How much earlier the last step ends if one item takes no time."""

    def takes_no_time(weights: Weights) -> None:
        weights.dur[item] = 0

    before = max(_ends(graph, earliest(graph)))
    return before - max(_ends(graph, earliest(graph.edited(takes_no_time))))


PREFERRED = ("transfer", "meeting", "dependency", "wait", "launch", "stream", "host", "origin")


def critical_path(graph: Graph) -> list[Edge]:
    """Binding edges from the beginning to the end of the last step of the latest rank."""
    times = earliest(graph)
    into = defaultdict(list)
    for edge in graph.edges:
        into[edge.target].append(edge)
    node = max(graph.sinks, key=lambda sink: times[sink])
    path: list[Edge] = []
    while node != RECORDING:
        binding = max(
            into[node],
            key=lambda edge: (
                times[edge.source] + graph.weights.of(edge),
                -PREFERRED.index(edge.kind),
            ),
        )
        path.append(binding)
        node = binding.source
    return path[::-1]


def critical_length_ns(graph: Graph) -> float:
    """Sum of the weights on the critical path."""
    return sum(graph.weights.of(edge) for edge in critical_path(graph))


# Building


def graph(job: Job, ranks: Iterable[int] | None = None, *, peers_fixed: bool = False) -> Graph:
    """The replay of a job as it was recorded.

    Parameters
    ----------
    job : Job
    ranks : iterable of int, optional
    peers_fixed : bool
        Communication without a recorded partner may not end earlier than recorded.
    """
    recording = read(job, ranks)
    built = Graph()
    built.recorded[RECORDING] = 0
    meeting = _collectives(recording)
    for number, members in enumerate(meeting):
        _add_meeting(built, number, members)
    matched = {(each.rank, each.row) for members in meeting for each in members}
    for rank in recording.ranks.values():
        for each in rank.operations:
            built.operations[each.rank, each.row] = each
            communicates = each.type == KernelType.COMMUNICATION
            if communicates and (each.rank, each.row) not in matched:
                built.unmatched.add((each.rank, each.row))
                if peers_fixed:
                    _add_fixed_peers(built, each)
        waits = _waits(rank)
        _add_lines(built, rank, waits)
        _add_items(built, rank)
        for call, wait in waits.items():
            for each in wait.awaited:
                awaited, point = _end_of(built, each), (call.rank, call.row, "end")
                built.add("wait", awaited, point)
                built.weights.ret[awaited, point] = wait.ret
    _add_steps(built, recording)
    _put_in_order(built)
    return built


def _is_split(built: Graph, each: Operation) -> bool:
    return (each.rank, each.row, "finish") in built.recorded


def _end_of(built: Graph, each: Operation) -> Node:
    """Item whose end is that of an operation."""
    return (each.rank, each.row, "finish") if _is_split(built, each) else (each.rank, each.row)


def _start_of(built: Graph, each: Operation) -> Node:
    """Item that starts as an operation does."""
    return (each.rank, each.row, "arrival") if _is_split(built, each) else (each.rank, each.row)


def quantile(values: Iterable[float], share: float) -> float:
    """Quantile, between two values in proportion."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


# 1.5 Ranks


def _collectives(recording: JobRecording) -> list[list[Operation]]:
    """Members of each collective whose members meet."""
    by_key = {
        (each.rank, each.row): each
        for rank in recording.ranks.values()
        for each in rank.operations
        if rank.rank not in recording.contradictory
    }
    known = [[by_key[key] for key in keys if key in by_key] for keys in recording.collectives]
    taken = {(each.rank, each.row) for members in known if len(members) > 1 for each in members}
    rest = [
        each
        for key, each in by_key.items()
        if each.type == KernelType.COMMUNICATION and key not in taken
    ]
    ranks = [rank for rank in recording.ranks if rank not in recording.contradictory]
    found = []
    for members in [*known, *_of_one_name(rest, ranks)]:
        last = max((each.start for each in members), default=0)
        after = [each for each in members if each.end >= last]
        if len(after) > 1:
            found.append(after)
    return found


def _of_one_name(kernels: list[Operation], ranks: list[int]) -> list[list[Operation]]:
    """Kernels of one name, as many on every rank, that look as if they met."""
    found = []
    for name in sorted({each.name for each in kernels}):
        of_name = sorted(
            (each for each in kernels if each.name == name), key=lambda each: (each.start, each.row)
        )
        runs = [[each for each in of_name if each.rank == rank] for rank in ranks]
        if len(runs) < 2 or len({len(run) for run in runs}) > 1:
            continue
        together = [list(members) for members in zip(*runs, strict=True)]
        alike = sum(map(_seem_to_meet, together))
        if alike >= 0.9 * len(together):
            found += together
    return found


def _seem_to_meet(members: list[Operation]) -> bool:
    ends = [each.end for each in members]
    longest = max(each.duration for each in members)
    all_begun = max(each.start for each in members) <= min(ends)
    return all_begun and max(ends) - min(ends) <= max(20 * US, 0.02 * longest)


def _add_meeting(built: Graph, number: int, members: list[Operation]) -> None:
    meeting = (number, "meeting")
    built.recorded[meeting] = max(each.start for each in members)
    for each in members:
        _split(built, each)
        arrival, finish = _start_of(built, each), _end_of(built, each)
        built.add("meeting", arrival, meeting)
        built.add("transfer", meeting, finish)
        built.weights.transfer[finish] = each.end - built.recorded[meeting]


def _add_fixed_peers(built: Graph, each: Operation) -> None:
    """A meeting with ranks that are not recorded, which are not there before it began."""
    _split(built, each)
    meeting = (each.rank, each.row, "meeting")
    built.recorded[meeting] = each.start
    built.add("meeting", _start_of(built, each), meeting)
    built.add("origin", RECORDING, meeting)
    built.weights.at[meeting] = each.start
    built.add("transfer", meeting, _end_of(built, each))
    built.weights.transfer[_end_of(built, each)] = each.duration


def _split(built: Graph, each: Operation) -> None:
    """Two items for one operation: it arrives, and it finishes."""
    arrival, finish = (each.rank, each.row, "arrival"), (each.rank, each.row, "finish")
    built.recorded |= {arrival: each.start, finish: each.end}
    built.weights.dur |= {arrival: 0, finish: 0}
    built.weights.gap[finish] = 0
    built.add("stream", arrival, finish)


# 1.3 Which calls wait, for what


@dataclass
class Wait:
    """What a call that may wait waits for, and what it does itself."""

    awaited: list[Operation]
    waited: bool
    own: float = 0
    ret: float = 0


def _waits(rank: RankRecording) -> dict[Call, Wait]:
    """The coupled calls: candidates that wait for some item."""
    launching = {each.launch for each in rank.operations if each.launch is not None}
    candidates = _candidates(rank, launching)
    found: dict[Call, Wait] = {}
    usual_launch = median(call.duration for call in launching) if launching else 0
    for call in candidates:
        awaited = _awaited(rank, call, launching)
        if awaited:
            ended = max(each.end for each in awaited)
            found[call] = Wait(awaited, waited=ended > call.start)
    for call, wait in found.items():
        idle = [
            each.duration
            for each in candidates
            if each.name == call.name and not (each in found and found[each].waited)
        ]
        usual = quantile(idle, 0.1) if len(idle) >= 3 else 4 * US
        is_launch = call in launching and not COPIES.search(call.name)
        wait.own = min(call.duration, usual_launch if is_launch else usual)
        returns = [
            each.end - max(one.end for one in other.awaited)
            for each, other in found.items()
            if each.name == call.name and other.waited
        ]
        recorded = call.end - max(one.end for one in wait.awaited)
        usual = quantile(returns, 0.1) if returns else 3 * US
        wait.ret = recorded if wait.waited else min(usual, recorded)
    return found


def _candidates(rank: RankRecording, launching: set[Call]) -> list[Call]:
    threads = {call.thread for call in launching}
    runtime = [call for call in rank.calls if not call.is_driver]
    return [
        call
        for call in rank.calls
        if call.thread in threads
        and (
            call in launching
            or BLOCKING.search(call.name)
            or FREES.search(call.name)
            or (LOADS.search(call.name) and call.duration > 1_000 * US)
        )
        and not (call.is_driver and any(each.around(call) for each in runtime))
    ]


def _awaited(rank: RankRecording, call: Call, launching: set[Call]) -> list[Operation]:
    """Operations that a call waits for; those that end after it contradict that."""
    until = call.end + _tolerance(rank)
    if call in launching and COPIES.search(call.name):
        return _own_copy(rank, call, until)
    if call in launching and not (BLOCKING.search(call.name) or FREES.search(call.name)):
        return _room_in_queue(rank, call, until)
    if WAITS_FOR_EVENT.search(call.name):
        return _latest_inside([each for _, each in _launched_before(rank, call)], call, until)
    if WAITS_FOR_STREAM.search(call.name) or COPIES.search(call.name):
        return _last_of_its_stream(rank, call, until)
    last = [*_last_of_streams(rank, call).values()]
    ended = [each for each in last if each.end <= until]
    if LOADS.search(call.name):
        is_soon = call.start < max((each.end for each in last), default=0) >= call.end - 100 * US
        return last if is_soon and len(ended) == len(last) else []
    return [] if FREES.search(call.name) and len(ended) < len(last) else ended


def _own_copy(rank: RankRecording, call: Call, until: float) -> list[Operation]:
    """The copy that a call launches, if it returns when that is done, or nearly."""
    copy = max((each for each in rank.operations if each.launch == call), key=lambda one: one.end)
    if "Async" in call.name and call.duration <= 15 * US:
        return []
    early = min(10 * US, 0.2 * copy.duration) if call.duration <= 50 * US else 0.5 * copy.duration
    return [copy] if copy.end <= max(until, call.end + early) else []


def _room_in_queue(rank: RankRecording, call: Call, until: float) -> list[Operation]:
    """What makes room for a launch in a full queue."""
    before = [each for _, each in _launched_before(rank, call)]
    in_flight = sum(each.end > call.start for each in before)
    is_held_up = call.duration > 50 * US and in_flight >= FULL_QUEUE
    return _latest_inside(before, call, until) if is_held_up else []


def _last_of_its_stream(rank: RankRecording, call: Call, until: float) -> list[Operation]:
    """The last item of the stream that a call waits for, else of one that fits."""
    last = _last_of_streams(rank, call)
    if not last:
        return []
    asked = _stream_asked_for(rank, call)
    if asked is None:
        before = _launched_before(rank, call)
        of_stream = [last[max(before, key=lambda pair: (pair[0], pair[1].start))[1].stream]]
    else:
        of_stream = [each for stream, each in last.items() if stream[1] == asked]
    if not of_stream or of_stream[0].end <= until:
        return of_stream
    fitting = [each for each in last.values() if each.end <= until]
    return [max(fitting, key=lambda each: each.end)] if fitting else []


def _latest_inside(some: list[Operation], call: Call, until: float) -> list[Operation]:
    inside = [each for each in some if call.start < each.end <= until]
    return [max(inside, key=lambda each: each.end)] if inside else []


def _launched_before(rank: RankRecording, call: Call) -> list[tuple[float, Operation]]:
    """Items launched before a call began, with the time of it, in order of their streams."""
    launched = rank.launched_at
    return [(launched[each], each) for each in rank.operations if launched[each] < call.start]


def _last_of_streams(rank: RankRecording, call: Call) -> dict[tuple[int, int], Operation]:
    """The last item of each stream that was launched before a call began."""
    return {each.stream: each for _, each in _launched_before(rank, call)}


def _stream_asked_for(rank: RankRecording, call: Call) -> int | None:
    """Stream of the sync row of a call, which need not say the device."""
    for sync in rank.syncs:
        if sync.call == call and sync.stream[1] >= 0:
            return sync.stream[1]
    return None


# 1.1 Host lines and d


def _add_lines(built: Graph, rank: RankRecording, waits: dict[Call, Wait]) -> None:
    launching = {each.launch for each in rank.operations if each.launch is not None}
    first_gpu = min(each.start for each in rank.operations)
    built.lines[rank.rank] = []
    for number, threads in enumerate(_lines(launching | waits.keys())):
        points = [
            (call.start, 1, (call.rank, call.row, "start"), call)
            for call in launching
            if call.thread in threads
        ]
        points += [
            (call.end, 0, (call.rank, call.row, "end"), call)
            for call in waits
            if call.thread in threads
        ]
        points.sort(key=lambda each: each[:3])
        mark = first_gpu if rank.first_mark is None else rank.first_mark
        origin = (rank.rank, number, "origin")
        before_ns = min(points[0][0], mark)
        built.recorded[origin] = before_ns
        built.add("origin", RECORDING, origin)
        built.weights.at[origin] = before_ns
        before = origin
        built.lines[rank.rank].append([origin, *(point for _, _, point, _ in points)])
        for time, is_start, point, call in points:
            distance = time - before_ns
            if not is_start:
                wait = waits[call]
                built.waited[point] = wait.waited
                if wait.waited:
                    distance = min(max(call.start + wait.own - before_ns, 0), distance)
            built.recorded[point] = time
            built.weights.d[point] = distance
            built.own_until[point] = before_ns + distance
            built.add("host", before, point)
            before, before_ns = point, time


def _lines(calls: Iterable[Call]) -> list[set[tuple[int, int]]]:
    """Threads of each host line: all that hand over to each other."""
    by_thread = defaultdict(list)
    for call in calls:
        by_thread[call.thread].append(call)
    found: list[set[tuple[int, int]]] = []
    for thread in sorted(by_thread, key=lambda thread: (-len(by_thread[thread]), thread)):
        own = by_thread[thread]
        for line in found:
            others = [call for other in line for call in by_thread[other]]
            clashes = sum(any(_overlap(call, other) > US for other in others) for call in own)
            if clashes <= max(3, 0.01 * len(own)):
                line.add(thread)
                break
        else:
            found.append({thread})
    return found


def _overlap(one: Call, other: Call) -> int:
    return min(one.end, other.end) - max(one.start, other.start)


# 1.2 Items


def _add_items(built: Graph, rank: RankRecording) -> None:
    before: dict[Node, Operation] = {}
    for one, other in pairwise(rank.operations):
        if one.stream == other.stream:
            before[other.rank, other.row] = one
    of_call = defaultdict(list)
    for each in rank.operations:
        if each.launch is not None:
            of_call[each.launch].append(each)
    usual = _Usual.of(rank, before)
    asked = _asked_dependencies(rank)
    has_host = bool(of_call)
    seen_launched: Counter[tuple[int, int]] = Counter()
    for each in rank.operations:
        previous = before.get((each.rank, each.row))
        _add_item(built, each, previous)
        if each.launch is None:
            if not has_host or not seen_launched[each.stream]:
                _tie_to_recording(built, each, previous)
            else:
                _tie_to_host(built, rank, each, previous, usual)
            continue
        seen_launched[each.stream] += 1
        first = min(one.start for one in of_call[each.launch])
        if each.start == first:
            _place_launched(built, rank, each, previous, usual, sources=asked.get(each, []))
        else:
            _place_later_of_graph(built, rank, each, previous, usual)
    _explain_by_room(built, rank)


def _explain_by_room(built: Graph, rank: RankRecording) -> None:
    """Not unexplained is what waits while others run on its GPU, for 90 % of the time."""
    for each in filter(_takes_room, rank.operations):
        item = _start_of(built, each)
        late = built.unexplained.get(item)
        if late is not None and _is_filled(rank, each, each.start - late):
            built.for_room[item] = built.unexplained.pop(item)


def _takes_room(each: Operation) -> bool:
    return each.type != KernelType.MEMORY or bool(WITHIN_GPU.search(each.name))


def _is_filled(rank: RankRecording, each: Operation, since: float) -> bool:
    """Whether others run on the GPU of one for 90 % of the time from then until it starts."""
    filled, reached = 0.0, since
    for other in sorted(filter(_takes_room, rank.operations), key=lambda one: one.start):
        if other.stream[0] == each.stream[0] and other is not each:
            begun = max(other.start, reached)
            reached = max(reached, min(other.end, each.start))
            filled += max(reached - begun, 0)
    return filled >= 0.9 * (each.start - since)


@dataclass
class _Usual:
    lat0: float
    gap0: float

    @classmethod
    def of(cls, rank: RankRecording, before: dict[Node, Operation]) -> _Usual:
        idle, gaps, first = [], [], {}
        for each in rank.operations:
            first[each.launch] = min(first.get(each.launch, each.start), each.start)
        for each in rank.operations:
            previous = before.get((each.rank, each.row))
            if each.launch is not None and (previous is None or previous.end <= each.launch.start):
                idle.append(each.start - each.launch.start)
            if previous is not None and 0 <= each.start - previous.end <= LATE_START:
                begins = each.launch is not None and each.start == first[each.launch]
                waited = each.start - each.launch.start if begins else math.inf
                gaps.append((each.start - previous.end, waited))
        lat0 = quantile(idle, 0.1) if len(idle) >= 5 else 5 * US
        # what starts as soon as it is launched does not tell what the GPU needs between two
        queued = [gap for gap, waited in gaps if waited > 1.25 * lat0]
        usual = [gap for gap, _ in gaps] if len(queued) >= 5 else queued
        return cls(lat0, median(usual) if usual else 1 * US)


def _add_item(built: Graph, each: Operation, previous: Operation | None) -> None:
    item = _start_of(built, each)
    if not _is_split(built, each):
        built.recorded[item] = each.end
        built.weights.dur[item] = each.duration
    if previous is not None:
        built.add("stream", _end_of(built, previous), item)


def _place_launched(
    built: Graph,
    rank: RankRecording,
    each: Operation,
    previous: Operation | None,
    usual: _Usual,
    *,
    sources: list[Operation],
) -> None:
    item, weights = _start_of(built, each), built.weights
    lat = each.start - each.launch.start
    least_lat = min(usual.lat0, lat)
    built.add("launch", (each.rank, each.launch.row, "start"), item)
    weights.lat[item] = least_lat
    is_launch = True
    if previous is not None:
        gap = each.start - previous.end
        least_gap = min(usual.gap0, gap)
        weights.gap[item] = least_gap
        is_launch = each.launch.start + least_lat >= previous.end + least_gap
    for source in sources:
        _depend(built, each, source, min(USUAL_DELAY, each.start - source.end))
    excess = lat - LATE_LAUNCH if is_launch else gap - LATE_START
    if excess > 0:
        recent = [one for one in sources if 0 <= each.start - one.end <= ASKED_BEFORE]
        if not recent and _takes_room(each):
            ready = max(each.launch.start, -math.inf if previous is None else previous.end)
            recent = [
                one
                for one in sources
                if ready < one.end <= each.start and _is_filled(rank, each, one.end)
            ]
            if recent:
                built.behind[item] = excess
        source = max(recent, key=lambda one: one.end) if recent else _by_time(rank, each)
        if source is not None:
            _depend(built, each, source, each.start - source.end)
            return
        built.unexplained[item] = excess
    if is_launch:
        weights.lat[item] = lat
    else:
        weights.gap[item] = gap


def _place_later_of_graph(
    built: Graph, rank: RankRecording, each: Operation, previous: Operation | None, usual: _Usual
) -> None:
    """An item of a call with several that does not start first."""
    item, weights = _start_of(built, each), built.weights
    gap = math.inf if previous is None else each.start - previous.end
    if gap <= LATE_START:
        weights.gap[item] = gap
        return
    source = _by_time(rank, each)
    if previous is not None:
        weights.gap[item] = gap if source is None else min(usual.gap0, gap)
    if source is not None:
        _depend(built, each, source, each.start - source.end)
    elif previous is not None:
        built.unexplained[item] = gap - LATE_START
    else:
        lat = each.start - each.launch.start
        built.add("launch", (each.rank, each.launch.row, "start"), item)
        weights.lat[item] = lat
        if lat > LATE_LAUNCH:
            built.unexplained[item] = lat - LATE_LAUNCH


def _tie_to_recording(built: Graph, each: Operation, previous: Operation | None) -> None:
    """An item that was launched before the recording began, or without a recorded host."""
    item = _start_of(built, each)
    if previous is not None:
        gap = built.weights.gap[item] = each.start - previous.end
        if gap > LATE_START:
            built.unexplained[item] = gap - LATE_START
        return
    built.add("origin", RECORDING, item)
    built.weights.at[item] = each.start


def _tie_to_host(
    built: Graph, rank: RankRecording, each: Operation, previous: Operation, usual: _Usual
) -> None:
    """An item that a call launched which the trace lacks."""
    item, weights = _start_of(built, each), built.weights
    gap = each.start - previous.end
    weights.gap[item] = gap
    if gap <= LATE_START:
        return
    source = _by_time(rank, each)
    if source is not None:
        weights.gap[item] = min(usual.gap0, gap)
        _depend(built, each, source, each.start - source.end)
        return
    points = [point for line in built.lines[rank.rank] for point in line]
    earlier = [point for point in points if built.recorded[point] <= each.start - usual.lat0]
    if earlier:
        point = max(earlier, key=lambda point: (built.recorded[point], points.index(point)))
        weights.gap[item] = min(usual.gap0, gap)
        built.add("launch", point, item)
        weights.lat[item] = each.start - built.recorded[point]


def _by_time(rank: RankRecording, each: Operation) -> Operation | None:
    """The item of another stream that ended last just before an item started."""
    ended = [
        one
        for one in rank.operations
        if one.stream != each.stream
        and each.start - BY_TIME_BEFORE <= one.end <= each.start + BY_TIME_AFTER
    ]
    return max(ended, key=lambda one: one.end) if ended else None


def _depend(built: Graph, each: Operation, source: Operation, delay: float) -> None:
    item, other = _start_of(built, each), _end_of(built, source)
    if (other, item) not in built.weights.delay:
        built.add("dependency", other, item)
    built.weights.delay[other, item] = delay


# 1.4 Dependencies between streams


def _asked_dependencies(rank: RankRecording) -> dict[Operation, list[Operation]]:
    """Items that the calls ask an item to wait for, if the times do not contradict."""
    waits = [sync for sync in rank.syncs if sync.name == "Stream Wait Event"]
    if any(sync.recorded_by is not None for sync in waits):
        asked = list(_recorded_dependencies(rank, waits))
    else:
        asked = list(_likely_dependencies(rank))
    found = defaultdict(list)
    for each, source in asked:
        if source.end <= each.start + _tolerance(rank) and source not in found[each]:
            found[each].append(source)
    return found


def _tolerance(rank: RankRecording) -> int:
    return US + 2 * rank.resolution_ns


def _recorded_dependencies(
    rank: RankRecording, waits: list[SyncRow]
) -> Iterator[tuple[Operation, Operation]]:
    for sync in waits:
        if sync.recorded_by is None:
            continue
        after = [
            each
            for each in rank.operations
            if each.stream == sync.stream and rank.launched_at[each] > sync.call.start
        ]
        before = [
            each
            for _, each in _launched_before(rank, sync.recorded_by)
            if each.stream == sync.wait_on_stream
        ]
        if after and before and sync.stream != sync.wait_on_stream:
            yield after[0], before[-1]


def _likely_dependencies(rank: RankRecording) -> Iterator[tuple[Operation, Operation]]:
    """Sources of launches before which a call asks a stream to wait, not saying for what."""
    launching = {each.launch for each in rank.operations if each.launch is not None}
    computing: Counter[tuple[int, int]] = Counter()
    for each in rank.operations:
        if each.type == KernelType.COMPUTATION:
            computing[each.stream] += each.duration
    main = max(computing, key=lambda stream: computing[stream]) if computing else None
    asking = [call for call in rank.calls if STREAM_WAIT.search(call.name)]
    for threads in _lines(launching | _waits(rank).keys()):
        ordered = sorted(
            (call for call in launching if call.thread in threads),
            key=lambda call: (call.start, call.row),
        )
        for previous, call in zip([None, *ordered], ordered, strict=False):
            if not any(
                wait.thread in threads
                and wait.start < call.start
                and (previous is None or wait.start > previous.start)
                for wait in asking
            ):
                continue
            for each in rank.operations:
                if each.launch == call:
                    source = _likely_source(rank, each, main)
                    if source is not None:
                        yield each, source


def _likely_source(
    rank: RankRecording, each: Operation, main: tuple[int, int] | None
) -> Operation | None:
    before = [one for _, one in _launched_before(rank, each.launch) if one.stream != each.stream]
    if each.type == KernelType.COMMUNICATION:
        of_main = [one for one in before if one.stream == main]
        return of_main[-1] if of_main else None
    last = {one.stream: one for one in before}
    ended = [one for one in last.values() if one.end <= each.start + _tolerance(rank)]
    return max(ended, key=lambda one: rank.launched_at[one], default=None)


# 3 Steps


def _add_steps(built: Graph, recording: JobRecording) -> None:
    common = set.intersection(*({*rank.edges} for rank in recording.ranks.values()))
    starts = []
    for rank in recording.ranks.values():
        edges = {number: rank.edges[number] for number in sorted(common)}
        if not edges:
            bounds = [*rank.edges.values()]
            edges = {-1: (bounds[0][0], bounds[-1][1])}
        starts.append(min(start for start, _ in edges.values()))
        built.ends[rank.rank] = [_item_of_end(built, rank, end) for _, end in edges.values()]
    built.start_ns = min(starts)


def _item_of_end(built: Graph, rank: RankRecording, end: int) -> Node:
    """The item with which a step ends."""
    on_device = [each for each in rank.operations if each.stream[0] == rank.device]
    ending = [each for each in on_device if each.end == end]
    computing = [
        each for each in ending if each.type in {KernelType.COMPUTATION, KernelType.CUDA_GRAPH}
    ]
    found = computing or ending
    return _end_of(built, found[-1]) if found else RECORDING


# 2.3 Order


def _put_in_order(built: Graph) -> None:
    """Order the nodes, and drop what closes a cycle: dependencies, waits and meetings."""
    waiting_for: dict[Node, list[Edge]] = {node: [] for node in built.recorded}
    leading_to: dict[Node, list[Edge]] = {node: [] for node in built.recorded}
    for edge in built.edges:
        waiting_for[edge.target].append(edge)
        leading_to[edge.source].append(edge)
    left = {node: len(edges) for node, edges in waiting_for.items()}
    numbers = {node: number for number, node in enumerate(built.recorded)}
    heap = [(built.recorded[node], numbers[node], node) for node in left if not left[node]]
    heapq.heapify(heap)
    done: set[Node] = set()
    while len(done) < len(left):
        if not heap:
            _drop(built, waiting_for, left, done)
            heap = [
                (built.recorded[node], numbers[node], node)
                for node in left
                if not left[node] and node not in done
            ]
            heapq.heapify(heap)
        _, _, node = heapq.heappop(heap)
        done.add(node)
        built.order.append(node)
        for edge in leading_to[node]:
            if edge in built.dropped:
                continue
            left[edge.target] -= 1
            if not left[edge.target]:
                heapq.heappush(
                    heap, (built.recorded[edge.target], numbers[edge.target], edge.target)
                )
    built.edges = [edge for edge in built.edges if edge not in built.dropped]


def _drop(
    built: Graph, waiting_for: dict[Node, list[Edge]], left: dict[Node, int], done: set[Node]
) -> None:
    for node in sorted(set(left) - done, key=lambda node: built.recorded[node]):
        missing = [edge for edge in waiting_for[node] if edge.source not in done]
        if all(edge.kind in {"dependency", "wait", "meeting"} for edge in missing):
            built.dropped += missing
            left[node] = 0
            return
    msg = "a cycle of edges that cannot be left out"
    raise AssertionError(msg)
