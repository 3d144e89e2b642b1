"""What calls wait for that let the GPU run dry: a copy, and where it goes, or the end of a step.

Pinned memory is no advice for copies of pinned memory, nor for a call that only times a step.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.arrays import Int64Array, IntArray, Mask
from hta_widgets.diagnosis.facts.conditions import Condition
from hta_widgets.grouping import distinct
from hta_widgets.intervals import Times
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.rank import Rank

OF_COPIES: Final = {
    Condition.PAGEABLE: re.compile("Pageable"),
    Condition.PINNED: re.compile("Pinned"),
    Condition.TO_HOST: patterns.DEVICE_TO_HOST,
    Condition.TO_DEVICE: patterns.HOST_TO_DEVICE,
}
"""What the name of a copy between host and device says."""


def conditions_of_drains(
    rank: Rank, drain: IntArray, operator: IntArray, length_ns: Times
) -> frozenset[Condition]:
    """What holds of the calls behind more than half of some idle time.

    Parameters
    ----------
    rank : Rank
    drain, operator : ndarray of int64
        Place of the call that waited before each piece of idle time, and of the outermost operator
        directly around it: the call itself where there is none.
    length_ns : ndarray of int64
    """
    copy = _copies(rank, drain, operator)
    names = np.append(rank.gpu_work.name, -1)[copy]
    known = [*enumerate(rank.gpu_work.names)]
    held = {
        condition: np.isin(names, [code for code, name in known if pattern.search(name)])
        for condition, pattern in OF_COPIES.items()
    }
    held[Condition.ENDS_STEP] = _end_steps(rank, drain)
    return frozenset(
        condition for condition, mask in held.items() if 2 * length_ns[mask].sum() > length_ns.sum()
    )


def _copies(rank: Rank, drain: Int64Array, operator: Int64Array) -> Int64Array:
    """Position of the last copy that is launched inside each operator, until its call has ended.

    A copy to the host is launched by one call, and awaited by another. -1 for none.
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
    """Which calls have the bound of a step between the launches before and after them."""
    calls, marks, events = calls_of(rank), rank.steps, rank.trace.events
    bounds = np.sort(np.concatenate((marks.start_ns, marks.end_ns)))
    launches = rank.launches
    starts = np.sort(events.start_ns[distinct(launches[launches >= 0])])
    ends = (np.iinfo(np.int64).min, np.iinfo(np.int64).max)
    starts = np.concatenate((ends[:1], starts, ends[1:]))
    after = np.searchsorted(starts, calls.start_ns[drain], side="right")
    until = np.searchsorted(bounds, starts[after])
    return (drain >= 0) & (np.searchsorted(bounds, starts[after - 1]) < until)
