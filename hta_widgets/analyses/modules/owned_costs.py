"""FLOP and GPU memory of one rank by the calls that ask for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hta_widgets.analyses.memory_use.blocks import Blocks, blocks_of, bytes_in_no_block
from hta_widgets.analyses.memory_use.owners import calls_around
from hta_widgets.analyses.memory_use.recorded import DeviceMemory, recorded_memory
from hta_widgets.analyses.roofline.counted import counted_kernels
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.selection import TimeSelection
from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Times
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.rank import Rank


class ByCall(NamedTuple):
    """Amounts by the place of the call that they belong to, -1 for none."""

    place: Int64Array
    amount: Int64Array


class _Memory(NamedTuple):
    """Memory of one GPU, with the call that each event belongs to."""

    events: DeviceMemory
    blocks: Blocks
    call: Int64Array


def flop(rank: Rank, selection: TimeSelection | None) -> ByCall:
    """FLOP of each operator of which the roofline counts them; it starts in the selection."""
    place, amount, start_ns = rank.remember(_flop)
    inside = _inside(rank, selection, start_ns)
    return ByCall(place[inside], amount[inside])


def has_shapes(rank: Rank) -> bool:
    """Whether any operator that launches kernels has shapes."""
    return counted_kernels(rank).has_shapes


def bytes_allocated(rank: Rank, selection: TimeSelection | None) -> list[ByCall]:
    """Size of each allocation on each GPU."""
    found = []
    for memory in rank.remember(_gpu_memory):
        inside = _inside(rank, selection, memory.events.time_ns) & (memory.events.bytes > 0)
        found.append(ByCall(memory.call[inside], memory.events.bytes[inside]))
    return found


def bytes_alive_at_peak(rank: Rank, selection: TimeSelection | None) -> list[ByCall]:
    """What is allocated on each GPU when most is; what is in no block has no owner."""
    found = []
    for events, blocks, call in rank.remember(_gpu_memory):
        inside = np.flatnonzero(_inside(rank, selection, events.time_ns))
        if not inside.size:
            continue
        peak = int(inside[events.allocated[inside].argmax()])
        alive = blocks.alive_at(peak)
        found.append(
            ByCall(
                np.append(call[blocks.opened[alive]], NO_PARENT),
                np.append(blocks.bytes[alive], bytes_in_no_block(events, blocks, peak)),
            )
        )
    return found


def has_gpu_memory(rank: Rank) -> bool:
    """Whether allocations on a GPU are recorded."""
    return bool(rank.remember(_gpu_memory))


def _flop(rank: Rank) -> tuple[Int64Array, Int64Array, Times]:
    """Place, FLOP and start of each operator, once for each device."""
    kernels = counted_kernels(rank)
    counted = np.flatnonzero(kernels.cost >= 0)
    each = counted[grouped(kernels.device[counted], kernels.place[counted]).first]
    of_cost = np.array([cost.flop for cost in kernels.costs], dtype=np.int64)
    place = kernels.place[each]
    return place, of_cost[kernels.cost[each]], calls_of(rank).start_ns[place]


def _gpu_memory(rank: Rank) -> tuple[_Memory, ...]:
    calls = calls_of(rank)
    return tuple(
        _Memory(each, blocks_of(each), calls_around(calls, each, np.arange(each.bytes.size)))
        for each in recorded_memory(rank)
        if not each.is_of_cpu
    )


def _inside(rank: Rank, selection: TimeSelection | None, time_ns: Times) -> Mask:
    if selection is None:
        return np.ones(time_ns.size, dtype=np.bool_)
    return selection.holds(rank, time_ns)
