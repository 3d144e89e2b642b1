"""Facts about the host of one rank: its copies, its launches, and the owners of idle time."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.budget.device_steps import GAP, DeviceSteps, HostGaps
from hta_widgets.analyses.budget.idle_gaps import gaps_of
from hta_widgets.analyses.budget.idle_segments import IdleSegments
from hta_widgets.analyses.idle_owners.paths import Paths, paths_of
from hta_widgets.analyses.roofline.formulas import inputs_of
from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.call_sums import with_inside
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.causes import NO_CALL
from hta_widgets.analyses.time.patterns import AUTOGRAD_THREAD
from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.arrays import Float64Array, Int64Array, Mask
from hta_widgets.diagnosis.facts.conditions import Condition
from hta_widgets.diagnosis.facts.gap_owners import (
    COPY_PATTERNS,
    LATE,
    GapOwners,
    HotPath,
    gap_owners,
    hot_path,
)
from hta_widgets.diagnosis.facts.trials import Trials, trials, unmarked_trials
from hta_widgets.diagnosis.limits import TrialLimits
from hta_widgets.grouping import distinct, grouped
from hta_widgets.intervals import Intervals, Times, time_of_both
from hta_widgets.trace.model.events import LAUNCH_CALLS, Kind
from hta_widgets.trace.model.kernels import MIGRATES, KernelType
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

FOLLOWED_NS: Final = 50_000
"""A kernel that starts within this time after a copy waited for it."""

LONG_NS: Final = 100_000
"""Shorter copies to the host carry single numbers."""

DOMINATES: Final = 0.6
"""Share of a region's time from which a part of it is the better name."""

WORTH_NAMING: Final = 0.01
"""Share of all time; if the GPU waits less than this for launches, no region is named."""

BACKWARD: Final = "the backward pass"

_OPTIMIZER: Final = re.compile(r"^Optimizer\.step#(\w+)\.step$")

_FORWARD: Final = (
    re.compile(r"aten::(?:linear|conv\dd|scaled_dot_product_attention)"),
    re.compile(r"aten::(?:(?:layer|batch|group|rms)_norm|gelu|silu|relu_?|softmax|dropout)"),
)
"""Matrix products, and what stands between them in models. No gradient formula of PyTorch calls any
of them. A backward pass written by hand may call one kind, but both only if it recomputes."""

QUARTERS: Final = 4

MOST_OVERHEADS: Final = 5


class CopiesOfName(NamedTuple):
    """Exposed copies of one name, such as ``Memcpy HtoD (Pageable -> Device)``."""

    name: str
    copies: int
    size_bytes: int
    duration_ns: int
    exposed_ns: int


FEWEST_RETURNS: Final = 10
"""Fewest copies in each direction that may carry the same data there and back."""

ALIKE: Final = 0.9
"""Least ratio of the bytes in one direction to those in the other: a solver copied 1 GB to the GPU
and back for each of 50 kernels, 96 % of its time."""


class HostCopies(NamedTuple):
    """Exposed copies of a rank: no kernel runs at the same time."""

    exposed_ns: Int64Array
    """Exposed time of each step."""
    by_name: tuple[CopiesOfName, ...]
    """Copies by name, longest first."""
    hot_path: HotPath
    """The calls that ask for most of the exposed time."""

    def are_most(self, condition: Condition) -> bool:
        """Whether copies with a condition of `COPY_PATTERNS` take most of the exposed time."""
        says = COPY_PATTERNS[condition].search
        chosen = sum(each.exposed_ns for each in self.by_name if says(each.name))
        return 2 * chosen > sum(each.exposed_ns for each in self.by_name)

    @property
    def go_there_and_back(self) -> bool:
        """Whether the same data may be copied to the GPU and back again and again."""
        ways = (patterns.HOST_TO_DEVICE, patterns.DEVICE_TO_HOST)
        of_ways = [[each for each in self.by_name if way.search(each.name)] for way in ways]
        sizes = [sum(each.size_bytes for each in of_way) for of_way in of_ways]
        count = min(sum(each.copies for each in of_way) for of_way in of_ways)
        return count >= FEWEST_RETURNS and min(sizes) >= ALIKE * max(sizes)


def exposed_copies(work: GpuWork) -> tuple[Int64Array, Intervals]:
    """Copies that hold up the GPU, by position in the work of a device, and when kernels run."""
    is_copy = work.type == KernelType.MEMORY
    to_device, to_host = (
        is_copy & work.named(pattern.search)
        for pattern in (patterns.HOST_TO_DEVICE, patterns.DEVICE_TO_HOST)
    )
    computing = np.flatnonzero(~is_copy & (work.type != KernelType.COMMUNICATION))
    beside = np.isin(work.stream, np.unique(work.stream[computing]))
    starts = work.start_ns[computing]
    after = np.searchsorted(starts, work.end_ns)
    next_ns = np.append(starts, np.iinfo(np.int64).max)[after]
    holds_up = to_device & (beside | (next_ns - work.end_ns <= FOLLOWED_NS))
    holds_up |= to_host & beside & (work.duration_ns > LONG_NS)
    kernels = np.flatnonzero(~is_copy)
    busy = Intervals.union(work.start_ns[kernels], work.end_ns[kernels])
    return np.flatnonzero(holds_up), busy


def host_copies(
    rank: Rank, steps: DeviceSteps, numbers: Collection[int] | None = None
) -> HostCopies:
    """Find the exposed copies between host and device, in some steps, or in all if None."""
    work, edges = steps.work, steps.edges
    chosen, busy = exposed_copies(work)
    if not chosen.size:
        return HostCopies(np.zeros(edges.size - 1, dtype=np.int64), (), HotPath())
    alone = Intervals.union(work.start_ns[chosen], work.end_ns[chosen]) - busy
    inside = steps.are_in(work.start_ns[chosen], numbers)
    inside |= steps.are_in(work.end_ns[chosen] - 1, numbers)
    chosen = chosen[inside]
    start, end = work.start_ns[chosen], work.end_ns[chosen]
    exposed_ns = end - start - (busy.covered_until(end) - busy.covered_until(start))
    launched = calls_of(rank).places_of(work.launch[chosen])
    return HostCopies(
        exposed_ns=alone.length_in_bins(edges),
        by_name=_by_name(rank, work, chosen, exposed_ns),
        hot_path=hot_path(rank, launched, exposed_ns),
    )


def _by_name(
    rank: Rank, work: GpuWork, chosen: Int64Array, exposed_ns: Times
) -> tuple[CopiesOfName, ...]:
    sizes = _sizes(rank, work.rows[chosen])
    groups = grouped(work.name[chosen])
    found = [
        CopiesOfName(
            name=work.names[work.name[chosen[rows[0]]]],
            copies=rows.size,
            size_bytes=int(sizes[rows].sum()),
            duration_ns=int(work.duration_ns[chosen[rows]].sum()),
            exposed_ns=int(exposed_ns[rows].sum()),
        )
        for rows in groups.parts
    ]
    return tuple(sorted(found, key=lambda each: -each.exposed_ns))


def _sizes(rank: Rank, rows: Int64Array) -> Int64Array:
    """Bytes of each copy, 0 where they are not recorded."""
    table = rank.trace.events.side.get("transfers")
    if table is None:
        return np.zeros(rows.size, dtype=np.int64)
    sizes = np.append(np.asarray(table.columns["bytes"]), 0)[table.places_of(rows)]
    return np.asarray(np.maximum(sizes, 0), dtype=np.int64)


MOST_LATE: Final = 0.67
"""Share of the GPU's waiting for launches that few idle intervals may hold: of 562 kernels, eleven
waited for 520 of 636 µs, between the forward and the backward pass."""


class Region(NamedTuple):
    """A part of a program."""

    name: str
    """Name of its outermost call; for an optimizer, the name of the optimizer."""
    call: str
    """Full name of this call; empty if there are several."""
    idle: Intervals
    """Time in which the GPU waits for its launches."""
    share: float
    """Share of all such time."""
    kernels: int
    median_kernel_ns: float
    reads: bool
    """Whether most of what the GPU waits for is copies to the host."""


class Launching(NamedTuple):
    """How a rank launches its work."""

    median_kernel_ns: float
    median_launch_ns: float
    """Median duration of its kernels and of the calls that launch them."""
    late_in_calls: float
    """Share of the time in which the GPU waits for launches that is inside the calls of kernels."""
    region: Region | None
    """The part of the program with most of that time."""
    late: int = 0
    """Fewest idle intervals that hold `MOST_LATE` of it."""


def launching(rank: Rank, work: GpuWork, gaps: HostGaps) -> Launching:
    """Describe how a rank launches the analysed work of its device."""
    events = rank.trace.events
    kernels = np.flatnonzero(events.kind[work.rows] == Kind.KERNEL)
    late = gaps.segments.take(np.flatnonzero(np.isin(gaps.kind, [GAP[name] for name in LATE])))
    region = _region(rank, work, kernels, late)  # the most memory, before the times of calls
    launch = work.launch[kernels]
    calls = distinct(launch[launch >= 0])
    in_calls = Intervals.union(events.start_ns[calls], events.ends_of(calls))
    waiting = Intervals.union(late.start_ns, late.end_ns)
    return Launching(
        median_kernel_ns=_median(work.duration_ns[kernels]),
        median_launch_ns=_median(events.duration_ns[calls]),
        late_in_calls=time_of_both(waiting, in_calls) / max(waiting.length, 1),
        region=region,
        late=_fewest(late),
    )


def _fewest(segments: IdleSegments) -> int:
    held_ns = np.sort(grouped(segments.gap).reduce(np.add, segments.length_ns))[::-1]
    if not held_ns.size:
        return 0
    return int(np.searchsorted(np.cumsum(held_ns), MOST_LATE * held_ns.sum())) + 1


def _region(
    rank: Rank, work: GpuWork, kernels: Int64Array, segments: IdleSegments
) -> Region | None:
    idle_ns, calls = segments.length_ns, calls_of(rank)
    if idle_ns.sum() < WORTH_NAMING * max(work.span_ns, 1):
        return None
    waited = calls.places_of(gaps_of(rank).launch[segments.gap])
    launched = calls.places_of(work.launch[kernels])
    owners = np.concatenate((waited[waited >= 0], launched[launched >= 0]))
    paths, node = paths_of(calls, owners)
    nodes, size = node[waited[waited >= 0]], paths.parent.size
    own_ns = np.bincount(nodes, idle_ns[waited >= 0], minlength=size).astype(np.float64)
    total_ns = with_inside(own_ns, paths.parent, paths.depth)
    names = rank.trace.events.name.values
    top = _largest(paths, total_ns, names)
    if not top.size or paths.kind[top[0]] in LAUNCH_CALLS:
        return None
    inside = _at_or_below(paths, top)
    mine = kernels[(launched >= 0) & inside[node[launched]]]
    lost = segments.take(np.flatnonzero((waited >= 0) & inside[node[waited]]))
    late = work.named(patterns.DEVICE_TO_HOST.search)[
        np.isin(work.launch, gaps_of(rank).launch[lost.gap])
    ]
    return Region(
        name=_name_of(paths, top, names),
        call=names[paths.name[top[0]]] if top.size == 1 else "",
        idle=Intervals.union(lost.start_ns, lost.end_ns),
        share=float(total_ns[top].sum() / idle_ns.sum()),
        kernels=mine.size,
        median_kernel_ns=_median(work.duration_ns[mine]),
        reads=bool(2 * np.count_nonzero(late) > late.size),
    )


def _largest(paths: Paths, total_ns: Float64Array, names: tuple[str, ...]) -> Int64Array:
    """The outermost nodes of the region: one, or all of the backward pass."""
    roots = np.flatnonzero(paths.depth == 0)
    backward = np.array([bool(AUTOGRAD_THREAD.search(names[paths.name[at]])) for at in roots])
    others, of_backward = roots[~backward], roots[backward]
    if not others.size or total_ns[of_backward].sum() > total_ns[others].max(initial=0):
        return np.asarray(of_backward)
    top = int(others[np.argmax(total_ns[others])])
    # An optimizer is one region, whatever it marks inside, and no call, though ``emit_nvtx`` marks
    # it as an operator: because of a range in it, the advice was to compile a model.
    while (
        not _OPTIMIZER.match(names[paths.name[top]])
        and (inner := np.flatnonzero(paths.parent == top)).size
    ):
        best = int(inner[np.argmax(total_ns[inner])])
        is_operator = paths.kind[best] == Kind.CPU_OP
        is_call = paths.kind[best] in LAUNCH_CALLS or (
            is_operator and not _OPTIMIZER.match(names[paths.name[best]])
        )
        if is_call or total_ns[best] < DOMINATES * total_ns[top]:
            break
        top = best
    return np.array([top])


def _name_of(paths: Paths, top: Int64Array, names: tuple[str, ...]) -> str:
    if top.size > 1:
        return BACKWARD
    name = names[paths.name[top[0]]]
    found = _OPTIMIZER.match(name)
    return found[1] if found else name


def _at_or_below(paths: Paths, top: Int64Array) -> Mask:
    """Mask of some nodes and all nodes below them, with an entry for no node at the end."""
    inside = np.zeros(paths.parent.size + 1, dtype=np.bool_)
    inside[top] = True
    for depth in range(1, int(paths.depth.max(initial=0)) + 1):
        nodes = np.flatnonzero(paths.depth == depth)
        inside[nodes] |= inside[paths.parent[nodes]]
    return inside


def _median(values: Int64Array) -> float:
    return float(np.median(values)) if values.size else 0.0


class Recomputed(NamedTuple):
    """Cost of recomputed forward operators in the analysed steps."""

    kernels: int = 0
    gpu_ns: int = 0
    """Duration of these kernels."""
    host_ns: int = 0
    """Time in the operators on the host."""


def recomputed(
    rank: Rank, steps: DeviceSteps, numbers: Collection[int] | None = None
) -> Recomputed:
    """Find what is recomputed in some steps, or in all if None; nothing without proof."""
    calls = calls_of(rank)
    in_backward = calls.named(AUTOGRAD_THREAD.search)
    if not in_backward.any():
        return Recomputed()
    in_backward = calls.forest.at_or_below(in_backward)
    again = [in_backward & calls.named(each.fullmatch) for each in _FORWARD]
    if not all(each.any() for each in again):
        return Recomputed()
    either, work = again[0] | again[1], steps.work
    inside = np.append(calls.forest.at_or_below(either), False)[calls.places_of(work.launch)]
    chosen = inside & steps.are_in(work.start_ns, numbers) & (work.type == KernelType.COMPUTATION)
    places = np.flatnonzero(either & steps.are_in(calls.start_ns, numbers))
    spent = Intervals.union(calls.start_ns[places], calls.forest.cut_end_ns[places])
    return Recomputed(
        int(np.count_nonzero(chosen)), int(work.duration_ns[chosen].sum()), spent.length
    )


class HeldBack(NamedTuple):
    """Idle time (ns) by what starts after it, where no host is late.

    The work was already launched, or its launch is not recorded. Time between the kernels of one
    graph does not count.
    """

    migration: int = 0
    """Pages of managed memory move, which nothing launches."""
    unrecorded: int = 0
    """Work whose launch is not recorded."""
    graph: int = 0
    """A CUDA graph, at its start or inside it."""
    in_call: int = 0
    """Work whose launch call has not returned, as when the first launch of a kernel loads its code:
    another process was blamed for 494 µs before a first kernel."""
    same_stream: int = 0
    """Other work on the stream that was busy last."""
    other: int = 0


def held_back(rank: Rank, work: GpuWork, gaps: HostGaps) -> HeldBack:
    """Divide the idle time without a late host by what starts after it."""
    held = (gaps.kind == GAP["gap_depend"]) & ~gaps.unattributed & ~gaps.within_graph
    segments = gaps.segments.take(np.flatnonzero(held))
    every = gaps_of(rank)
    launch, after = every.launch[segments.gap], every.after[segments.gap]
    by_row, by_end = np.argsort(work.rows), np.argsort(work.end_ns)
    next_work = by_row[np.searchsorted(work.rows, after, sorter=by_row)]
    last_work = by_end[
        np.searchsorted(work.end_ns, every.start_ns[segments.gap], "right", sorter=by_end) - 1
    ]
    is_of_graph = rank.trace.events.named(launch, patterns.GRAPH_LAUNCH)
    stays = work.stream[next_work] == work.stream[last_work]
    moves = work.named(MIGRATES.search)[next_work]
    middle_ns = segments.start_ns + segments.length_ns // 2
    in_call = (launch != NO_CALL) & (rank.trace.events.ends_of(launch) > middle_ns)
    kinds = [moves, launch == NO_CALL, is_of_graph, in_call, stays]
    which = np.select(kinds, range(len(kinds)), len(kinds))
    sums = np.bincount(which, segments.length_ns, len(HeldBack._fields))
    return HeldBack(*sums.astype(np.int64).tolist())


_ACCUMULATES: Final = re.compile(r"^torch::autograd::AccumulateGrad$")


def gradients_of(rank: Rank) -> float:
    """Mean number of gradients that a rank accumulates per step; 0 without steps."""
    events, marks = rank.trace.events, rank.steps
    rows = events.rows_of(Kind.CPU_OP)
    starts = events.start_ns[rows[events.named(rows, _ACCUMULATES)]]
    inside = Intervals.union(marks.start_ns, marks.end_ns).covers(starts)
    return np.count_nonzero(inside) / max(len(marks.start_ns), 1)


def launches_apart_ns(rank: Rank) -> float:
    """Median time from the launch of one communication kernel to that of the next."""
    work = rank.gpu_work
    launched = work.launch[(work.type == KernelType.COMMUNICATION) & (work.launch >= 0)]
    apart_ns = np.diff(np.sort(rank.trace.events.start_ns[launched]))
    return float(np.median(apart_ns)) if apart_ns.size else 0.0


LEAST_LINEAR: Final = 0.1
"""Products of linear layers per kernel from which their rows matter: a ResNet-50 with one such
layer, 6 of 1,478 kernels, was told to use a larger batch because of it."""

_PRODUCTS: Final = re.compile(r"^aten::(?:linear|addmm|mm)$")

_LINEAR: Final = {re.compile(r"^aten::linear$"): 0, re.compile(r"^aten::addmm$"): 1}
"""Operators of linear layers, and the index of the input that has a row for each sample."""


def rows_of_linear(rank: Rank) -> int:
    """Rows of the largest input of a linear layer; 0 without shapes, or with few such layers."""
    events, most = rank.trace.events, 0
    operators, kernels = events.rows_of(Kind.CPU_OP), events.rows_of(Kind.KERNEL)
    if np.count_nonzero(events.named(operators, _PRODUCTS)) < LEAST_LINEAR * kernels.size:
        return 0
    for name, place in _LINEAR.items():
        rows = operators[events.named(operators, name)]
        (dims, shapes), (types, type_names) = (
            events.texts_at("operators", f"input_{what}", rows) for what in ("dims", "types")
        )
        for one in grouped(dims, types).first.tolist():  # of calls with equal inputs
            if min(dims[one], types[one]) < 0:
                continue
            inputs = inputs_of(shapes[dims[one]], type_names[types[one]])
            tensor = next(iter(inputs.tensors[place : place + 1]), None)
            most = max(most, math.prod(tensor.shape[:-1]) if tensor else 0)
    return most


class HostFacts(NamedTuple):
    """Facts about the host of one rank."""

    gaps: GapOwners
    """Owners of its idle time."""
    launching: Launching
    trials: Trials
    copies: HostCopies
    retries_ns: Int64Array
    """Idle time behind calls that allocate, for each quarter of the time from the first to the last
    boundary of its steps; 0 for a quarter in which nothing is freed, if another one frees."""
    overhead_ns: Mapping[str, int]
    """Time of the profiler by what it does, longest first."""
    has_stacks: bool
    """Whether Python frames are recorded."""
    recomputed: Recomputed
    """Forward operators that run again in the backward pass, as checkpointing makes them."""
    held_back: HeldBack


def host_facts(
    rank: Rank, steps: DeviceSteps, limits: TrialLimits, numbers: Collection[int] | None = None
) -> HostFacts:
    """Facts about the host of a rank with GPU work, in steps of some numbers, or in all if None."""
    work, gaps = rank.gpu_work.by_device()[steps.device], steps.gaps
    counted, found = work, _trials(rank, steps, work, limits)
    if numbers is not None:
        gaps = gaps.take(steps.are_in(gaps.segments.start_ns, numbers))
        counted = work.take(np.flatnonzero(steps.are_in(work.start_ns, numbers)))
    if found.spans_ns:  # they have a finding of their own
        gaps = gaps.take(~found.spans.covers(gaps.segments.start_ns))
        counted = counted.take(np.flatnonzero(~found.spans.covers(counted.start_ns)))
    return HostFacts(
        gaps=gap_owners(rank, gaps),
        launching=launching(rank, counted, gaps),
        trials=found,
        copies=host_copies(rank, steps, numbers),
        retries_ns=_retries(rank, steps),
        overhead_ns=_overhead(rank),
        has_stacks=bool((rank.trace.events.kind == Kind.PYTHON).any()),
        recomputed=recomputed(rank, steps, numbers),
        held_back=held_back(rank, steps.work, gaps),
    )


def _trials(rank: Rank, steps: DeviceSteps, work: GpuWork, limits: TrialLimits) -> Trials:
    window, calls = steps.window, calls_of(rank)
    found = trials(calls, work, window.step_of(rank, work), window.steps.size, limits)
    unmarked = unmarked_trials(calls, work, limits) if NO_STEP in window.steps else None
    if unmarked is None:
        return found
    return unmarked._replace(columns={**unmarked.columns, "once": found.columns["once"]})


def _retries(rank: Rank, steps: DeviceSteps) -> Int64Array:
    alloc, calls = steps.gaps.of_kind("gap_alloc"), calls_of(rank)
    quarters = np.linspace(steps.edges[0], steps.edges[-1], QUARTERS + 1)
    sums = np.zeros(QUARTERS, dtype=np.int64)
    np.add.at(sums, np.searchsorted(quarters[1:-1], alloc.start_ns), alloc.length_ns)
    frees = calls.named(patterns.FREEING.search) & calls.named(patterns.ALLOCATING.search)
    count, _ = np.histogram(calls.start_ns[frees & calls.is_launch_call], quarters)
    return np.where((count > 0) | ~count.any(), sums, 0)


def _overhead(rank: Rank) -> dict[str, int]:
    events = rank.trace.events
    rows = events.rows_of(Kind.OVERHEAD)
    rows = rows[~events.named(rows, patterns.LOADS_CODE)]
    codes = events.name.codes[rows]
    sums = np.bincount(codes, events.duration_ns[rows], minlength=len(events.name.values))
    longest = np.argsort(-sums, kind="stable")[:MOST_OVERHEADS]
    return {events.name.values[code]: int(sums[code]) for code in longest.tolist() if sums[code]}
