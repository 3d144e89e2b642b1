"""What a diagnosis needs to know of the host of one rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.analyses.budget.device_steps import DeviceSteps
from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.collectives.partition import RankSplit
from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.diagnosis.facts.arrivals import Arrivals, arrivals
from hta_widgets.diagnosis.facts.gap_owners import GapOwners, gap_owners
from hta_widgets.diagnosis.facts.host_copies import HostCopies, host_copies
from hta_widgets.diagnosis.facts.regions import Launching, launching
from hta_widgets.diagnosis.facts.trials import Trials, trials
from hta_widgets.diagnosis.facts.unmarked_trials import unmarked_trials
from hta_widgets.diagnosis.limits import TrialLimits
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

QUARTERS: Final = 4
MOST_OVERHEADS: Final = 5


class HostFacts(NamedTuple):
    """Facts on the host of one rank.

    Attributes
    ----------
    gaps : GapOwners
        Whom its idle time belongs to.
    arrivals : Arrivals
        What it does before its collectives.
    launching : Launching
    trials : Trials
    copies : HostCopies
    retries_ns : ndarray of int64
        Idle time behind calls that allocate in each quarter of the time between the first and the
        last bound of its steps; 0 where nothing is freed.
    overhead_ns : mapping of str to int
        Time of the profiler by the name of its work, longest first.
    has_stacks : bool
        Whether Python frames are recorded.
    """

    gaps: GapOwners
    arrivals: Arrivals
    launching: Launching
    trials: Trials
    copies: HostCopies
    retries_ns: NDArray[np.int64]
    overhead_ns: Mapping[str, int]
    has_stacks: bool


def host_facts(rank: Rank, steps: DeviceSteps, split: RankSplit, limits: TrialLimits) -> HostFacts:
    """Facts on the host of a rank with GPU work."""
    work = rank.gpu_work.by_device()[steps.device]
    edges, gaps = steps.edges, steps.gaps
    return HostFacts(
        gaps=gap_owners(rank, gaps),
        arrivals=arrivals(rank, split, steps),
        launching=launching(rank, work, gaps),
        trials=_trials(rank, steps, work, limits),
        copies=host_copies(rank, steps.work, edges),
        retries_ns=_retries(rank, steps),
        overhead_ns=_overhead(rank),
        has_stacks=bool((rank.trace.events.kind == Kind.PYTHON).any()),
    )


def _trials(rank: Rank, steps: DeviceSteps, work: GpuWork, limits: TrialLimits) -> Trials:
    window = steps.window
    found = trials(rank, work, window.step_of(rank, work), window.steps.size, limits)
    unmarked = unmarked_trials(rank, work, limits) if NO_STEP in window.steps else None
    if unmarked is None:
        return found
    return unmarked._replace(columns={**unmarked.columns, "once": found.columns["once"]})


def _retries(rank: Rank, steps: DeviceSteps) -> NDArray[np.int64]:
    alloc, calls = steps.gaps.of_kind("gap_alloc"), calls_of(rank)
    quarters = np.linspace(steps.edges[0], steps.edges[-1], QUARTERS + 1)
    sums = np.zeros(QUARTERS, dtype=np.int64)
    np.add.at(sums, np.searchsorted(quarters[1:-1], alloc.start_ns), alloc.length_ns())
    frees = calls.named(patterns.FREEING.search) & calls.named(patterns.ALLOCATING.search)
    count, _ = np.histogram(calls.start_ns[frees & calls.is_launch_call], quarters)
    return np.where(count > 0, sums, 0)


def _overhead(rank: Rank) -> dict[str, int]:
    events = rank.trace.events
    rows = events.rows_of(Kind.OVERHEAD)
    codes = events.name.codes[rows]
    sums = np.bincount(codes, events.duration_ns[rows], minlength=len(events.name.values))
    longest = np.argsort(-sums, kind="stable")[:MOST_OVERHEADS]
    return {events.name.values[code]: int(sums[code]) for code in longest.tolist() if sums[code]}
