"""What a rank does before each of its communication kernels, for those that wait for it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hta_widgets.analyses.budget.device_steps import DeviceSteps
from hta_widgets.analyses.budget.host_gaps import GAP, HOST_GAPS
from hta_widgets.analyses.communication.partition import PARTS, RankSplit
from hta_widgets.arrays import Int64Array
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.ranks.rank import Rank


class BeforeCollectives(NamedTuple):
    """What a rank does before each of its matched communication kernels.

    Attributes
    ----------
    step : ndarray of int64
        Number of the step in which each begins.
    exposed_ns : ndarray of int64
        How long each waits while nothing else runs.
    gaps_ns : ndarray of int64, shape (kernels, kinds)
        Time of each of `HOST_GAPS` since the kernel before it began.
    """

    step: Int64Array
    exposed_ns: Times
    gaps_ns: Int64Array


def before_collectives(rank: Rank, split: RankSplit, steps: DeviceSteps) -> BeforeCollectives:
    """Look at a rank before each of its communication kernels, in the order of ``split.rows``."""
    numbers = steps.window.steps
    start_ns = rank.trace.events.start_ns[split.rows]
    last_ns = start_ns + split.wait_ns
    hidden = steps.busy.covers[PARTS.index("undivided")]
    exposed_ns = split.wait_ns - hidden.covered_until(last_ns) + hidden.covered_until(start_ns)
    at = np.searchsorted(steps.edges, start_ns, side="right") - 1
    gaps_ns = np.zeros((start_ns.size, len(HOST_GAPS)), dtype=np.int64)
    for name in HOST_GAPS:
        segments = steps.gaps.of_kind(name)
        covered = Intervals.union(segments.start_ns, segments.end_ns)
        gaps_ns[:, GAP[name]] = np.diff(covered.covered_until(start_ns), prepend=0)
    return BeforeCollectives(numbers[np.clip(at, 0, numbers.size - 1)], exposed_ns, gaps_ns)
