"""Which calls own the idle time of a rank, where it is longest, and what drained the GPU."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.budget.device_steps import (
    GAP,
    HOST_GAPS,
    HostGaps,
    blocking_calls,
    calls_around,
    touched,
)
from hta_widgets.analyses.budget.idle_gaps import STRETCH_NS, gaps_of
from hta_widgets.analyses.budget.idle_segments import NOBODY, IdleSegments
from hta_widgets.analyses.flame.trees import CallTree, Weights, call_tree
from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.calls import Calls, calls_of
from hta_widgets.analyses.time.causes import NO_CALL
from hta_widgets.analyses.time.modules import MODULE
from hta_widgets.analyses.time.patterns import AUTOGRAD_THREAD
from hta_widgets.arrays import Float64Array, Int64Array, IntArray, Mask
from hta_widgets.diagnosis.facts.conditions import OWNER_PATTERNS, Condition
from hta_widgets.grouping import distinct, grouped, numbered
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.model.events import LAUNCH_CALLS, Kind
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.cpu_samples import cpu_samples
from hta_widgets.trace.ranks.rank import Rank

COPY_PATTERNS: Final = {
    Condition.PAGEABLE: re.compile("Pageable"),
    Condition.PINNED: re.compile("Pinned"),
    Condition.TO_HOST: patterns.DEVICE_TO_HOST,
    Condition.TO_DEVICE: patterns.HOST_TO_DEVICE,
}
"""What the name of a copy between host and device shows."""


def conditions_of_drains(
    rank: Rank, drain: IntArray, operator: IntArray, length_ns: Times
) -> frozenset[Condition]:
    """Conditions that are true of the calls behind more than half of some idle time.

    They show what drains the GPU: a copy, in either direction, or the end of a step. Pinned memory
    is no advice for copies from pinned memory, nor for a call that only times a step.

    For each piece of idle time, `drain` is the place of the call that waited before it, and
    `operator` that of the outermost operator directly around this call, or the call itself.
    """
    copy = _copies(rank, drain, operator)
    names = np.append(rank.gpu_work.name, -1)[copy]
    known = [*enumerate(rank.gpu_work.names)]
    held = {
        condition: np.isin(names, [code for code, name in known if pattern.search(name)])
        for condition, pattern in COPY_PATTERNS.items()
    }
    held[Condition.ENDS_STEP] = _end_steps(rank, drain)
    return frozenset(
        condition for condition, mask in held.items() if 2 * length_ns[mask].sum() > length_ns.sum()
    )


def _copies(rank: Rank, drain: Int64Array, operator: Int64Array) -> Int64Array:
    """Position of the last copy launched in each operator before its waiting call ends.

    One call launches a copy to the host, another one waits for it. -1 for none.
    """
    calls, work, events = calls_of(rank), rank.gpu_work, rank.trace.events
    chosen = np.flatnonzero((work.launch >= 0) & (work.type == KernelType.MEMORY))
    asked_ns = events.start_ns[work.launch[chosen]]
    order = np.argsort(asked_ns, kind="stable")
    chosen, asked_ns = chosen[order], asked_ns[order]
    rows = calls.forest.rows[drain]
    end_ns = events.start_ns[rows] + events.duration_ns[rows]
    last = np.searchsorted(asked_ns, end_ns) - 1
    is_inside = np.append(asked_ns, 0)[last] >= calls.start_ns[operator]
    return np.where((drain >= 0) & (last >= 0) & is_inside, np.append(chosen, -1)[last], -1)


def _end_steps(rank: Rank, drain: Int64Array) -> Mask:
    """Which calls have a step boundary between the launches before and after them."""
    calls, marks, events = calls_of(rank), rank.steps, rank.trace.events
    bounds = np.sort(np.concatenate((marks.start_ns, marks.end_ns)))
    launches = rank.launches
    starts = np.sort(events.start_ns[distinct(launches[launches >= 0])])
    ends = (np.iinfo(np.int64).min, np.iinfo(np.int64).max)
    starts = np.concatenate((ends[:1], starts, ends[1:]))
    after = np.searchsorted(starts, calls.start_ns[drain], side="right")
    until = np.searchsorted(bounds, starts[after])
    return (drain >= 0) & (np.searchsorted(bounds, starts[after - 1]) < until)


_OF_TORCHSCRIPT: Final = re.compile(r"^fallback_function$")
"""The operator around what TorchScript's fuser has compiled, in all calls after the first."""

_OF_INDUCTOR: Final = re.compile(r"^triton_(?:poi|red|per|tem|for)_fused_")

CODE_OF_USERS: Final = re.compile(
    r"^(?!.*\b(?:torch|hta_widgets/recording)/|<)(?=.*\.py\(\d+\))|^nn\.Module: "
)
"""Frames of modules, and of Python functions outside PyTorch and the recorder."""

_TOP_PACKAGE: Final = re.compile(r"(?:.*/lib/python[\d.]+/)?([\w-]+)")


def is_line_of_users(name: str) -> bool:
    """Whether a frame, by its name, is a function outside PyTorch and Python's own library.

    Waiting for a worker process happens in Python's library, but belongs to the line that waits.

    Examples
    --------
    >>> is_line_of_users("train.py(12): step"), is_line_of_users("transformers/trainer.py(9): fit")
    (True, True)
    >>> is_line_of_users("queue.py(9): get"), is_line_of_users("/lib/python3.13/json/tool.py(3): f")
    (False, False)
    >>> is_line_of_users("/lib/python3.13/site-packages/datasets/load.py(3): f")
    True
    >>> is_line_of_users("torch/nn/functional.py(8): linear"), is_line_of_users("nn.Module: Net_0")
    (False, False)
    >>> is_line_of_users("hta_widgets/recording/script.py(60): step")  # of ``hta-widgets run``
    False
    """
    is_code = CODE_OF_USERS.search(name) and not MODULE.search(name)
    return bool(is_code) and not is_in_standard_library(name)


def is_in_standard_library(name: str) -> bool:
    """Whether a frame, by its name, is a function of Python's own library.

    Examples
    --------
    >>> is_in_standard_library("queue.py(154): get"), is_in_standard_library("my_queue.py(9): get")
    (True, False)
    """
    found = _TOP_PACKAGE.match(name)
    return ".py(" in name and found is not None and found[1] in sys.stdlib_module_names


LOADERS: Final = {
    "single": re.compile(r"_SingleProcessDataLoaderIter"),
    "workers": re.compile(r"_MultiProcessingDataLoaderIter"),
}

MOST_LISTED: Final = 5

MOST_OF_THE_TIME: Final = 0.5
"""A call that takes this share of the time holds most of what happens, whatever it does."""

LITTLE_WORK: Final = 0.1
"""A call that takes most of the time, but in which the GPU does less than this share of its work,
is no loop: a compilation of 400 ms between two of a server's 29 steps."""

MAKES_VIEWS: Final = re.compile(
    r"^(?:aten::(?:alias|as_strided|chunk|detach_?|diagonal|expand(?:_as)?|narrow|permute|reshape"
    r"|_reshape_alias|select|slice|split(?:_with_sizes)?|squeeze|t|transpose|unbind|unflatten\w*"
    r"|unfold|_unsafe_view|unsqueeze|view(?:_as)?)|detach_?)$"
)
"""Operators that read and write no elements, wherever their inputs are: for views of 106 buffers of
DDP, which are on the GPU, they took 15 ms."""


EVERY: Final = "gap_host"
"""All idle time that the host decides, of any kind: one function may cause every kind, as when DDP
copies its buffers in many small kernels, waits, and pauses."""


READS: Final = "reads"
"""Idle time of a late host in operators that wait for a number from the GPU, or for sizes that
depend on its values: 149 times in a step that looked for NaN in each gradient."""


LATE: Final = ("gap_op", "gap_sync")

_READING: Final = re.compile(
    f"{OWNER_PATTERNS[Condition.READS_A_NUMBER]}|{OWNER_PATTERNS[Condition.SELECTS]}"
)


_OPERATOR, _ANNOTATION, _FRAME = map(int, (Kind.CPU_OP, Kind.ANNOTATION, Kind.PYTHON))
"""As numbers: in Python 3.11, looking up an enum member takes longer than searching a name."""
_CALLS: Final = tuple(map(int, LAUNCH_CALLS))
_CODE: Final = (Kind.CPU_OP, Kind.PYTHON)

_TELLING: Final = frozenset((_OPERATOR, _ANNOTATION, _FRAME))
_ANY_CALLS: Final = (*_CALLS, int(Kind.OS_CALL))
_TELLING_ALONE: Final = _TELLING.union(_ANY_CALLS)
"""For recordings without operators and frames, in which calls of CUDA and of the operating system
are all that is known: a database waited 4.65 s for its user in ``getc``."""


class Telling(NamedTuple):
    """A call whose name tells users where the code is."""

    name: str
    is_operator: bool
    """Also true for a call of CUDA or of the operating system."""


class HotPath(NamedTuple):
    """Where most of some time is spent: each call of the chain holds more than half of it."""

    whole_ns: int = 0
    ns_of: Mapping[str, int] = {}
    """Time inside all calls of a name, wherever they are: the first batch of a loader may be
    requested elsewhere than the others."""
    chain: tuple[Telling, ...] = ()
    """Modules, annotations and functions of the user's code around most of the time, and operators
    directly inside these, from outermost to innermost."""
    loader: str = ""
    """Key of `LOADERS` for the DataLoader among these calls, empty for none."""
    own_ns: Mapping[str, int] = {}
    """Time in operators and functions themselves, for those with the most that launch nothing: a
    size check made a thousand times is on no path that holds most of the time."""
    on_cpu_ns: int = 0
    """For pauses: time in operators that compute on the CPU: their outermost operator launches
    nothing, and they do not only make views."""
    stops_in: frozenset[str] = frozenset()
    """For pauses: operators that launch work and spend more than `STRETCH_NS` of one in a call."""
    in_calls_ns: int = 0
    """Time in calls of CUDA and, if recorded, of the operating system; in the rest, the host runs
    its own code, or waits for a core."""
    sampled: frozenset[str] = frozenset()
    """Names whose time is estimated from samples of the CPU, as no call is recorded meanwhile."""

    def without(self, parts: Sequence[HotPath]) -> HotPath:
        """The same without some parts of the time."""
        whole_ns = self.whole_ns - sum(part.whole_ns for part in parts)
        ns_of, own_ns = (
            {name: ns - sum(each.get(name, 0) for each in known) for name, ns in mine.items()}
            for mine, known in (
                (self.ns_of, [part.ns_of for part in parts]),
                (self.own_ns, [part.own_ns for part in parts]),
            )
        )
        in_calls_ns = self.in_calls_ns - sum(part.in_calls_ns for part in parts)
        return self._replace(whole_ns=whole_ns, ns_of=ns_of, own_ns=own_ns, in_calls_ns=in_calls_ns)


def hot_path(rank: Rank, places: IntArray, length_ns: Times) -> HotPath:
    """Follow some time from the outermost call inwards, as long as most of it is on one path.

    Each piece of time belongs to the call at its place, or to none (-1).
    """
    by_place = np.bincount(places + 1, length_ns)  # exact below 100 days
    held = np.flatnonzero(by_place)
    no_work, held_ns = np.full(held.size, -1), by_place[held].astype(np.int64)
    del by_place  # 8 MB for a million calls
    tree = call_tree(calls_of(rank), Weights(held - 1, no_work, held_ns, ""))
    whole_ns, node = int(held_ns.sum()), -1
    telling = _TELLING if rank.trace.events.rows_of(*_CODE).size else _TELLING_ALONE
    chain: list[Telling] = []
    loader = ""
    while (children := tree.inside(node)).size:
        node = int(children[np.argmax(tree.total_ns[children])])
        if 2 * tree.total_ns[node] <= whole_ns:
            break
        name = tree.names[tree.name[node]]
        loader = next((key for key, known in LOADERS.items() if known.search(name)), loader)
        kind = int(tree.kind[node])
        is_operator = kind == _OPERATOR or kind in _ANY_CALLS
        inside_operator = bool(chain) and chain[-1].is_operator
        if kind in telling and _tells(kind, name) and not (is_operator and inside_operator):
            chain.append(Telling(name, is_operator))
    own_ns = _own_time(tree, rank.remember(_launching_names))
    in_calls_ns = int(tree.own_ns[np.isin(tree.kind, _ANY_CALLS)].sum())
    return HotPath(
        whole_ns,
        _time_by_name(tree, telling),
        tuple(chain),
        loader,
        own_ns,
        in_calls_ns=in_calls_ns,
    )


def idle_hot_path(rank: Rank, segments: IdleSegments) -> HotPath:
    """Where idle time is spent; samples of the CPU say what runs outside all recorded calls."""
    found = hot_path(rank, segments.owner, segments.length_ns)
    outside = segments.take(segments.owner == NOBODY)
    samples = rank.remember(cpu_samples) if outside.gap.size else None
    if samples is None:
        return found
    by_name = Counter(samples.time_by_function(outside.start_ns, outside.end_ns))
    most = dict(by_name.most_common(MOST_LISTED))
    ns_of, own_ns = ({**known, **most} for known in (found.ns_of, found.own_ns))
    return found._replace(ns_of=ns_of, own_ns=own_ns, sampled=frozenset(most))


def _own_time(tree: CallTree, launching: frozenset[str]) -> dict[str, int]:
    """Own time of operators and functions that launch nothing, for those with the most."""
    nodes = np.flatnonzero(np.isin(tree.kind, (Kind.CPU_OP, Kind.PYTHON, Kind.OS_CALL)))
    of_name = grouped(tree.name[nodes])
    sums = of_name.reduce(np.add, tree.own_ns[nodes])
    names = [tree.names[code] for code in tree.name[nodes[of_name.first]].tolist()]
    by_name = {name: ns for name, ns in zip(names, sums.tolist(), strict=True) if ns}
    silent = [name for name in by_name if name not in launching]
    most = sorted(silent, key=lambda name: -by_name[name])[:MOST_LISTED]
    return {name: by_name[name] for name in most}


def _launching_names(rank: Rank) -> frozenset[str]:
    """Names of the calls that launch work, or have such calls inside."""
    calls = calls_of(rank)
    names = calls.events.name.values
    return frozenset(names[code] for code in distinct(calls.name[_launching(rank)]).tolist())


def _launching(rank: Rank) -> Mask:
    """Which calls launch work, or have such calls inside."""
    calls, launch = calls_of(rank), rank.gpu_work.launch
    launching = np.zeros(calls.kind.size + 1, dtype=np.bool_)
    launching[calls.places_of(distinct(launch[launch >= 0]))] = True
    return calls_around(calls, launching[:-1])


def _time_by_name(tree: CallTree, of_kinds: frozenset[int]) -> dict[str, int]:
    """Time inside the outermost calls of each telling name."""
    pairs = grouped(tree.name, tree.kind)
    names, kinds = tree.name[pairs.first].tolist(), tree.kind[pairs.first].tolist()
    tells = [
        kind in of_kinds and _tells(kind, tree.names[code])
        for code, kind in zip(names, kinds, strict=True)
    ]
    telling = np.array(tells, dtype=np.bool_)[pairs.of_rows]
    outermost, above = telling.copy(), tree.parent
    while (inside := above != NO_PARENT).any():
        outermost &= ~(inside & telling[above] & (tree.name[above] == tree.name))
        above = np.where(inside, tree.parent[above], NO_PARENT)
    nodes = np.flatnonzero(outermost)
    of_name = grouped(tree.name[nodes])
    sums = of_name.reduce(np.add, tree.total_ns[nodes]).tolist()
    codes = tree.name[nodes[of_name.first]].tolist()
    return {tree.names[code]: ns for code, ns in zip(codes, sums, strict=True) if ns}


def _tells(kind: int, name: str) -> bool:
    """Whether the name of a call of some kind tells users where the code is."""
    if kind == _OPERATOR:
        return not AUTOGRAD_THREAD.search(name)
    return kind != _FRAME or bool(CODE_OF_USERS.search(name))


class Owner(NamedTuple):
    """Calls of one name that own idle time of a kind."""

    name: str
    """Name of the call; for synchronisations, of the operator around it."""
    around: str
    """Annotation, module or line of the user's code around it; empty if none is recorded."""
    idle_ns: int
    times: int
    """Number of idle intervals that it owns part of; for synchronisations, number of calls."""


class Stretch(NamedTuple):
    """An idle interval."""

    start_ns: int
    end_ns: int
    """Start and end on the rank's own clock."""
    idle_ns: int
    """Idle time of the kind in it."""
    before: str
    after: str
    """Operators that launch the work before and after it; empty if not recorded."""
    inside: str
    """Operator whose call takes most of this time, or that launches both; empty for none."""


class Touched(NamedTuple):
    """Pages of managed memory that move to the host as it touches them.

    A host read 1.07 GB in 1.92 s, 79 ms of which were copies; prefetching saves none of the rest.
    """

    idle_ns: int = 0
    """Time of the host outside CUDA calls before they move, in which the GPU is idle."""
    copies: int = 0
    copying_ns: int = 0
    """How many copies follow idle time, and how long they take."""


class GapOwners(NamedTuple):
    """Owners and longest intervals of the idle time of a rank, by its kind."""

    owners: Mapping[str, tuple[Owner, ...]]
    """Owners, longest first, for those of `HOST_GAPS` that occur, and for `READS`."""
    longest: Mapping[str, tuple[Stretch, ...]]
    """Longest intervals, longest first."""
    hot_paths: Mapping[str, HotPath]
    """Where most of the time is spent, also for `EVERY`."""
    drains: frozenset[Condition] = frozenset()
    """Conditions of the calls that let the GPU run dry, for those that cost the most."""
    touched: Touched = Touched()
    times: Mapping[str, int] = {}
    """Number of idle intervals that hold some of the time."""


def gap_owners(rank: Rank, gaps: HostGaps) -> GapOwners:
    """Find the calls that own the idle time of a rank."""
    around, found = Around(rank), GapOwners({}, {}, {})
    for name in HOST_GAPS:
        found = _with_kind(around, gaps, name, found)
    reads = around.reads(gaps)
    found = found._replace(owners={**found.owners, READS: reads} if reads else found.owners)
    moved = touched(rank, gaps)
    if moved.size:
        idle_ns = int(gaps.segments.length_ns[gaps.touches].sum())
        copying_ns = int(rank.trace.events.duration_ns[moved].sum())
        found = found._replace(touched=Touched(idle_ns, moved.size, copying_ns))
    chosen, segments = (gaps.kind != GAP["gap_depend"]) | gaps.unattributed, gaps.segments
    if chosen.any():
        every = idle_hot_path(rank, segments.take(chosen))
        span_ns = int(segments.start_ns[chosen].min()), int(segments.end_ns[chosen].max())
        every = every._replace(chain=_parts_of_a_step(rank, every, span_ns))
        found = found._replace(hot_paths={**found.hot_paths, EVERY: every})
    return found


def _with_kind(around: Around, gaps: HostGaps, name: str, found: GapOwners) -> GapOwners:
    """Add the idle time of one more kind to what was found, if there is any."""
    is_kind = gaps.kind == GAP[name]
    if not is_kind.any():
        return found
    rank, drains = around.rank, found.drains
    if name == "gap_sync":  # with the late launches until the host has caught up
        refills = gaps.refills()
        is_kind |= refills != NO_CALL
    own = gaps.segments.take(is_kind)
    owner, stretch, length_ns = own.owner, own.gap, own.length_ns
    if name == "gap_sync":
        drain = refills[is_kind]
        stretch = np.where(drain == NO_CALL, owner, drain)
        owner = around.operator_of(stretch)
    owners = around.owners(owner, stretch, length_ns)
    if name == "gap_sync":
        is_largest = np.append(around.calls.named(owners[0].name.__eq__), False)
        most = np.flatnonzero((owner >= 0) & is_largest[owner])
        drains = conditions_of_drains(rank, stretch[most], owner[most], length_ns[most])
    within = idle_hot_path(rank, own)
    if name == "gap_pause":
        on_cpu_ns, stops_in = around.in_operators(own.owner, length_ns)
        within = within._replace(on_cpu_ns=on_cpu_ns, stops_in=stops_in)
    return GapOwners(
        {**found.owners, name: owners},
        {**found.longest, name: around.longest(own.gap, own.owner, length_ns)},
        {**found.hot_paths, name: within},
        drains,
        times={**found.times, name: distinct(own.gap).size},
    )


def _parts_of_a_step(rank: Rank, within: HotPath, span_ns: tuple[int, int]) -> tuple[Telling, ...]:
    """The calls of a chain that are part of the program, not the loop that holds all idle time."""
    calls = calls_of(rank)
    first_ns, last_ns = span_ns
    busy_ns = last_ns - first_ns - within.whole_ns
    found = []
    for each in within.chain:
        places = np.flatnonzero(calls.named(each.name.__eq__))
        spent = Intervals.union(calls.start_ns[places], calls.forest.cut_end_ns[places])
        part_ns = spent.clip(first_ns, last_ns).length
        is_part = part_ns < MOST_OF_THE_TIME * (last_ns - first_ns)
        if is_part or part_ns - within.ns_of[each.name] < LITTLE_WORK * busy_ns:
            found.append(each)
    return tuple(found)


class Around:
    """Finds the calls around calls of a rank."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.calls: Calls = calls_of(rank)
        self._parent = np.append(self.calls.forest.parent, np.int32(NOBODY))
        in_autograd = self.calls.named(AUTOGRAD_THREAD.search)
        self._is_operator = np.append((self.calls.kind == Kind.CPU_OP) & ~in_autograd, False)
        is_code = self.calls.named(CODE_OF_USERS.search) & ~self.calls.is_launch_call
        self._is_code = np.append((self.calls.kind == Kind.ANNOTATION) | is_code, False)

    def name_of(self, place: int) -> str:
        """Name of a call, empty for none."""
        return "" if place < 0 else self.calls.events.name.values[self.calls.name[place]]

    def operator_of(self, places: IntArray) -> IntArray:
        """Outermost operator directly around each call; the call itself if there is none."""
        asked, which = numbered(places)
        found = asked.copy()
        above = self._parent[found]
        while (climbs := self._is_operator[above]).any():
            found[climbs] = above[climbs]
            above = np.where(climbs, self._parent[above], NOBODY)
        return found[which]

    def code_of(self, places: IntArray) -> IntArray:
        """Innermost annotation, module or line of the user's code around each call, -1 for none."""
        asked, which = numbered(places)
        found = self._parent[asked]
        climbing = np.arange(found.size)
        while climbing.size:
            above = found[climbing]
            climbing = climbing[(above != NOBODY) & ~self._is_code[above]]
            found[climbing] = self._parent[found[climbing]]
        return found[which]

    def in_operators(self, places: IntArray, length_ns: Times) -> tuple[int, frozenset[str]]:
        """Time in operators that compute on the CPU, and operators that stop: see `HotPath`."""
        operator = self.operator_of(places)
        launches = np.append(_launching(self.rank), False)[operator]
        launches &= self._is_operator[operator]
        by_call = np.bincount(operator[launches], length_ns[launches])
        stopped = np.flatnonzero(by_call > STRETCH_NS).tolist()
        views = np.append(self.calls.named(MAKES_VIEWS.search), False)[places]
        on_cpu_ns = int(length_ns[self._is_operator[operator] & ~launches & ~views].sum())
        return on_cpu_ns, frozenset(map(self.name_of, stopped))

    def reads(self, gaps: HostGaps) -> tuple[Owner, ...]:
        """Operators whose values the host waits for while it is late: see `READS`."""
        reads = self.calls.named(_READING.search)
        if reads.any():
            reads &= calls_around(self.calls, blocking_calls(self.rank))
        if not reads.any():
            return ()
        chosen = np.append(self.calls.forest.at_or_below(reads), False)[gaps.segments.owner]
        chosen &= np.isin(gaps.kind, [GAP[name] for name in LATE])
        operator = self.operator_of(gaps.segments.owner[chosen])
        is_outermost = reads[operator]
        own = operator[is_outermost]
        return self.owners(own, own, gaps.segments.length_ns[chosen][is_outermost])

    def owners(self, owner: IntArray, event: IntArray, length_ns: Times) -> tuple[Owner, ...]:
        """Time by owner and its place in the code, longest first."""
        names = np.append(self.calls.name, NOBODY)
        place = self.code_of(owner)
        groups = grouped(names[owner], names[place])
        idle_ns = groups.reduce(np.add, length_ns)
        found = []
        for number in np.argsort(-idle_ns, kind="stable")[:MOST_LISTED].tolist():
            rows = groups.parts[number]
            name, code = self.name_of(int(owner[rows[0]])), self.name_of(int(place[rows[0]]))
            count = distinct(event[rows]).size
            found.append(Owner(name, code, int(idle_ns[number]), count))
        return tuple(found)

    def longest(self, gap: IntArray, place: IntArray, length_ns: Times) -> tuple[Stretch, ...]:
        """The intervals with the most of this time; each piece belongs to the call at its place."""
        gaps, owned = gaps_of(self.rank), np.bincount(gap, length_ns)
        least = np.partition(owned, -MOST_LISTED)[-MOST_LISTED] if owned.size > MOST_LISTED else 0
        chosen = np.flatnonzero((owned >= least) & (owned > 0))
        chosen = chosen[np.argsort(-owned[chosen], kind="stable")][:MOST_LISTED]
        found = []
        for each in chosen.tolist():
            launch = int(gaps.launch[each])
            before, after = self._launcher(self._launched_before(launch)), self._launcher(launch)
            is_own = gap == each
            # a host that stopped for 2.05 ms in an operator before it launched anything stopped
            # inside it, not between it and the operator before
            inside = self._most_in(place[is_own], length_ns[is_own])
            if inside == NO_CALL and before == after:
                inside = after
            found.append(
                Stretch(
                    start_ns=int(gaps.start_ns[each]),
                    end_ns=int(gaps.end_ns[each]),
                    idle_ns=int(owned[each]),
                    before=self.name_of(before),
                    after=self.name_of(after),
                    inside=self.name_of(inside),
                )
            )
        return tuple(found)

    def _most_in(self, places: IntArray, length_ns: Times) -> int:
        """Place of the operator that holds most of some time; `NO_CALL` for none."""
        operators = self.operator_of(places)
        by_operator = grouped(operators)
        held_ns = by_operator.reduce(np.add, length_ns)
        most = int(np.argmax(held_ns))
        operator = int(operators[by_operator.first[most]])
        is_most = held_ns[most] > MOST_OF_THE_TIME * held_ns.sum()
        return operator if is_most and self._is_operator[operator] else NO_CALL

    def _launched_before(self, launch: int) -> int:
        """Row of the last launch call before another one, -1 for none."""
        rows = self.rank.gpu_work.launch
        starts = self.rank.trace.events.start_ns
        earlier = rows[(rows >= 0) & (starts[rows] < starts[launch])] if launch >= 0 else rows[:0]
        return int(earlier[np.argmax(starts[earlier])]) if earlier.size else NO_CALL

    def _launcher(self, row: int) -> int:
        """Place of the operator that makes a launch call."""
        if row < 0:
            return NO_CALL
        return int(self.operator_of(self.calls.places_of(np.array([row])))[0])


def before_first_compiled(rank: Rank) -> tuple[str, int]:
    """The first kernel of compiled code that is launched, and how long the GPU is idle before (ns).

    Without any, an empty name and 0.
    """
    work, gaps = rank.gpu_work, gaps_of(rank)
    own = np.flatnonzero((work.launch >= 0) & work.named(_OF_INDUCTOR.search))
    if not own.size:
        return "", 0
    first = own[np.argmin(rank.trace.events.start_ns[work.launch[own]])]
    before = gaps.launch == work.launch[first]
    return work.names[work.name[first]], int((gaps.end_ns - gaps.start_ns)[before].sum())


def first_scripted(rank: Rank) -> dict[str, int]:
    """When the first call ends of each operator that runs what TorchScript has compiled (ns)."""
    around = Around(rank)
    fused = np.flatnonzero(around.calls.named(_OF_TORCHSCRIPT.search))
    found: dict[str, int] = {}
    for place in around.operator_of(fused).tolist():
        end_ns = int(around.calls.forest.cut_end_ns[place])
        name = around.name_of(place)
        found[name] = min(end_ns, found.get(name, end_ns))
    return found


def waits_by_operator(rank: Rank, rows: Int64Array, waited_ns: Float64Array) -> dict[str, float]:
    """How long the host waits in each operator around the calls of some rows.

    Without any operator, ranges stand in for them, as NVTX often has nothing else.
    """
    around = Around(rank)
    places = around.calls.places_of(rows)
    inside = around.operator_of(places)
    if not (around.calls.kind == Kind.CPU_OP).any():
        ranges = around.code_of(places)
        inside = np.where(ranges == NOBODY, inside, ranges)
    names = map(around.name_of, inside.tolist())
    found: Counter[str] = Counter()
    for name, ns in zip(names, waited_ns.tolist(), strict=True):
        found[name] += ns
    return {**found}
