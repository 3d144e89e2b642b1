"""Waits for the GPU that are not recorded: the host goes on whenever the GPU's work is done.

::

    host     launch launch |          silence          | launch
    GPU          |== kernel ==|====== kernel ======|    lag
                                                   |---|

A host that is busy with something else goes on at any time. Exports of Nsight Systems that keep
only launches, or were cut down to them, look as if a slow host was the bottleneck of a GPU that
never rests: 400 kernels of 1 ms, each launched 7 µs after the previous one had ended.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hta_widgets.arrays import Int32Array, Int64Array
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import GPU_WORK, LAUNCH_CALLS, Events, Kind

SILENT_NS: Final = 500_000
"""Shortest silence that counts; shorter ones end soon after a kernel by chance."""

SOON: Final = 0.1
"""A silence that waits for the work ends within this share of its length after the work. One in ten
does so by chance if the host is busy with something else: 7 of 70 in a recommendation job without
waits."""

FEWEST: Final = 3
MOST_BY_CHANCE: Final = 0.5
"""Share of the silences in which the GPU runs out of work that may end so soon by chance."""

CLOSE_NS: Final = 100_000
"""A silence that waits for the last launched operation ends at most this far from its end: the
kernel writes what the host looks for 25 to 67 µs before it ends."""

LEAST_PERCENT: Final = 10.0
"""Share of the time from the first launch to the last above which such silences matter."""


class UnrecordedWaits(NamedTuple):
    """Silences of a host that start while its GPU works, and end after that."""

    silences: int = 0
    soon: int = 0
    """Silences that end soon after the work, as a call that waits would."""
    percent: float = 0.0
    """Share (%) of the time from the first launch to the last that the latter take."""

    @property
    def matter(self) -> bool:
        """Whether there are too many to tell whether host or GPU is the bottleneck."""
        are_many = self.soon >= FEWEST and self.soon > MOST_BY_CHANCE * self.silences
        return are_many and self.percent > LEAST_PERCENT


class PolledWaits(NamedTuple):
    """Silences in which the host polls whether its last launched operation is done."""

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
    """Silences that end with the last launched operation; none if that may be chance.

    DeepEP's dispatch polls host memory for the token counts that a kernel writes there. In the
    training step that DeepSeek published, it does so for 67 of 130 ms, on a GPU that is busy for
    99.6 % of the time, and the host seemed to be the bottleneck.
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
    """Times in which no call is running, and nothing starts on the host."""

    begin_ns: Times
    end_ns: Times
    done_ns: Times
    """When all work that was launched before each is done."""
    last: Int64Array
    """Row of the last work launched before each."""
    whole_ns: int
    """Time from the first launch to the last."""


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
    # an operator or a frame may contain the wait: only a running call ends a silence
    quiet_ns = np.maximum.accumulate(np.where(is_call, events.ends_of(rows), start_ns))
    begin_ns, end_ns = quiet_ns[:-1], start_ns[1:]
    within = (begin_ns >= launched_ns[0]) & (end_ns <= launched_ns[-1])
    within &= end_ns - begin_ns >= SILENT_NS
    begin_ns, end_ns = begin_ns[within], end_ns[within]
    place = np.searchsorted(launched_ns, begin_ns, side="right") - 1
    whole_ns = max(int(np.ptp(launched_ns)), 1)
    return Silences(begin_ns, end_ns, done_ns[place], work[place], whole_ns)
