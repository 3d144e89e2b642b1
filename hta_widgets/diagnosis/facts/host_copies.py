"""Copies between host and device that hold up the work of a rank."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.time import patterns
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.diagnosis.facts.inside import Inside
from hta_widgets.diagnosis.facts.inside import inside as inside_of
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank

FOLLOWED_NS: Final = 50_000
"""A kernel that starts so soon after a copy waited for it."""

LONG_NS: Final = 100_000
"""Shorter copies to the host are those of single numbers."""


class CopiesOfName(NamedTuple):
    """Exposed copies of one name, such as ``Memcpy HtoD (Pageable -> Device)``."""

    name: str
    copies: int
    size_bytes: int
    duration_ns: int
    exposed_ns: int


class HostCopies(NamedTuple):
    """Exposed copies of a rank: no kernel runs beside them.

    Attributes
    ----------
    exposed_ns : ndarray of int64
        Of each step.
    by_name : tuple of CopiesOfName
        Longest first.
    inside : Inside
        The calls that ask for most of the exposed time.
    """

    exposed_ns: Int64Array
    by_name: tuple[CopiesOfName, ...]
    inside: Inside

    @property
    def are_pageable(self) -> bool:
        """Whether most of the time goes to pageable memory of the host."""
        pageable = sum(each.exposed_ns for each in self.by_name if "Pageable" in each.name)
        return 2 * pageable > sum(each.exposed_ns for each in self.by_name)


def host_copies(rank: Rank, work: GpuWork, edges: Times) -> HostCopies:
    """Find the exposed copies between host and device.

    Parameters
    ----------
    rank : Rank
    work : GpuWork
        All recorded work of its device.
    edges : ndarray of int64
        Bounds of the steps.
    """
    to_device, to_host = (
        _named(work, pattern) for pattern in (patterns.HOST_TO_DEVICE, patterns.DEVICE_TO_HOST)
    )
    if not (to_device.any() or to_host.any()):
        return HostCopies(np.zeros(edges.size - 1, dtype=np.int64), (), Inside())
    computes = (work.type != KernelType.MEMORY) & (work.type != KernelType.COMMUNICATION)
    computing = np.flatnonzero(computes)
    beside = np.isin(work.stream, np.unique(work.stream[computing]))
    starts = work.start_ns[computing]
    after = np.searchsorted(starts, work.end_ns)
    next_ns = np.append(starts, np.iinfo(np.int64).max)[after]
    holds_up = to_device & (beside | (next_ns - work.end_ns <= FOLLOWED_NS))
    holds_up |= to_host & beside & (work.duration_ns > LONG_NS)
    kernels = np.flatnonzero(work.type != KernelType.MEMORY)
    busy = Intervals.union(work.start_ns[kernels], work.end_ns[kernels])
    chosen = np.flatnonzero(holds_up)
    alone = Intervals.union(work.start_ns[chosen], work.end_ns[chosen]) - busy
    inside = (work.start_ns[chosen] >= edges[0]) & (work.end_ns[chosen] <= edges[-1])
    chosen = chosen[inside]
    start, end = work.start_ns[chosen], work.end_ns[chosen]
    exposed_ns = end - start - (busy.covered_until(end) - busy.covered_until(start))
    launched = calls_of(rank).places_of(work.launch[chosen])
    return HostCopies(
        exposed_ns=alone.length_in_bins(edges),
        by_name=_by_name(rank, work, chosen, exposed_ns),
        inside=inside_of(rank, launched, exposed_ns),
    )


def _by_name(
    rank: Rank, work: GpuWork, chosen: Int64Array, exposed_ns: Times
) -> tuple[CopiesOfName, ...]:
    sizes = _sizes(rank, work.rows[chosen])
    groups = grouped(work.name[chosen])
    found = [
        CopiesOfName(
            name=work.names[work.name[chosen[rows[0]]]],
            copies=rows.size,
            size_bytes=int(sizes[rows].sum()),
            duration_ns=int(work.duration_ns[chosen[rows]].sum()),
            exposed_ns=int(exposed_ns[rows].sum()),
        )
        for rows in groups.parts
    ]
    return tuple(sorted(found, key=lambda each: -each.exposed_ns))


def _sizes(rank: Rank, rows: Int64Array) -> Int64Array:
    """Bytes of each copy, 0 where they are not recorded."""
    table = rank.trace.events.side.get("transfers")
    if table is None or not table.rows.size:
        return np.zeros(rows.size, dtype=np.int64)
    at = table.places_of(rows)
    sizes = np.asarray(table.columns["bytes"])[at]
    return np.where(at >= 0, np.maximum(sizes, 0), 0).astype(np.int64)


def _named(work: GpuWork, pattern: re.Pattern[str]) -> Mask:
    codes = [code for code in np.unique(work.name).tolist() if pattern.search(work.names[code])]
    return np.asarray(np.isin(work.name, codes) & (work.type == KernelType.MEMORY))
