"""Which tensors of a training step are in the memory of a GPU, and at which addresses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from hta_widgets.sample.kineto_file import Span
from hta_widgets.sample.operators import Allocation, Op, Until

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
    """Hands out blocks as PyTorch's allocator does; freed blocks are kept by size.

    `allocated` and `reserved` are the bytes of the blocks in use, and of the segments.
    """

    def __init__(self) -> None:
        self.allocated = 0
        self.reserved = 0
        self._next_address = FIRST_ADDRESS
        self._free: defaultdict[int, list[int]] = defaultdict(list)
        self._rest: dict[int, tuple[int, int]] = {}
        """Address and bytes of the rest of the last segment, by segment size."""

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


FREE_NS = 30
"""Time between two blocks that are freed one after the other."""


class MemoryLog(Protocol):
    """Records what the caching allocator does."""

    def __call__(self, time_ns: int, change: int, address: int, totals: tuple[int, int]) -> None:
        """Write an event; ``totals`` are the bytes allocated and reserved after it."""


class Tensors:
    """The tensors of one rank; once `log` is set, it gets each change."""

    def __init__(self) -> None:
        self.log: MemoryLog | None = None
        self._allocator = CachingAllocator()
        self._in_use: list[tuple[Block, int]] = []
        self._saved: list[list[Block]] = []
        self._passed_on: list[Block] = []
        self._made: dict[Until, list[Block]] = {until: [] for until in Until}
        self._free_from_ns = 0

    def keep(self, sizes: Iterable[int]) -> None:
        """Allocate tensors of these bytes for good."""
        for size in sizes:
            self._allocator.allocate(size)

    def make(self, allocations: Sequence[Allocation], span_ns: Span) -> None:
        """Make tensors, spread over a stretch of time."""
        if not allocations:
            return
        start_ns, end_ns = span_ns
        for place, each in enumerate(allocations, start=1):
            block = self._allocator.allocate(each.bytes)
            if each.until is Until.USED:
                self._in_use.append((block, each.uses))
            else:
                self._made[each.until].append(block)
            time_ns = start_ns + place * (end_ns - start_ns) // (len(allocations) + 1)
            self._write(time_ns, block, block.bytes)

    def done(self, time_ns: int) -> None:
        """Free the tensors that the operation that just ended was the last to use."""
        ended = [block for block, uses in self._in_use if not uses]
        self._in_use = [(block, uses - 1) for block, uses in self._in_use if uses]
        self._free(ended, time_ns)

    def pass_on(self) -> list[Block]:
        """Pass the new tensors to the next operation; return what it already had."""
        taken, self._passed_on = self._passed_on, self._made[Until.NEXT_DIFFERENTIATED]
        self._made[Until.NEXT_DIFFERENTIATED] = []
        return taken

    def save(self) -> None:
        """Save what the last forward node made and used, until it is differentiated."""
        self._saved.append([*self._made[Until.DIFFERENTIATED], *self.pass_on()])
        self._made[Until.DIFFERENTIATED] = []

    def differentiated(self, time_ns: int) -> None:
        """Free what the last saved node needed for backward."""
        self._free(self._saved.pop(), time_ns)

    def zero_grad(self, span_ns: Span) -> None:
        """Free the gradients of the parameters."""
        start_ns, end_ns = span_ns
        gradients, self._made[Until.ZERO_GRAD] = self._made[Until.ZERO_GRAD], []
        self._free(gradients, start_ns, (end_ns - start_ns) // (len(gradients) + 1))

    def _free(self, blocks: Sequence[Block], time_ns: int, pause_ns: int = FREE_NS) -> None:
        time_ns = max(time_ns, self._free_from_ns)
        for block in blocks:
            time_ns += pause_ns
            self._allocator.free(block)
            self._write(time_ns, block, -block.bytes)
        self._free_from_ns = time_ns

    def _write(self, time_ns: int, block: Block, change: int) -> None:
        if self.log:
            totals = (self._allocator.allocated, self._allocator.reserved)
            self.log(time_ns, change, block.address, totals)


def make_all(tensors: Tensors, op: Op) -> None:
    """Make the tensors of an operator and the operators that it calls, in no time."""
    tensors.make(op.allocates, (0, 0))
    for called in op.calls:
        make_all(tensors, called)
