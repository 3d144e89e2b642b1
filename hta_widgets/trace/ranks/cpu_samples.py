"""Samples of the CPU, of the threads that launch work."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hta_widgets.arrays import Int64Array
from hta_widgets.grouping import distinct
from hta_widgets.intervals import Times
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.model.events import Kind, TextColumn
from hta_widgets.trace.ranks.rank import Rank


class CpuSamples(NamedTuple):
    """Which function a thread ran at some moments."""

    time_ns: Times
    """Ascending, on the rank's own clock."""
    function: Int64Array
    names: tuple[str, ...]
    """The function of each sample as a position among names; the empty name is not known."""
    period_ns: float
    """Usual time between two samples of a thread."""

    def time_by_function(self, start_ns: Times, end_ns: Times) -> dict[str, int]:
        """How much of some disjoint intervals passes in each function, estimated (ns).

        The samples in an interval share its length, up to one period each: a thread that is
        blocked is not sampled, and the function before a wait of 1 s would have all of it.
        """
        first = np.searchsorted(self.time_ns, start_ns, side="left")
        counts = np.searchsorted(self.time_ns, end_ns, side="left") - first
        held = np.flatnonzero(counts > 0)
        counts, first = counts[held], first[held]
        places = np.arange(counts.sum()) + np.repeat(first - np.cumsum(counts) + counts, counts)
        shares_ns = (end_ns - start_ns)[held] / np.maximum(counts, 1)
        weights = np.repeat(np.minimum(shares_ns, self.period_ns), counts)
        by_function = np.bincount(self.function[places], weights, minlength=len(self.names))
        found = zip(self.names, by_function.round().astype(np.int64).tolist(), strict=True)
        return {name: ns for name, ns in found if name and ns}


def cpu_samples(rank: Rank) -> CpuSamples | None:
    """The samples of a rank; None if its source has none, or if calls say more than they do."""
    if rank.trace.events.rows_of(Kind.CPU_OP, Kind.PYTHON).size:
        return None
    columns = rank.details(DetailGroup.CPU_SAMPLES).table.columns
    function = columns.get("function")
    if not isinstance(function, TextColumn):
        return None
    events, launch = rank.trace.events, rank.launches
    calls = distinct(launch[launch >= 0])
    threads = {*zip(events.pid[calls].tolist(), events.tid[calls].tolist(), strict=True)}
    pid, tid, time_ns = (np.asarray(columns[name]) for name in ("pid", "tid", "time_ns"))
    sampled = zip(pid.tolist(), tid.tolist(), strict=True)
    chosen = np.array([thread in threads for thread in sampled], dtype=np.bool_)
    time_ns, tid = time_ns[chosen], tid[chosen]
    codes = function.codes[chosen].astype(np.int64)
    return CpuSamples(time_ns, codes, function.values, _period_ns(time_ns, tid))


def _period_ns(time_ns: Times, tid: Int64Array) -> float:
    """Median time between two samples of a thread; 0 without two."""
    order = np.argsort(tid, kind="stable")
    is_same = np.diff(tid[order]) == 0
    apart_ns = np.diff(time_ns[order])[is_same]
    return float(np.median(apart_ns)) if apart_ns.size else 0.0
