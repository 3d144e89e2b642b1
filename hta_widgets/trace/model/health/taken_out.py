"""Tell whether most events were removed from a file after it was recorded."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hta_widgets.arrays import Int32Array
from hta_widgets.grouping import distinct
from hta_widgets.trace.model.events import GPU_WORK, LAUNCH_CALLS, Events

FEWEST_CALLS: Final = 500

LEAST_LEFT: Final = 0.01
"""Smallest share of the numbers of its calls that a whole recording has. CUDA numbers all calls,
and PyTorch's profiler leaves some out: 3 to 28 % of the numbers are there, on AMD GPUs all of them.
In a file from HTA's filter it is 0.5 %, and a "stall of 27 ms" was 7,636 calls long."""


class TakenOut(NamedTuple):
    """Calls that are left, and how many there were by their numbers; 0 if none is missing."""

    left: int = 0
    there_were: int = 0


def taken_out(events: Events, launches: Int32Array) -> TakenOut:
    """Compare the numbers of the calls with how many there are.

    A filter keeps only the calls that launch the remaining work. A program that polls the GPU in a
    loop has other calls, too.
    """
    rows = events.rows_of(*LAUNCH_CALLS)
    numbers = np.sort(events.correlation[rows].astype(np.int64))  # they may be far apart
    numbers = numbers[(numbers > 0) & (np.diff(numbers, prepend=0) > 0)]
    if numbers.size < FEWEST_CALLS:
        return TakenOut()
    there_were, few = int(numbers[-1] - numbers[0]) + 1, numbers.size // 100
    most = numbers[few:-few]  # a few calls with other numbers say nothing about the rest
    if max(numbers.size / there_were, most.size / int(most[-1] - most[0] + 1)) >= LEAST_LEFT:
        return TakenOut()
    launching = distinct(launches[events.rows_of(*GPU_WORK)])
    return TakenOut(numbers.size, there_were) if np.isin(rows, launching).all() else TakenOut()
