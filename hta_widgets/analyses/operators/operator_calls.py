"""What each operator call of a rank takes, on the CPU and on the GPU."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hta_widgets.analyses.idle_owners.sums import idle_by_call
from hta_widgets.analyses.time.call_sums import SubForest, cpu_times, host_time, launched_work
from hta_widgets.analyses.time.calls import Calls, calls_of, nearest_at_or_above
from hta_widgets.analyses.time.modules import forward_places
from hta_widgets.analyses.time.selection import EVERYTHING, TimeSelection, remember
from hta_widgets.analyses.time.tensor_cores import TensorCores, tensor_cores_of
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.rank import Rank


class Listed(NamedTuple):
    """The calls that are listed."""

    are_operators: bool
    """Whether they are operators; where none were recorded, they are the calls that launch GPU
    work."""
    tree: SubForest
    forward: Int64Array
    """Position of the forward operator that the innermost backward operator at or around each
    differentiates, -1 for none."""


class CallTimes(NamedTuple):
    """What each listed call takes; int64 ns, or counts."""

    calls: Int64Array
    """1 for a call that starts in the counted time."""
    cpu_self_ns: Times
    cpu_total_ns: Times
    gpu_self_ns: Times
    gpu_total_ns: Times
    """Totals are without what lies in another call of the same name inside it."""
    gpu_work: Int64Array
    """Pieces of GPU work that count for ``gpu_self_ns``."""
    kernels: Int64Array
    """How many of them are kernels."""
    tensor_core_ns: Times
    """Part of ``gpu_self_ns`` in kernels with tensor cores."""
    no_tensor_core_ns: Times
    """Part in kernels without; of others it is unknown."""
    backward_gpu_ns: Times
    idle_ns: Times


class RankTotals(NamedTuple):
    """The whole of a rank, and what belongs to no operator; in ns."""

    gpu_ns: int
    outside_operators_ns: int
    launch_not_recorded_ns: int
    idle_ns: int
    idle_outside_operators_ns: int


def listed_calls(rank: Rank) -> Listed:
    """The calls of a rank that are listed where anything of them is counted."""
    return rank.remember(_listed)


def may_be_listed(rank: Rank) -> tuple[Mask, bool]:
    """Which calls are listed in any selection, and whether they are operators."""
    calls = calls_of(rank)
    is_operator = calls.kind == Kind.CPU_OP
    has_operators = bool(is_operator.any())
    return is_operator if has_operators else _launching(rank, calls), has_operators


def _listed(rank: Rank) -> Listed:
    calls = calls_of(rank)
    chosen, has_operators = may_be_listed(rank)
    tree, linked = SubForest.of(calls, chosen), forward_places(rank)
    position = np.full(chosen.size + 1, NO_PARENT)
    position[tree.place] = np.arange(tree.size)
    link = nearest_at_or_above(calls.forest, linked != NO_PARENT)[tree.place]
    forward = position[np.append(linked, NO_PARENT)[link]]
    return Listed(are_operators=has_operators, tree=tree, forward=forward)


def _launching(rank: Rank, calls: Calls) -> Mask:
    launching = np.zeros(calls.kind.size + 1, dtype=np.bool_)
    launching[calls.places_of(rank.launches[rank.launches >= 0].astype(np.int64))] = True
    return launching[:-1]


def counted_calls(rank: Rank, selection: TimeSelection | None) -> SubForest:
    """The listed calls of which anything may be counted."""
    return remember(rank, _counted_calls, selection)


def _counted_calls(rank: Rank, selection: TimeSelection | None) -> SubForest:
    listed = listed_calls(rank)
    tree = listed.tree
    if selection is None:
        return tree
    owner = tree.at(launched_work(rank, selection).place)
    forward = np.append(listed.forward, NO_PARENT)[owner]
    idle, counted = tree.at(idle_by_call(rank, selection).place), host_time(rank, selection)
    return tree.with_around(np.concatenate((tree.open_in(counted), owner, forward, idle)))


def call_times(rank: Rank, selection: TimeSelection | None) -> CallTimes:
    """What each of `counted_calls` takes in the counted time."""
    return remember(rank, _call_times, selection)


def _call_times(rank: Rank, selection: TimeSelection | None) -> CallTimes:
    tree = counted_calls(rank, selection)
    work, place = launched_work(rank, selection)
    owner = tree.at(place)
    gpu_self = tree.own(owner, work.duration_ns)
    state = tensor_cores_of(work.name, work.names)
    kinds = rank.trace.events.kind[work.rows]
    first = np.flatnonzero((selection or EVERYTHING).counts(work))
    cpu, idle = cpu_times(rank, tree, selection), idle_by_call(rank, selection)
    forward = listed_calls(rank).forward
    if tree.whole is not None:
        forward = tree.of_whole(forward[tree.whole])
    return CallTimes(
        calls=cpu.calls,
        cpu_self_ns=cpu.inside_ns - tree.own(tree.parent, cpu.inside_ns),
        cpu_total_ns=cpu.inside_ns - tree.own(tree.same_name, cpu.inside_ns),
        gpu_self_ns=gpu_self,
        gpu_total_ns=tree.totals(gpu_self),
        gpu_work=_counts(owner[first], tree.size),
        kernels=_counts(owner[first[kinds[first] == Kind.KERNEL]], tree.size),
        tensor_core_ns=tree.own(owner, work.duration_ns * (state == TensorCores.YES)),
        no_tensor_core_ns=tree.own(owner, work.duration_ns * (state == TensorCores.NO)),
        backward_gpu_ns=tree.own(forward, gpu_self),
        idle_ns=tree.own(tree.at(idle.place), idle.ns),
    )


def _counts(positions: Int64Array, size: int) -> Int64Array:
    return np.bincount(positions[positions >= 0], minlength=size).astype(np.int64)


def rank_totals(rank: Rank, selection: TimeSelection | None) -> RankTotals:
    """The whole of a rank, and what belongs to no operator."""
    listed, idle = listed_calls(rank), idle_by_call(rank, selection)
    work, place = launched_work(rank, selection)
    unrecorded = place == NO_PARENT
    outside, idle_outside = (
        (listed.tree.at(each) == NO_PARENT) | (not listed.are_operators)
        for each in (place, idle.place)
    )
    return RankTotals(
        gpu_ns=int(work.duration_ns.sum()),
        outside_operators_ns=int(work.duration_ns[~unrecorded & outside].sum()),
        launch_not_recorded_ns=int(work.duration_ns[unrecorded].sum()),
        idle_ns=int(idle.ns.sum()),
        idle_outside_operators_ns=int(idle.ns[idle_outside].sum()),
    )
