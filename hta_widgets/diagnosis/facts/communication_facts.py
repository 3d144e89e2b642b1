"""Communication kernels of one rank whose waiting is known: their step, and why they are exposed.

The stream of a transfer and the launch of the kernel after it show why nothing computes meanwhile.
Before that launch, the host had given the GPU nothing to do; after it, the kernel was ready except
for the transfer that it waits for::

    host   launch A   launch transfer         launch B
    GPU    [  A  ][          transfer                 ][ B ]
                  |--- not launched ---|--- B is held --|
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.communication.partition import RankSplit
from hta_widgets.analyses.time.calls import calls_of, nearest_at_or_above
from hta_widgets.analyses.time.window import NO_STEP, window_of
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.diagnosis.facts.kernel_facts import computing_kernels, time_by_module
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

SHORT_NS: Final = 50_000
"""Transfers up to this length are mostly latency: a ring of NCCL needs 10 to 40 µs between nodes,
however few bytes it sends."""

_OPTIMIZER: Final = "Optimizer.step#"


class Reason(Enum):
    """Why nothing computes during a transfer; if two reasons hold, the first one counts."""

    LATENCY = f"in transfers of at most {SHORT_NS // 1000} µs"
    SAME_STREAM = "on the stream that computes"
    NOT_LAUNCHED = "before the next kernel is launched"
    OPTIMIZER = "while the optimizer waits for it"
    HELD = "while the next kernel waits for it"


def exposed_reasons(
    rank: Rank, work: GpuWork, chosen: GpuWork, arrived_ns: Times, exposed_ns: Times
) -> Mapping[Reason, int]:
    """Exposed transfer (ns) by reason; the sum falls short where launches are not recorded.

    ``chosen`` is the communication in ``work``. For each of its kernels, ``arrived_ns`` is when the
    last member arrives, and ``exposed_ns`` the transfer after that with the device otherwise idle.
    """
    found = dict.fromkeys(Reason, 0)
    for device, every in work.by_device().items():
        here = np.flatnonzero((chosen.device == device) & (exposed_ns > 0))
        computes = every.take(np.flatnonzero(every.type == KernelType.COMPUTATION))
        if not here.size or not len(computes):
            continue
        transfer_ns, ends_ns = exposed_ns[here], chosen.end_ns[here]
        is_short = ends_ns - arrived_ns[here] <= SHORT_NS
        # the stream that computes most: others run helpers of NCCL, such as copies into buckets
        streams, which = np.unique(computes.stream, return_inverse=True)
        busiest = streams[np.argmax(np.bincount(which, computes.duration_ns))]
        is_same = (chosen.stream[here] == busiest) & ~is_short
        launch = np.append(computes.launch, -1)[np.searchsorted(computes.start_ns, ends_ns)]
        is_known = (launch >= 0) & ~is_short & ~is_same
        launched_ns = rank.trace.events.start_ns[launch]
        late_ns = np.clip(launched_ns - arrived_ns[here], 0, transfer_ns) * is_known
        held_ns = (transfer_ns - late_ns) * is_known
        is_last = _in_optimizer(rank, launch)
        for reason, ns in (
            (Reason.LATENCY, transfer_ns * is_short),
            (Reason.SAME_STREAM, transfer_ns * is_same),
            (Reason.NOT_LAUNCHED, late_ns),
            (Reason.OPTIMIZER, held_ns * is_last),
            (Reason.HELD, held_ns * ~is_last),
        ):
            found[reason] += int(ns.sum())
    return found


def _in_optimizer(rank: Rank, launch: Int64Array) -> Mask:
    calls = calls_of(rank)
    is_step = calls.named(lambda name: name.startswith(_OPTIMIZER))
    if not is_step.any():
        return np.zeros(launch.size, dtype=np.bool_)
    nearest = np.append(nearest_at_or_above(calls.forest, is_step), -1)
    return np.asarray(nearest[calls.places_of(launch)] >= 0)


_HIDES: Final = (KernelType.COMPUTATION, KernelType.OTHER, KernelType.CUDA_GRAPH, KernelType.MEMORY)


BEFORE: Final = -2


class CommunicationFacts(NamedTuple):
    """Communication kernels of one rank, in the order of ``RankSplit.rows``."""

    step: Int64Array
    """Number of the ProfilerStep that launched them; `BEFORE` if launched before the first."""
    wait_ns: Times
    transfer_ns: Times
    """Time before and after the last member arrives in which the device does nothing else; kernels
    that run at the same time each count in full."""
    modules: Mapping[str, int]
    """Sum of ``transfer_ns`` by the module that asks for it, see `time_by_module`."""
    reasons: Mapping[Reason, int]
    """Sum of ``transfer_ns`` by why nothing computes meanwhile."""


def communication_facts(rank: Rank, split: RankSplit) -> CommunicationFacts:
    """Collect the communication kernels of a rank whose waiting is known."""
    work = rank.gpu_work
    at = np.searchsorted(work.rows, split.rows)
    chosen = work.take(at)
    wait_ns = np.zeros(at.size, dtype=np.int64)
    transfer_ns = np.zeros(at.size, dtype=np.int64)
    for device, part in work.by_device().items():
        hides = np.flatnonzero(np.isin(part.type, _HIDES))
        hidden = Intervals.union(part.start_ns[hides], part.end_ns[hides])
        here = np.flatnonzero(chosen.device == device)
        start_ns, end_ns = chosen.start_ns[here], chosen.end_ns[here]
        arrived_ns = start_ns + split.wait_ns[here]
        before, met, after = (hidden.covered_until(x) for x in (start_ns, arrived_ns, end_ns))
        wait_ns[here] = arrived_ns - start_ns - (met - before)
        transfer_ns[here] = end_ns - arrived_ns - (after - met)
    places = calls_of(rank).places_of(chosen.launch)
    modules = time_by_module(rank, places, transfer_ns) if transfer_ns.any() else {}
    arrived_ns = chosen.start_ns + split.wait_ns
    reasons = exposed_reasons(rank, work, chosen, arrived_ns, transfer_ns)
    return CommunicationFacts(_steps(rank, chosen), wait_ns, transfer_ns, modules, reasons)


def _steps(rank: Rank, chosen: GpuWork) -> Int64Array:
    """Step of each kernel.

    Kernels whose launch is not recorded belong to no step if they start before the first computing
    kernel of the steps.
    """
    window = window_of(rank)
    step = window.steps[window.step_of(rank, chosen)].astype(np.int64)
    if NO_STEP in window.steps:
        return step
    computes = computing_kernels(rank)
    launched_ns = rank.trace.events.start_ns[computes.launch]
    is_of_steps = (computes.launch >= 0) & (launched_ns >= window.start_ns)
    first_ns = computes.start_ns[is_of_steps].min(initial=window.end_ns)
    launched_ns = rank.trace.events.start_ns[chosen.launch]
    is_known = chosen.launch >= 0
    before = np.where(is_known, launched_ns < window.start_ns, chosen.start_ns < first_ns)
    step[before] = BEFORE
    return step
