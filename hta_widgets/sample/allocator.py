"""The caching allocator of one GPU: blocks with addresses, and the memory held for them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

GRANULE: Final = 512
SMALL_BLOCK: Final = 1 << 20
LARGE_BLOCK: Final = 10 << 20
SMALL_SEGMENT: Final = 2 << 20
LARGE_SEGMENT: Final = 20 << 20
FIRST_ADDRESS: Final = 0x7F2E_4000_0000


@dataclass(frozen=True)
class Block:
    """An allocation that has not been freed."""

    address: int
    bytes: int


class CachingAllocator:
    """Hands out blocks as PyTorch's allocator does; freed ones are kept for their size.

    Attributes
    ----------
    allocated, reserved
        Bytes of the blocks in use, and of the segments taken from the GPU.
    """

    def __init__(self) -> None:
        self.allocated = 0
        self.reserved = 0
        self._next_address = FIRST_ADDRESS
        self._free: defaultdict[int, list[int]] = defaultdict(list)
        self._rest: dict[int, tuple[int, int]] = {}
        """Address and bytes of what is left of the last segment, by size of segment."""

    def allocate(self, number_of_bytes: int) -> Block:
        """Take a freed block of this size, or a new one."""
        size = -(-number_of_bytes // GRANULE) * GRANULE
        free = self._free[size]
        address = free.pop() if free else self._carve(size)
        self.allocated += size
        return Block(address, size)

    def free(self, block: Block) -> None:
        """Keep a block for the next allocation of its size."""
        self.allocated -= block.bytes
        self._free[block.bytes].append(block.address)

    def _carve(self, size: int) -> int:
        segment = _segment_bytes(size)
        address, left = self._rest.get(segment, (0, 0))
        if left < size:
            address, left = self._next_address, segment
            self._next_address += segment
            self.reserved += segment
        self._rest[segment] = (address + size, left - size)
        return address


def _segment_bytes(size: int) -> int:
    if size <= SMALL_BLOCK:
        return SMALL_SEGMENT
    if size < LARGE_BLOCK:
        return LARGE_SEGMENT
    return -(-size // SMALL_SEGMENT) * SMALL_SEGMENT
