"""What a device does at each instant, counting each instant once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.intervals import Intervals, Times
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.gpu_work import GpuWork

PARTS: Final = (
    "compute",
    "memory",
    "transfer",
    "transfer_p2p",
    "undivided",
    "wait",
    "wait_p2p",
    "idle",
)
"""Parts of the time, each of which takes what earlier ones leave: computation and graphs; copies
and memsets; transfer of collectives, then of sends and receives; communication whose waiting is not
known; waiting in collectives, then in sends and receives; nothing."""

_COMPUTING: Final = (KernelType.COMPUTATION, KernelType.OTHER, KernelType.CUDA_GRAPH)


class RankSplit(NamedTuple):
    """The communication kernels of one rank whose time is split."""

    rows: Int64Array
    """Rows in the rank's events, ascending."""
    wait_ns: Times
    """How long each kernel waits from its start, explained or not; the rest is transfer."""
    is_p2p: Mask
    """Whether each kernel sends or receives."""


class PartOfWork(NamedTuple):
    """Work whose time is one of `PARTS`, as far as earlier parts leave it."""

    positions: Int64Array
    """Positions in the work of the device."""
    start_ns: Times
    end_ns: Times
    """Start and end of this part of each piece of work: a communication kernel waits first, and
    then transfers."""


@dataclass(frozen=True, eq=False)
class Partition:
    """Time of a device by what it does."""

    covers: tuple[Intervals, ...]
    """Time of each part except the last, together with all parts before it."""

    @classmethod
    def of(cls, work: GpuWork, split: RankSplit) -> Partition:
        """Split the time of one device."""
        covers: list[Intervals] = []
        for part in work_by_part(work, split):
            own = Intervals.union(part.start_ns, part.end_ns)
            covers.append(covers[-1] | own if covers else own)
        return cls(tuple(covers))

    def in_bins(self, edges: Times) -> Int64Array:
        """Time (ns) of each of `PARTS` between edges, shape (parts, bins), adding up to the bin."""
        cumulative = [cover.length_in_bins(edges) for cover in self.covers]
        return np.diff([np.zeros_like(cumulative[0]), *cumulative, np.diff(edges)], axis=0)


def work_by_part(work: GpuWork, split: RankSplit) -> tuple[PartOfWork, ...]:
    """The work of a device in each of `PARTS` except the last, in the same order."""
    computes = np.flatnonzero(np.isin(work.type, _COMPUTING))
    copies = np.flatnonzero(work.type == KernelType.MEMORY)
    communicates = np.flatnonzero(work.type == KernelType.COMMUNICATION)
    rows, start_ns = work.rows[communicates], work.start_ns[communicates]
    _, is_split, p2p = waiting_until(rows, start_ns, split)
    one_to_one, among_many = communicates[is_split & p2p], communicates[is_split & ~p2p]
    undivided = communicates[~is_split]
    times = communication_parts(rows, start_ns, work.end_ns[communicates], split)
    positions = (among_many, one_to_one, undivided, among_many, one_to_one)
    return (
        *(PartOfWork(each, work.start_ns[each], work.end_ns[each]) for each in (computes, copies)),
        *(PartOfWork(each, *own) for each, own in zip(positions, times, strict=True)),
    )


def communication_parts(
    rows: Int64Array, start: Times, end: Times, split: RankSplit
) -> list[tuple[Times, Times]]:
    """Starts and ends of the parts of communication kernels, in the order of `PARTS`."""
    last, is_split, p2p = waiting_until(rows, start, split)
    one_to_one, among_many = is_split & p2p, is_split & ~p2p
    return [
        (last[among_many], end[among_many]),
        (last[one_to_one], end[one_to_one]),
        (start[~is_split], end[~is_split]),
        (start[among_many], last[among_many]),
        (start[one_to_one], last[one_to_one]),
    ]


def waiting_until(rows: Int64Array, start: Times, split: RankSplit) -> tuple[Times, Mask, Mask]:
    """Time (ns) until which communication kernels wait, which of them are split, and which send.

    A kernel that is not split stops waiting at its start.
    """
    at = np.minimum(np.searchsorted(split.rows, rows), max(split.rows.size - 1, 0))
    is_split = split.rows[at] == rows if split.rows.size else np.zeros(rows.size, dtype=bool)
    last = start.copy()
    last[is_split] += split.wait_ns[at[is_split]]
    p2p = is_split.copy()
    p2p[is_split] = split.is_p2p[at[is_split]]
    return last, is_split, p2p
