"""Operators that are recorded for a part of the time only: a buffer that was full, or that wrapped.

::

    operators                     |----| |----| |----|
    launches    | | |  | | |       | |    | |    | |
                |--- outside ---|

What the host does there looks like work that nobody asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from hta_widgets.arrays import Int32Array
from hta_widgets.trace.model.events import LAUNCH_CALLS, Events, Kind, KindSet
from hta_widgets.trace.model.health.lost_work import LAUNCHES_A_KERNEL

INSIDE: Final = 0.9
"""Part of the launches between the first operator and the last that operators make, where the
recording has operators of all."""

OUTSIDE: Final = 0.05
"""Part of the launches before the first operator or after the last, from which they are lost."""

FEWEST_LAUNCHES: Final = 20
"""With fewer launches, a few may well be made by other libraries."""

_OPERATORS: Final = KindSet((Kind.CPU_OP, Kind.PYTHON))


@dataclass(frozen=True, kw_only=True)
class LostOperators:
    """Launches of kernels before the first operator or after the last; 0 where none are lost."""

    launches: int = 0
    outside: int = 0


def lost_operators(events: Events, parents: Int32Array) -> LostOperators:
    """Find out whether operators are recorded for a part of the time only.

    Parameters
    ----------
    events : Events
    parents : ndarray of int32
        Row of the call around each CPU call, -1 for none.
    """
    operators = np.flatnonzero(_OPERATORS.among(events.kind))
    calls = events.rows_of(*LAUNCH_CALLS)
    calls = calls[events.named(calls, LAUNCHES_A_KERNEL)]
    around = parents[calls]
    calls = calls[(around < 0) | ~KindSet(LAUNCH_CALLS).among(events.kind[around])]
    if not operators.size or calls.size < FEWEST_LAUNCHES:
        return LostOperators(launches=calls.size)
    last_ns = int(events.end_ns[operators].max())
    start_ns = events.start_ns[calls]
    between = calls[(start_ns >= events.start_ns[operators[0]]) & (start_ns <= last_ns)]
    around = parents[between]
    inside = np.count_nonzero((around >= 0) & _OPERATORS.among(events.kind[around]))
    outside = calls.size - between.size
    is_lost = outside > OUTSIDE * calls.size and inside > INSIDE * between.size
    return LostOperators(launches=calls.size, outside=outside if is_lost else 0)
