"""The steps of one rank: what its GPU did in each, and why it was idle.

Idle time has the causes of `idle_owners`, which say what the host does meanwhile. It is divided
further by what the host did from one launch to the next::

    GPU work   ====|                                          |====
    host         launch ]                          [ launch ]
                        |-------- stretch ---------|
                   |---------- the host decides ----------|---|
                                               launch + 15 µs  gap_depend

A launch call of more than 1 ms for which an idle GPU waits until its end is all the host's, even if
it started while the GPU was busy: CUDA and HIP load the code of a kernel in its first launch (3.1 s
before a kernel of cuDNN, 6.5 ms of 9.2 ms of a small step on an MI250).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.budget.classes import BUDGET_CLASSES, CLASS_OF
from hta_widgets.analyses.budget.idle_gaps import (
    BETWEEN_KERNELS_NS,
    STRETCH_NS,
    Gaps,
    LateLaunches,
    OwnedTime,
    gaps_of,
    overheads,
    owned_time,
    recorded_work,
    runs_at,
)
from hta_widgets.analyses.budget.idle_segments import IdleSegments
from hta_widgets.analyses.budget.served_steps import measured_steps
from hta_widgets.analyses.communication.partition import Partition, RankSplit
from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.calls import Calls, calls_of
from hta_widgets.analyses.time.causes import CODE, IDLE_CAUSES, LAUNCH_NS, NO_CALL
from hta_widgets.analyses.time.modules import OPTIMIZER, PHASES, phases
from hta_widgets.analyses.time.window import WARM, Window, window_of
from hta_widgets.arrays import Float64Array, Int8Array, Int32Array, Int64Array, IntArray, Mask
from hta_widgets.grouping import distinct, grouped
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import Kind, KindSet
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.model.training import trains
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

_TELLING = KindSet((Kind.CPU_OP, Kind.PYTHON))  # they show what the host does

HOST_GAPS: Final = (
    "gap_profiler",
    "gap_loader",
    "gap_alloc",
    "gap_init",
    "gap_step",
    "gap_pause",
    "gap_sync",
    "gap_op",
)
"""Kinds of idle time that the host decides, by what it did."""

GAPS: Final = (*HOST_GAPS, "gap_depend")
"""All kinds of idle time, which add up to it."""

GAP: Final = {name: code for code, name in enumerate(GAPS)}

SHORT_KERNEL_NS: Final = 15_000
"""Shorter kernels are launched in such numbers that the time to start each counts."""

START_NS: Final = 3_000
"""Longest time that it takes to start a kernel that was already launched."""

HANDED_OVER_NS: Final = 100_000
"""In a longer gap inside a graph during its launch, the next part is not there yet; in a shorter
one, the recorder may have lost a kernel."""

FEWEST_LATE: Final = 5

PROMPT: Final = 1.25
"""A kernel that starts within this many usual latencies of its launch call was not queued."""

BATCH_COPY_NS: Final = 20_000
"""A longer copy to the device may carry a batch."""

BATCH_IN_CALLS: Final = 0.5
"""More than this share of the time before the copy of a batch must be in operators or frames that
show that the host prepares it. Parameters that an optimizer on the CPU hands back are no batch, and
what autograd runs prepares none."""

FIRST_CALL: Final = 10.0
"""A first call that takes this many times as long as later ones sets something up."""

FEWEST_LIKE: Final = 1
FEWEST_NAMED: Final = 5
"""Fewest later calls to compare with: with the same inputs, or any if no inputs are recorded."""

TOLD_BY_OS_CALLS: Final = 0.5
"""If more than this share of such time without operators is in calls of the operating system, it is
known what the host does: a database waited for its user."""

OPERATORS_PER_LAUNCH: Final = 0.2
"""With fewer operators and frames per launch, it means nothing that none are recorded."""

_BETWEEN_STEPS: Final = [GAP[name] for name in ("gap_pause", "gap_sync", "gap_op", "gap_depend")]
"""Between two steps of a server, these are all one: the time that the engine's loop takes."""

FEWEST_SERVER_STEPS: Final = 3
"""With fewer steps, one of which is the first, nothing is known about the time between them."""

_REFILLING: Final = (GAP["gap_sync"], GAP["gap_op"])

_FROM_WORKERS: Final = re.compile(r"#_MultiProcessingDataLoaderIter\.__next__$")
_DRAWS_SEED: Final = re.compile(r"^aten::random_$")

_SET_UP: Final = (GAP["gap_alloc"], GAP["gap_pause"])
"""Kinds that count as setting up in the first call of an operator."""

_LEFT_OPEN: Final = ("synchronising", "launching", "operator", "host_code", "nothing_recorded")
"""Causes of idle time that are divided further."""


def blocking_calls(rank: Rank) -> Mask:
    """Calls that return once the GPU has done what it was asked to do before."""
    calls = calls_of(rank)
    return calls.named(patterns.BLOCKING.search) & calls.is_launch_call


def loading_calls(rank: Rank) -> Mask:
    """Calls that load data, or prepare it without kernels (or modules, if no kernels exist)."""
    calls = calls_of(rank)
    prepares = calls.named(patterns.PREPROCESSING.search)
    if prepares.any():
        prepares &= ~calls_around(calls, _computing(rank, calls))
    loads = (prepares | calls.named(patterns.DATA_LOADING.search)) & ~calls.is_launch_call
    first = first_batches(rank)
    return loads & ~(first | calls_around(calls, first)) if first.any() else loads


@asked_once
def first_uses(rank: Rank) -> Mask:
    """Operators that set up what they need in their first call, with everything inside them.

    Libraries then load modules and choose kernels: the first convolution of an AlexNet took 15.6 s,
    later ones 1.4 ms. A first call counts if it takes `FIRST_CALL` times the median of later ones,
    with the same inputs if these are recorded. In recordings that start later, no call is the
    first.
    """
    calls, events = calls_of(rank), rank.trace.events
    found = np.zeros(calls.kind.size, dtype=np.bool_)
    duration_ns = events.duration_ns[calls.forest.rows]
    places = np.flatnonzero(calls.kind == Kind.CPU_OP)
    if window_of(rank).steps[0] >= WARM or not (duration_ns[places] > STRETCH_NS).any():
        return found
    places = places[np.argsort(calls.start_ns[places], kind="stable")]
    rows = calls.forest.rows[places].astype(np.int64)
    inputs, texts = events.texts_at("operators", "input_dims", rows)
    says = np.array([*(any(map(str.isdigit, text)) for text in texts), False])
    alike = grouped(calls.name[places], np.where(says[inputs], inputs, -1))
    fewest = np.where(says[inputs[alike.first]], FEWEST_LIKE, FEWEST_NAMED)
    first_ns = duration_ns[places[alike.first]]
    for group in np.flatnonzero((first_ns > STRETCH_NS) & (alike.sizes > fewest)).tolist():
        first, *later = places[alike.parts[group]].tolist()
        found[first] = first_ns[group] >= FIRST_CALL * np.median(duration_ns[later])
    return calls.forest.at_or_below(found)


@asked_once
def first_batches(rank: Rank) -> Mask:
    """The wait for the first batch of a DataLoader whose workers start in the recording.

    No number of workers makes their start shorter. An iterator draws the seed of its workers just
    before; one that is older than the recording has drawn it earlier. Workers of a later iterator
    start for each epoch.
    """
    calls = calls_of(rank)
    fetches, draws = (calls.named(each.search) for each in (_FROM_WORKERS, _DRAWS_SEED))
    found = np.zeros(calls.kind.size, dtype=np.bool_)
    if not (fetches.any() and draws.any()):
        return found
    places = np.flatnonzero(fetches | draws | calls.is_launch_call)
    places = places[np.lexsort((calls.start_ns[places], calls.thread_of(places)))]
    started = places[1:][draws[places[:-1]] & fetches[places[1:]]]
    is_first = calls.start_ns[started] == calls.start_ns[fetches].min()
    found[started] = is_first & (started.size == 1)
    return calls.forest.at_or_below(found)


def _computing(rank: Rank, calls: Calls) -> Mask:
    """Calls that launch kernels; if no kernels are recorded, calls of modules and gradients."""
    events = rank.trace.events
    kernels = events.rows_of(Kind.KERNEL)
    if not kernels.size:
        return np.asarray(phases(rank) != PHASES.index("other"))
    launch = rank.launches[kernels].astype(np.int64)
    launching = np.zeros(calls.kind.size, dtype=np.bool_)
    launching[calls.places_of(launch[launch >= 0])] = True
    return launching


def calls_around(calls: Calls, chosen: Mask) -> Mask:
    """Some calls and all calls around them: a whole program may process images in name only."""
    before = np.concatenate(([0], np.cumsum(chosen)))
    return np.asarray(before[calls.forest.ends] > before[:-1])


class HostGaps(NamedTuple):
    """Idle time of a device."""

    segments: IdleSegments
    """Segments of `owned_time`; ``gap`` is the position of the idle interval in `gaps_of`."""
    kind: Int8Array
    """Position in `GAPS` of each segment's kind."""
    cause: Int8Array
    """Position in `IDLE_CAUSES` of each segment's cause."""
    starts_short: Mask
    """Which segments are the few µs that it takes to start a short kernel after another one."""
    within_graph: Mask
    """Which segments are the few µs that a graph takes from one of its kernels to the next."""
    drained: Int32Array
    """Place of the last blocking call that let the GPU run dry before each interval in `gaps_of`,
    -1 for none."""
    unattributed: Mask
    """Which segments have a late host that launches nothing for long, while neither operators nor
    frames show what it does, or one that works on managed memory (see `touches`). Their kind is
    ``gap_depend``: it may wait for what is not recorded."""
    touches: Mask
    """Which segments pass in no CUDA call until the host touches pages that are on the GPU."""

    def refills(self) -> Int32Array:
        """The call in `drained` where the host lost its lead, for each segment in which it is late.

        -1 for none.
        """
        is_late = np.isin(self.kind, _REFILLING)
        return np.where(is_late, self.drained[self.segments.gap], np.int32(NO_CALL))

    def in_bins(self, edges: Times) -> Int64Array:
        """Time (ns) of each of `GAPS` between consecutive edges, which no interval straddles."""
        shape = len(GAPS), edges.size - 1
        bins = np.searchsorted(edges, self.segments.start_ns, side="right")
        bins += self.kind * np.int64(shape[1]) - 1
        sums = np.bincount(bins, self.segments.length_ns, shape[0] * shape[1])
        return sums.astype(np.int64).reshape(shape)

    def some_in_bins(self, some: Mask, edges: Times) -> Int64Array:
        """Time (ns) of some segments between consecutive edges."""
        chosen = np.flatnonzero(some)
        sums = np.zeros(edges.size - 1, dtype=np.int64)
        step = np.searchsorted(edges, self.segments.start_ns[chosen], side="right") - 1
        np.add.at(sums, step, self.segments.length_ns[chosen])
        return sums

    def of_kind(self, name: str) -> IdleSegments:
        """The segments of one kind."""
        return self.segments.take(np.flatnonzero(self.kind == GAP[name]))

    def take(self, chosen: Mask) -> HostGaps:
        """Some of the segments."""
        return self._replace(
            segments=self.segments.take(chosen),
            kind=self.kind[chosen],
            cause=self.cause[chosen],
            starts_short=self.starts_short[chosen],
            within_graph=self.within_graph[chosen],
            unattributed=self.unattributed[chosen],
            touches=self.touches[chosen],
        )

    def clip(self, start_ns: int, end_ns: int) -> HostGaps:
        """The part of each segment that is inside a window."""
        starts, ends = self.segments.start_ns, self.segments.end_ns
        if ((starts >= start_ns) & (ends <= end_ns)).all():  # usual, and nothing is copied
            return self
        inside = self.take((ends > start_ns) & (starts < end_ns))
        return inside._replace(segments=inside.segments.clip(start_ns, end_ns))


def host_gaps(rank: Rank, device: int, start_ns: int, end_ns: int) -> HostGaps:
    """The idle time of a device between the edges of two steps."""
    gaps, owned = gaps_of(rank), owned_time(rank)
    inside = (gaps.device == device) & (gaps.end_ns > start_ns) & (gaps.start_ns < end_ns)
    # a kernel of no duration ends a step while the device is idle
    return _Division(rank, device, gaps, owned, inside).divided().clip(start_ns, end_ns)


def touched(rank: Rank, gaps: HostGaps) -> Int64Array:
    """Rows of the pages that move because the host touches them, each after an idle interval."""
    return gaps_of(rank).after[distinct(gaps.segments.gap[gaps.touches])]


CLASS_NAMES: Final = (*BUDGET_CLASSES, "")
"""The last one is for time outside of steps."""


class Counted(NamedTuple):
    """Where each segment of `owned_time` counts."""

    as_class: Int8Array
    """Its class in the budget of a step, by its position in `CLASS_NAMES`."""
    initialises: Mask
    """Whether it counts as initialising there, whatever the call in it does elsewhere."""


@asked_once
def counted_segments(rank: Rank) -> Counted:
    """Where the segments of `owned_time` count in the budget of a step."""
    owned, gaps, window = owned_time(rank), gaps_of(rank), window_of(rank)
    found = np.full(owned.cause.size, CLASS_NAMES.index(""), dtype=np.int8)
    initialises = np.zeros(owned.cause.size, dtype=np.bool_)
    codes = np.array([BUDGET_CLASSES.index(CLASS_OF[name]) for name in GAPS], dtype=np.int8)
    device, starts_ns = gaps.device[owned.segments.gap], owned.segments.start_ns
    for each in rank.gpu_work.devices:
        edges = window.step_edges(rank, each)
        inside = rank.remember(host_gaps, each, int(edges[0]), int(edges[-1]))
        own = np.flatnonzero(device == each)
        own = own[(starts_ns[own] >= edges[0]) & (starts_ns[own] < edges[-1])]
        found[own] = codes[inside.kind]
        initialises[own] = inside.kind == GAP["gap_init"]
    return Counted(found, initialises)


class DeviceSteps(NamedTuple):
    """The steps of the device that does most of a rank's work."""

    device: int
    window: Window
    edges: Times
    """Boundaries of the steps, from `Window.step_edges`."""
    work: GpuWork
    """All work recorded on the device, also in steps that are not analysed."""
    busy: Partition
    gaps: HostGaps
    """Idle time between the first edge and the last."""

    def are_in(self, times_ns: Times, numbers: Collection[int] | None) -> Mask:
        """Which times are in steps of some numbers, or in any of the steps if None."""
        step = np.searchsorted(self.edges, times_ns, side="right") - 1
        among = self.window.steps if numbers is None else [*numbers]
        return np.append(np.isin(self.window.steps, among), (False, False))[step]


def device_steps(rank: Rank, split: RankSplit) -> DeviceSteps | None:
    """The steps of a rank's device; None without GPU work."""
    device = rank.gpu_work.main_device
    if device is None:
        return None
    window = window_of(rank)
    work = rank.all_work(device)
    edges = window.step_edges(rank, device)
    return DeviceSteps(
        device=device,
        window=window,
        edges=edges,
        work=work,
        busy=Partition.of(work, split),
        gaps=rank.remember(host_gaps, device, int(edges[0]), int(edges[-1])),
    )


class _Division:
    """Divides the idle intervals of one device."""

    def __init__(self, rank: Rank, device: int, gaps: Gaps, owned: OwnedTime, inside: Mask) -> None:
        self.rank, self.device, self.gaps = rank, device, gaps
        self.calls: Calls = calls_of(rank)
        self.host = LateLaunches(rank, gaps)
        self.stretch_start_ns, self.launch_ns, self.decided_until_ns = self.host.moments_ns
        has_drained = inside & self._waits_for_work[owned.drain]
        self.drain = np.where(has_drained, owned.drain, NO_CALL)
        self.decided, self.is_late = inside & self.host.decided, inside & self.host.is_late
        own = np.flatnonzero(inside)  # consecutive
        edges = (own[0], own[-1] + 1) if own.size else (0, 0)
        first, last = np.searchsorted(owned.segments.gap, edges)
        self.segments = IdleSegments(*(column[first:last] for column in owned.segments))
        self.cause = owned.cause[first:last]

    def divided(self) -> HostGaps:
        """Decide the kind of each segment; each decision overrides those before it."""
        # By its cause and, where that leaves it open, by what the host does between two launches.
        kinds = np.array([GAP.get(cause.gap, GAP["gap_op"]) for cause in IDLE_CAUSES])
        kind = kinds[self.cause]
        is_open = np.isin(self.cause, [CODE[name] for name in _LEFT_OPEN])
        prepares = is_open & self._is_inside(loading_calls(self.rank))
        kind[prepares] = GAP["gap_loader"]
        is_open &= ~prepares
        waits = self._divide_stretches(kind, is_open)
        self._divide_launches(kind, is_open)
        # The first call of an operator sets up what it needs, that of a loader starts its workers.
        kind[self._is_inside(first_uses(self.rank)) & np.isin(kind, _SET_UP)] = GAP["gap_init"]
        starts_workers = self._is_inside(first_batches(self.rank))
        kind[starts_workers & (kind == GAP["gap_loader"])] = GAP["gap_init"]
        # A wait that finds the GPU idle drains nothing. A graph has to wait for what the one before
        # it returned, unless the wait in between reads something else.
        kind[(kind == GAP["gap_sync"]) & ~self._has_drained()] = GAP["gap_op"]
        depends = self.host.starts_graph & ~self._is_drained_in_step
        kind[(kind == GAP["gap_sync"]) & depends[self.segments.gap]] = GAP["gap_depend"]
        # A host that is just in time for each kernel is as slow as one that is late for each.
        prompt = self.is_prompt[self.segments.gap]
        kind[prompt] = GAP["gap_op"]
        decides = (self.is_late | self.host.launches_long)[self.segments.gap]
        decides &= self.segments.end_ns <= self.decided_until_ns[self.segments.gap]
        # Without operators and frames, a pause may be a wait that is not recorded; while the host
        # touches managed memory, page faults cannot be told from its own work. What it does not
        # decide at all depends on something else.
        unattributed = np.zeros(kind.size, dtype=np.bool_)
        if not self.has_operators:
            unattributed = (decides | prompt) & (kind == GAP["gap_pause"])
            if self._is_most_in_os_calls(unattributed):
                unattributed[:] = False
            kind[unattributed] = GAP["gap_depend"]
        touches = self._touches
        unattributed |= touches & is_open
        kind[touches & is_open] = GAP["gap_depend"]
        kind[~(decides | prompt | touches)] = GAP["gap_depend"]
        # These are recorded, whatever the times of the launch suggest.
        kind[self._loads_code] = GAP["gap_init"]
        kind[self.is_handed_over[self.segments.gap]] = GAP["gap_op"]
        # Between two steps of a server, all that its loop takes is one; without requests, it idles.
        between = self.between_steps[self.segments.gap] & decides & np.isin(kind, _BETWEEN_STEPS)
        between &= ~waits
        kind[between] = GAP["gap_step"]
        unattributed &= ~between
        kind[self.has_no_requests[self.segments.gap]] = GAP["gap_depend"]
        if self.rank.health.hides_idle_time:
            # of a file with 2 of 1,000 calls, 145 ms of a step were said to be late launches
            kind[:], unattributed[:] = GAP["gap_depend"], False
        is_short = self.gaps.end_ns - self.gaps.start_ns <= BETWEEN_KERNELS_NS
        return HostGaps(
            segments=self.segments,
            kind=kind.astype(np.int8),
            cause=self.cause,
            starts_short=self._starts_short(),
            within_graph=(self.gaps.inside_graph & is_short)[self.segments.gap],
            drained=self._last_drain(),
            unattributed=unattributed,
            touches=touches & unattributed,
        )

    def _is_most_in_os_calls(self, chosen: Mask) -> bool:
        """Whether calls of the operating system show what the host does for most of some time."""
        told = chosen & self._is_inside(self.calls.kind == Kind.OS_CALL)
        length_ns = self.segments.length_ns
        return bool(length_ns[told].sum() > TOLD_BY_OS_CALLS * length_ns[chosen].sum())

    @property
    def _touches(self) -> Mask:
        """Segments outside CUDA calls before pages that move to the host, which touches them."""
        in_call = np.append(self.calls.is_launch_call, False)[self.segments.owner]
        return np.asarray(self.gaps.by_host[self.segments.gap] & ~in_call)

    @property
    def _loads_code(self) -> Int64Array:
        """Segments in which CUDA loads code for the first use of a kernel, however late."""
        _, loads = overheads(self.rank)
        initialising = np.flatnonzero(self.cause == CODE["initialising"])
        return initialising[loads.covers(self.segments.start_ns[initialising])]

    def _divide_stretches(self, kind: Int64Array, is_open: Mask) -> Mask:
        """Divide the time in which the host launches nothing, if it is long.

        Returns the segments in calls that block for long, which are not part of this time.
        """
        gap, length_ns = self.segments.gap, self.segments.length_ns
        inside = is_open & (self.segments.start_ns >= self.stretch_start_ns[gap])
        inside &= self.segments.end_ns <= self.launch_ns[gap]
        blocked = inside & self._is_inside(blocking_calls(self.rank))
        in_call = _sums_of(length_ns, blocked, self.segments.owner + 1, self.calls.kind.size + 1)
        waits = blocked & (in_call[self.segments.owner + 1] > STRETCH_NS)
        kind[waits] = GAP["gap_depend"]
        inside &= ~waits
        count = self.gaps.device.size
        whole_ns = _sums_of(length_ns, inside, gap, count)
        telling = inside & self._is_inside(_TELLING.among(self.calls.kind))
        telling &= ~self._is_inside(self.calls.named(_trains))
        prepared_ns = _sums_of(length_ns, telling, gap, count)
        is_prepared = prepared_ns > BATCH_IN_CALLS * whole_ns
        of_gap = np.full(count, GAP["gap_pause"])
        of_gap[self._captures] = GAP["gap_init"]
        of_gap[self._next_is_batch & is_prepared] = GAP["gap_loader"]
        long = inside & (whole_ns[gap] > STRETCH_NS)
        kind[long] = of_gap[gap[long]]
        return waits

    def _divide_launches(self, kind: Int64Array, is_open: Mask) -> None:
        """Decide what long launch calls do: they load code, if no such kernel ran before."""
        gap = self.segments.gap
        inside = is_open & self.host.launches_long[gap]
        inside &= self.segments.start_ns >= self.launch_ns[gap]
        work = self.rank.gpu_work
        is_first = np.isin(self.gaps.after, work.rows[grouped(work.name).first])
        of_gap = np.where(is_first & ~self.host.starts_graph, GAP["gap_init"], GAP["gap_pause"])
        kind[inside] = of_gap[gap[inside]]

    def _starts_short(self) -> Mask:
        rows, events = self.gaps.after, self.rank.trace.events
        short = (rows >= 0) & (events.kind[rows] == Kind.KERNEL)
        short &= (events.duration_ns[rows] < SHORT_KERNEL_NS) & ~self.is_late & ~self.is_prompt
        short &= ~self.gaps.inside_graph & (self.gaps.launch != NO_CALL)
        short &= self.gaps.end_ns - self.gaps.start_ns <= START_NS
        return np.asarray(short[self.segments.gap])

    def _is_inside(self, calls: Mask) -> Mask:
        """Which segments belong to one of some calls, or to a call inside them."""
        if not calls.any():
            return np.zeros(self.segments.gap.size, dtype=np.bool_)
        return np.asarray(
            np.append(self.calls.forest.at_or_below(calls), False)[self.segments.owner]
        )

    @cached_property
    def is_handed_over(self) -> Mask:
        """Intervals inside a graph whose launch call still hands over what follows.

        An MI300X waited 274 µs for the 31st of 544 nodes, whose launch took 1.57 ms.
        """
        is_long = self.gaps.end_ns - self.gaps.start_ns > HANDED_OVER_NS
        is_handed_over = self.gaps.end_ns < self.host.launch_end_ns
        return np.asarray(self.gaps.inside_graph & is_long & is_handed_over)

    @cached_property
    def _waits_for_work(self) -> Mask:
        """Whether each call finds the GPU at work, with an entry for no call at the end."""
        rows = recorded_work(self.rank, self.device)
        return np.append(runs_at(self.rank, rows, self.calls.start_ns), False)

    def _has_drained(self) -> Mask:
        """Which segments follow, or are inside, a call that waited for work."""
        inside = self._waits_for_work[self.segments.owner]
        return np.asarray((self.drain[self.segments.gap] != NO_CALL) | inside)

    def _last_drain(self) -> Int32Array:
        """The last drain of the device before each interval, -1 for none."""
        drained = np.where(self.drain != NO_CALL, np.arange(self.drain.size), 0)
        return self.drain[np.maximum.accumulate(drained)].astype(np.int32)

    @cached_property
    def is_prompt(self) -> Mask:
        """Intervals before a kernel that was launched before them, and started as soon as it could.

        A host that launches short kernels at a steady rate is as slow as one that is late for each.
        Late launches show how long it takes from a launch to the start of its kernel.
        """
        latency_ns = self.gaps.end_ns - self.launch_ns
        events, row = self.rank.trace.events, self.gaps.after
        is_kernel = (row >= 0) & (events.kind[row] == Kind.KERNEL)
        is_kernel &= self.rank.launches[row] == self.gaps.launch
        late = self.is_late & is_kernel
        if np.count_nonzero(late) < FEWEST_LATE:
            return np.zeros(late.size, dtype=np.bool_)
        usual_ns = min(float(np.median(latency_ns[late])), LAUNCH_NS)
        known = self.decided & is_kernel & ~self.is_late
        return np.asarray(known & (latency_ns <= PROMPT * usual_ns))

    @cached_property
    def between_steps(self) -> Mask:
        """Intervals that start with a step of a server, unless a call in its span drains the GPU.

        Or that start after the rest of the previous step's work: after its last computing kernel,
        tokens are copied to the host, and ranks meet. The first step of a recording waits for what
        came before it.
        """
        server, window = self.rank.server_steps, window_of(self.rank)
        if len(server) < FEWEST_SERVER_STEPS or trains(self.rank.trace.events):
            return np.zeros(self.gaps.device.size, dtype=np.bool_)
        work = self.rank.gpu_work.by_device()[self.device]
        work = work.take(np.flatnonzero(window.is_of_a_step(self.rank, work)))
        edges = window.step_edges(self.rank, self.device)[1:]
        last_ns = edges.copy()
        np.maximum.at(last_ns, window.step_of(self.rank, work), work.end_ns)
        begins = np.concatenate((edges[:-1], last_ns[:-1]))
        begins_step = np.isin(self.gaps.start_ns, begins)
        return np.asarray(self.is_late & begins_step & ~self._is_drained_in_step)

    @cached_property
    def _is_drained_in_step(self) -> Mask:
        """Intervals that a call causes in the same step of a server as the launch after it.

        What this call reads is not the tokens, for which the next step has to wait.
        """
        starts_ns = self.rank.server_steps.start_ns
        place = np.searchsorted(starts_ns, self.launch_ns, side="right") - 1
        begin_ns = np.append(starts_ns, np.iinfo(np.int64).max)[place]
        drained_ns = np.append(self.calls.start_ns, 0)[self.drain]
        return np.asarray((self.drain != NO_CALL) & (drained_ns >= begin_ns))

    @cached_property
    def has_no_requests(self) -> Mask:
        """Intervals between steps in which a server has no requests, or may have none."""
        between = self.between_steps
        found = self.rank.remember(measured_steps, self.device) if between.any() else None
        if found is None:
            return np.zeros_like(between)
        none = found.measured["no_requests_ns"] + found.measured["unrecorded_ns"] > 0
        return np.asarray(
            between & np.isin(self.gaps.start_ns, found.measured["gpu_start_ns"][none])
        )

    @cached_property
    def has_operators(self) -> bool:
        """Whether operators or frames show what the host does."""
        recorded = np.count_nonzero(_TELLING.among(self.rank.trace.events.kind))
        return bool(recorded >= OPERATORS_PER_LAUNCH * distinct(self.rank.gpu_work.launch).size)

    @cached_property
    def _captures(self) -> Mask:
        """Whether a graph is captured before the launch after each interval."""
        places = np.flatnonzero(self.calls.named(patterns.CAPTURING.search))
        starts = np.sort(self.calls.start_ns[places])
        first = np.searchsorted(starts, self.stretch_start_ns)
        return np.asarray(np.searchsorted(starts, self.launch_ns) > first)

    @cached_property
    def _next_is_batch(self) -> Mask:
        """Whether the next work copies a batch to the device."""
        events, row = self.rank.trace.events, self.gaps.after
        is_copy = events.named(row, patterns.HOST_TO_DEVICE) & (events.kind[row] == Kind.MEMCPY)
        is_batch = (row >= 0) & is_copy & (events.duration_ns[row] > BATCH_COPY_NS)
        return np.asarray(is_batch & ~self._decodes)

    @property
    def _decodes(self) -> Mask:
        """Which intervals end in a step of a server that computes no prompt, and has no new input.

        What is copied to the GPU then are masks of a grammar, or adapters.
        """
        served = self.rank.server_steps
        is_decoding = np.array([False, *(each.phase == "decode" for each in served.spans)])
        step = np.searchsorted(served.start_ns, self.launch_ns, side="right")
        return np.asarray(is_decoding[step])


def _trains(name: str) -> bool:
    """Whether a call of this name updates parameters, or computes gradients."""
    return bool(OPTIMIZER.search(name) or patterns.AUTOGRAD_THREAD.search(name))


def _sums_of(length_ns: Times, chosen: Mask, number: IntArray, count: int) -> Float64Array:
    """Time of the chosen segments, by number; exact below 100 days."""
    sums = np.bincount(number[chosen], length_ns[chosen], minlength=count)
    return sums.astype(np.float64)
