"""The time in which a GPU is busy with work that was launched before the recording."""

from __future__ import annotations

from typing import Final

import numpy as np

from hta_widgets.intervals import Intervals
from hta_widgets.trace.ranks.rank import NEVER, Rank

WAIT_NS: Final = 1_000_000
"""From then on, a launch call that has returned waits for something: a GPU that is free begins
within some µs."""

LEAST_SEEN: Final = 0.5
"""Part of the lead-in in which a launch must wait: real ones wait for 94 % and more of it. After
19.6 s in which a process made its CUDA context, its first kernel began 4 ms after its launch."""

OTHERS: Final = 0.01
"""Part of the wait for which recorded work may run before: on other streams, which are free."""


def lead_in_end(rank: Rank, device: int) -> int | None:
    """When a device has done what was launched before the recording; None where that is not known.

    A server is recorded while a batch runs whose kernels the recorder never shows: the first launch
    returns at once, and its kernel starts 463 ms later, on a GPU that looks idle::

        recording    |
        launch         []                         []
        stream         (launched before)====kernel====|  ====
                     |----- lead-in ----|

    The first work of a stream tells it, if it waits for most of that time, hardly anything that is
    recorded runs before, and no kernel was launched before that the recorder lost: it may wait for
    that.
    """
    work = rank.all_work(device)
    work = work.take(np.flatnonzero(work.duration_ns))
    order = np.lexsort((work.start_ns, work.stream))
    first = order[np.flatnonzero(np.diff(work.stream[order], prepend=-1))]
    first = first[work.launch[first] >= 0]
    events, launch = rank.trace.events, work.launch[first]
    waited_ns = work.start_ns[first] - events.start_ns[launch] - events.duration_ns[launch]
    busy = Intervals.union(work.start_ns, work.end_ns)
    before_ns = busy.covered_until(work.start_ns[first])
    lost_ns = min((each.start_ns for each in rank.health.lost.stretches), default=NEVER)
    least_ns = LEAST_SEEN * (work.start_ns[first] - events.start_ns[0])
    waits = (waited_ns >= np.maximum(WAIT_NS, least_ns)) & (events.start_ns[launch] < lost_ns)
    held = first[waits & (before_ns <= OTHERS * waited_ns)]
    return int(work.start_ns[held].max()) if held.size else None
