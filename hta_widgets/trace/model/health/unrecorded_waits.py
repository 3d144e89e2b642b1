"""Waits for the GPU that nothing records: the host goes on whenever its work is done.

::

    host     launch launch |          silence          | launch
    GPU          |== kernel ==|====== kernel ======|    lag
                                                   |---|

A host that is busy with something else goes on at any time. Exports of Nsight Systems that keep
only launches, or were cut down to them, look as if a slow host set the pace of a GPU that never
rests: 400 kernels of 1 ms, each launched 7 µs after the one before it had ended.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hta_widgets.arrays import Int32Array, Int64Array
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import GPU_WORK, LAUNCH_CALLS, Events, Kind

SILENT_NS: Final = 500_000
"""Shorter silences end soon after a kernel by chance."""

SOON: Final = 0.1
"""Part of a silence after the end of the work within which it ends, if that is what it waited for:
of a host that is busy with something else, one in ten does, and 7 of 70 in a recommendation job
without waits."""

FEWEST: Final = 3
MOST_BY_CHANCE: Final = 0.5
"""Part of the silences in which the GPU runs out of work that may end so soon by chance."""

CLOSE_NS: Final = 100_000
"""How far from the end of the operation that was launched last a silence may end that waits for
it: its kernel writes what the host looks for 25 to 67 µs before it ends."""

LEAST_PERCENT: Final = 10.0
"""Part of the time from the first launch to the last in such silences from which they matter."""


class UnrecordedWaits(NamedTuple):
    """Silences of a host that begin while its GPU works, and end after that."""

    silences: int = 0
    soon: int = 0
    """Those of them that end soon after the work, as a call that waits would."""
    percent: float = 0.0
    """Part of the time from the first launch to the last that these take."""

    @property
    def matter(self) -> bool:
        """Whether so many are that host and GPU cannot be told apart as what sets the pace."""
        are_many = self.soon >= FEWEST and self.soon > MOST_BY_CHANCE * self.silences
        return are_many and self.percent > LEAST_PERCENT


class PolledWaits(NamedTuple):
    """Silences in which the host asks again and again whether what it launched last is done."""

    begin_ns: Times
    end_ns: Times
    work: Int64Array
    """Row of the operation that each waits for."""


def unrecorded_waits(silences: Silences | None) -> UnrecordedWaits:
    """Count silences in which the GPU runs out of work."""
    if silences is None:
        return UnrecordedWaits()
    begin_ns, end_ns, done_ns, _, whole_ns = silences
    length_ns = end_ns - begin_ns
    drains = (done_ns > begin_ns) & (done_ns <= end_ns)
    is_soon = drains & (end_ns - done_ns <= SOON * length_ns)
    return UnrecordedWaits(
        silences=int(np.count_nonzero(drains)),
        soon=int(np.count_nonzero(is_soon)),
        percent=100 * float(length_ns[is_soon].sum()) / whole_ns,
    )


def polled_waits(events: Events, silences: Silences | None) -> PolledWaits:
    """Silences that end as the operation does that was launched last; none if so many do by chance.

    DeepEP's dispatch polls the memory of the host for the numbers of tokens that a kernel writes
    there: in the training step that DeepSeek published, for 67 of 130 ms on a GPU that is busy for
    99.6 % of it, and the host seemed to set the pace.
    """
    if silences is None:
        none = np.zeros(0, dtype=np.int64)
        return PolledWaits(none, none, none)
    begin_ns, end_ns, _, last, _ = silences
    last_ns = events.ends_of(last)
    limit_ns = np.minimum(SOON * (end_ns - begin_ns), CLOSE_NS)
    is_close = (last_ns > begin_ns) & (np.abs(end_ns - last_ns) <= limit_ns)
    close = np.count_nonzero(is_close)
    are_many = close >= FEWEST and close > MOST_BY_CHANCE * np.count_nonzero(last_ns > begin_ns)
    chosen = np.flatnonzero(is_close & are_many)
    return PolledWaits(begin_ns[chosen], end_ns[chosen], last[chosen])


class Silences(NamedTuple):
    """No call is running, and nothing of the host begins."""

    begin_ns: Times
    end_ns: Times
    done_ns: Times
    """When all work is done that was launched before each."""
    last: Int64Array
    """Row of the work that was launched last before each."""
    whole_ns: int
    """From the first launch to the last."""


def silences_of(events: Events, launches: Int32Array) -> Silences | None:
    """Find the silences of a host; None without launched work.

    `launches` are the rows of the launch of each event, -1 for none.
    """
    work = events.rows_of(*GPU_WORK)
    work = work[launches[work] >= 0]
    if not work.size:
        return None
    launched_ns = events.start_ns[launches[work]]
    order = np.argsort(launched_ns, kind="stable")
    launched_ns, work = launched_ns[order], work[order]
    done_ns = np.maximum.accumulate(events.ends_of(work))
    rows = events.rows_of(Kind.CPU_OP, Kind.PYTHON, Kind.ANNOTATION, *LAUNCH_CALLS)
    is_call = np.isin(events.kind[rows], LAUNCH_CALLS)
    start_ns = events.start_ns[rows]
    # an operator or a frame may hold the wait: only a call that runs is no silence
    quiet_ns = np.maximum.accumulate(np.where(is_call, events.ends_of(rows), start_ns))
    begin_ns, end_ns = quiet_ns[:-1], start_ns[1:]
    within = (begin_ns >= launched_ns[0]) & (end_ns <= launched_ns[-1])
    within &= end_ns - begin_ns >= SILENT_NS
    begin_ns, end_ns = begin_ns[within], end_ns[within]
    place = np.searchsorted(launched_ns, begin_ns, side="right") - 1
    whole_ns = max(int(np.ptp(launched_ns)), 1)
    return Silences(begin_ns, end_ns, done_ns[place], work[place], whole_ns)
