"""What each operator call of a rank takes, on the CPU and on the GPU."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.idle_owners.idle_by_call import idle_by_call
from hta_widgets.analyses.shared.attribution.ancestors import nearest_at_or_above
from hta_widgets.analyses.shared.attribution.calls import Calls, calls_of
from hta_widgets.analyses.shared.attribution.counted import is_counted, launched_work
from hta_widgets.analyses.shared.attribution.forward_links import forward_places
from hta_widgets.analyses.shared.attribution.sub_forest import SubForest, cpu_times
from hta_widgets.analyses.shared.excerpt import Excerpt, remember
from hta_widgets.analyses.shared.tensor_cores import TensorCores, tensor_cores_of
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.rank import Rank


class Listed(NamedTuple):
    """The calls that are listed.

    Attributes
    ----------
    are_operators : bool
        Whether they are operators; where none were recorded, they are the calls that launch GPU
        work.
    tree : SubForest
    forward : ndarray of int64
        Position of the forward operator that the innermost backward operator at or around each
        differentiates, -1 for none.
    """

    are_operators: bool
    tree: SubForest
    forward: NDArray[np.int64]


class CallTimes(NamedTuple):
    """What each listed call takes; int64 ns, or counts.

    Attributes
    ----------
    calls : ndarray of int64
        1 for a call that starts in the counted time.
    cpu_self_ns, cpu_total_ns, gpu_self_ns, gpu_total_ns : ndarray of int64
        Totals are without what lies in another call of the same name inside it.
    gpu_work, kernels : ndarray of int64
        Pieces of GPU work that count for ``gpu_self_ns``, and how many of them are kernels.
    tensor_core_ns, no_tensor_core_ns : ndarray of int64
        Parts of ``gpu_self_ns`` in kernels with and without tensor cores; of others it is unknown.
    backward_gpu_ns, idle_ns : ndarray of int64
    """

    calls: NDArray[np.int64]
    cpu_self_ns: Times
    cpu_total_ns: Times
    gpu_self_ns: Times
    gpu_total_ns: Times
    gpu_work: NDArray[np.int64]
    kernels: NDArray[np.int64]
    tensor_core_ns: Times
    no_tensor_core_ns: Times
    backward_gpu_ns: Times
    idle_ns: Times


class RankTotals(NamedTuple):
    """The whole of a rank, and what belongs to no operator; in ns."""

    gpu_ns: int
    outside_operators_ns: int
    launch_not_recorded_ns: int
    idle_ns: int
    idle_outside_operators_ns: int


def listed_calls(rank: Rank, excerpt: Excerpt | None) -> Listed:
    """The calls of a rank that are listed."""
    return rank.remember(_listed, everything=excerpt is not None)


def _listed(rank: Rank, *, everything: bool) -> Listed:
    calls = calls_of(rank)
    is_operator = calls.kind == Kind.CPU_OP
    has_operators = bool(is_operator.any())
    chosen = is_operator if has_operators else _launching(rank, calls)
    if not everything:
        chosen = chosen & is_counted(rank, calls, None)
    tree, linked = SubForest.of(calls, chosen), forward_places(rank)
    position = np.full(chosen.size + 1, NO_PARENT)
    position[tree.place] = np.arange(tree.size)
    link = nearest_at_or_above(calls.forest, linked != NO_PARENT)[tree.place]
    forward = position[np.append(linked, NO_PARENT)[link]]
    return Listed(are_operators=has_operators, tree=tree, forward=forward)


def _launching(rank: Rank, calls: Calls) -> NDArray[np.bool_]:
    launching = np.zeros(calls.kind.size + 1, dtype=np.bool_)
    launching[calls.places_of(rank.launches[rank.launches >= 0].astype(np.int64))] = True
    return launching[:-1]


def call_times(rank: Rank, excerpt: Excerpt | None) -> CallTimes:
    """What each listed call takes in the counted time."""
    return remember(rank, _call_times, excerpt)


def _call_times(rank: Rank, excerpt: Excerpt | None) -> CallTimes:
    listed = listed_calls(rank, excerpt)
    tree = listed.tree
    work, place = launched_work(rank, excerpt)
    owner = tree.innermost[place]
    gpu_self = tree.own(owner, work.duration_ns)
    state = tensor_cores_of(work.name, work.names)
    kinds = rank.trace.events.kind[work.rows]
    _, first = np.unique(work.rows, return_index=True)  # an excerpt may hold parts of one kernel
    cpu = cpu_times(rank, tree, excerpt)
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
        backward_gpu_ns=tree.own(listed.forward, gpu_self),
        idle_ns=tree.own(tree.innermost, idle_by_call(rank, excerpt)),
    )


def _counts(positions: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    return np.bincount(positions[positions >= 0], minlength=size).astype(np.int64)


def rank_totals(rank: Rank, excerpt: Excerpt | None) -> RankTotals:
    """The whole of a rank, and what belongs to no operator."""
    listed = listed_calls(rank, excerpt)
    work, place = launched_work(rank, excerpt)
    idle = idle_by_call(rank, excerpt)
    outside = listed.tree.innermost == NO_PARENT
    outside |= not listed.are_operators
    unrecorded = place == NO_PARENT
    return RankTotals(
        gpu_ns=int(work.duration_ns.sum()),
        outside_operators_ns=int(work.duration_ns[~unrecorded & outside[place]].sum()),
        launch_not_recorded_ns=int(work.duration_ns[unrecorded].sum()),
        idle_ns=int(idle.sum()),
        idle_outside_operators_ns=int(np.where(outside, idle, 0).sum()),
    )
