"""Communication kernels of one rank whose waiting is known: in which step, and how much shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.communication.partition import RankSplit
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.window import NO_STEP, window_of
from hta_widgets.arrays import Int64Array
from hta_widgets.diagnosis.facts.exposed_reasons import Reason, exposed_reasons
from hta_widgets.diagnosis.facts.kernel_facts import computing_kernels
from hta_widgets.diagnosis.facts.operators_of_kernels import time_by_module
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

_HIDES: Final = (KernelType.COMPUTATION, KernelType.OTHER, KernelType.CUDA_GRAPH, KernelType.MEMORY)


BEFORE: Final = -2


class CommunicationFacts(NamedTuple):
    """Communication kernels of one rank, in the order of ``RankSplit.rows``.

    Attributes
    ----------
    step : ndarray of int64
        Number of the ProfilerStep that launched them; `BEFORE` of those launched before the first.
    wait_ns, transfer_ns : ndarray of int64
        Time before and after the last member arrives in which the device does nothing else;
        kernels that run at once are counted each.
    modules : mapping of str to int
        ``transfer_ns`` of all of them by the module that asks for it, see `time_by_module`.
    reasons : mapping of Reason to int
        ``transfer_ns`` of all of them by why nothing computes meanwhile.
    """

    step: Int64Array
    wait_ns: Times
    transfer_ns: Times
    modules: Mapping[str, int]
    reasons: Mapping[Reason, int]


def communication_facts(rank: Rank, split: RankSplit) -> CommunicationFacts:
    """Communication kernels of a rank, with their waiting known."""
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

    Where the launch is not recorded, the kernels that start before any work of the steps that
    computes are of none.
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
