"""Blocks of memory: each allocation with the free that ends it."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.memory_use.recorded import NOT_RECORDED, DeviceMemory
from hta_widgets.arrays import Int64Array

NEVER: Final = -1


class Blocks(NamedTuple):
    """Blocks of one device in the order of their allocation."""

    opened: Int64Array
    """Position of the allocation among the events of the device."""
    freed: Int64Array
    """Position of the free, `NEVER` if it is not recorded."""
    gone: Int64Array
    """Position from which the block does not count: that of the free, or of the next segment."""
    bytes: Int64Array

    def alive_at(self, position: int) -> Int64Array:
        """Numbers of the blocks that are open after an event."""
        return np.flatnonzero((self.opened <= position) & (position < self.gone))


def blocks_of(memory: DeviceMemory) -> Blocks:
    """Pair allocations with frees: the next event at the address frees the whole block.

    A free of another size, or of an address that is not open, is one of a block from before.
    Without addresses there are no blocks.
    """
    known = np.flatnonzero(memory.address != NOT_RECORDED)
    order = known[np.lexsort((known, memory.address[known], memory.segment[known]))]
    address, segment, size = (
        column[order] for column in (memory.address, memory.segment, memory.bytes)
    )
    is_freed = (address[1:] == address[:-1]) & (segment[1:] == segment[:-1])
    is_freed &= (size[:-1] > 0) & (size[1:] == -size[:-1])
    freed_by = np.full(memory.bytes.size, NEVER, dtype=np.int64)
    freed_by[order[:-1][is_freed]] = order[1:][is_freed]
    opened = known[memory.bytes[known] > 0]
    ends = np.searchsorted(memory.segment, memory.segment[opened], side="right")
    freed = freed_by[opened]
    return Blocks(opened, freed, np.where(freed == NEVER, ends, freed), memory.bytes[opened])


def bytes_in_no_block(memory: DeviceMemory, blocks: Blocks, position: int) -> int:
    """Bytes that are allocated after an event, of which the allocation is not known."""
    alive = blocks.alive_at(position)
    return int(memory.allocated[position]) - int(blocks.bytes[alive].sum())


def bytes_before(memory: DeviceMemory, blocks: Blocks, position: int) -> int:
    """Bytes in no block that were surely allocated before the segment of the recording.

    Without addresses, as in 2021, a free may be of what was there before, and an allocation opens
    no block: only what was there when the segment began and was not freed since is surely older.
    """
    in_no_block = bytes_in_no_block(memory, blocks, position)
    if (memory.address != NOT_RECORDED).all():
        return in_no_block
    first = int(np.searchsorted(memory.segment, memory.segment[position]))
    known = blocks.freed[(first <= blocks.freed) & (blocks.freed <= position)]
    changes = memory.bytes[first : position + 1].copy()
    changes[known - first] = 0
    start = int(memory.allocated[first] - memory.bytes[first])
    return min(max(start + int(changes[changes < 0].sum()), 0), in_no_block)
