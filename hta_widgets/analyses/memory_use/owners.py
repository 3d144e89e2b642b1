"""Blocks of memory: which call allocates each, what it is for, and which free ends it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.memory_use.recorded import NOT_RECORDED, DeviceMemory
from hta_widgets.analyses.time.calls import Calls, calls_of
from hta_widgets.analyses.time.modules import OPTIMIZER, PHASES, has_modules, phases
from hta_widgets.analyses.time.patterns import AUTOGRAD_THREAD
from hta_widgets.arrays import Int64Array
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.rank import Rank

CATEGORIES: Final = (
    "before the recording",
    "temporary",
    "activation",
    "gradient",
    "optimizer state",
    "other",
    "unknown",
)
"""What a block is for, by code."""

_BEFORE, _TEMPORARY, _ACTIVATION, _GRADIENT, _OPTIMIZER_STATE, _OTHER, _UNKNOWN = range(
    len(CATEGORIES)
)

BEFORE: Final = CATEGORIES[_BEFORE]
UNKNOWN: Final = CATEGORIES[_UNKNOWN]

NO_BLOCKS: Final = (BEFORE, UNKNOWN)
"""Categories of memory that is in no block, and has no owner."""

ALLOCATORS: Final = re.compile(
    r"^aten::(empty(_like|_strided|_permuted|_quantized)?|new_empty(_strided)?|resize_"
    r"|_reshape_alias_copy|zeros(_like)?|new_zeros|ones(_like)?|new_ones|full(_like)?|new_full)$"
)
"""Operators that allocate the result of the operator around them."""

_LATE: Final = np.iinfo(np.int64).max
NEVER: Final = -1


class Owners(NamedTuple):
    """Calls that own blocks, by place; -1 for none."""

    call: Int64Array
    """Innermost call of the thread."""
    operator: Int64Array
    """Innermost operator."""
    caller: Int64Array
    """Innermost operator that does more than allocate; the outermost operator if none does."""


def owners_of(rank: Rank, memory: DeviceMemory, positions: Int64Array) -> Owners:
    """Owners of the events at some positions of a device."""
    calls = calls_of(rank)
    call = calls_around(calls, memory, positions)
    operator = calls.operator[call].astype(np.int64)
    more = _nearest_user(calls, call)
    return Owners(call, operator, np.where(more != NO_PARENT, more, _outermost(rank, operator)))


def _outermost(rank: Rank, operator: Int64Array) -> Int64Array:
    """Place of the outermost operator around each operator."""
    calls = calls_of(rank)
    parent = np.append(calls.forest.parent, NO_PARENT)
    found = operator
    while ((above := calls.operator[parent[found]]) != NO_PARENT).any():
        found = np.where(above != NO_PARENT, above, found)
    return found


def _nearest_user(calls: Calls, call: Int64Array) -> Int64Array:
    """Place of the innermost operator at or around each call that does more than allocate.

    ``call`` holds few of all calls; -1 stands for none.
    """
    is_user = (calls.kind == Kind.CPU_OP) & ~calls.named(ALLOCATORS.search)
    found, is_end = call.copy(), np.append(is_user, True)
    climbing = np.flatnonzero(~is_end[found])
    while climbing.size:
        found[climbing] = calls.forest.parent[found[climbing]]
        climbing = climbing[~is_end[found[climbing]]]
    return found


def calls_around(calls: Calls, memory: DeviceMemory, positions: Int64Array) -> Int64Array:
    """Place of the innermost call that runs on the thread of each event, -1 for none."""
    time_ns, found = memory.time_ns[positions], np.full(positions.size, NO_PARENT, dtype=np.int64)
    for thread in calls.threads:
        mine = np.flatnonzero(
            (memory.pid[positions] == thread.pid) & (memory.tid[positions] == thread.tid)
        )
        starts = calls.events.start_ns[calls.forest.rows[thread.first : thread.last]]
        last = np.searchsorted(starts, time_ns[mine], side="right") - 1
        found[mine] = np.where(last >= 0, last + thread.first, NO_PARENT)
    ended = np.flatnonzero(found != NO_PARENT)
    while ended.size:
        ended = ended[calls.forest.cut_end_ns[found[ended]] <= time_ns[ended]]
        found[ended] = calls.forest.parent[found[ended]]
        ended = ended[found[ended] != NO_PARENT]
    return found


class _Passes(NamedTuple):
    """Times that separate the passes of training."""

    backward_ns: Times
    """Starts of calls of the autograd threads."""
    others_ns: Times
    """Starts of operators outside the backward pass."""
    optimizer_ns: Times
    """Starts of calls of optimizers."""


def categories(rank: Rank, memory: DeviceMemory, blocks: Blocks, owners: Owners) -> Int64Array:
    """Positions in `CATEGORIES` of what blocks are for, judging by owner and lifetime."""
    calls = calls_of(rank)
    born_ns = memory.time_ns[blocks.opened]
    freed_ns = np.where(blocks.freed == NEVER, _LATE, memory.time_ns[blocks.freed])
    phase = np.append(phases(rank), np.int8(PHASES.index("other")))[owners.call]
    is_forward = phase == PHASES.index("forward")
    if not has_modules(rank):
        is_forward |= (phase == PHASES.index("other")) & (freed_ns != _LATE)
    passes = rank.remember(_passes)
    call_end_ns = np.append(calls.forest.cut_end_ns, -1)[owners.caller]
    return np.select(
        [
            freed_ns < call_end_ns,
            (phase == PHASES.index("optimizer"))
            & (freed_ns > _next(passes.optimizer_ns, born_ns, call_end_ns)),
            (phase == PHASES.index("backward")) & (freed_ns > _next(passes.others_ns, born_ns)),
            is_forward & (freed_ns > _next(passes.backward_ns, born_ns, missing=_LATE)),
        ],
        [_TEMPORARY, _OPTIMIZER_STATE, _GRADIENT, _ACTIVATION],
        _OTHER,
    )


def _passes(rank: Rank) -> _Passes:
    calls = calls_of(rank)
    operators = calls.kind == Kind.CPU_OP
    engine = operators & calls.named(AUTOGRAD_THREAD.search)
    outside = operators & ~calls.forest.at_or_below(engine)
    elsewhere = outside.copy()
    for thread in calls.threads:
        own = slice(thread.first, thread.last)
        elsewhere[own] &= not engine[own].any()
    outside = elsewhere if elsewhere.any() else outside
    optimizers = calls.named(OPTIMIZER.search)
    rows = [calls.forest.rows[each] for each in (engine, outside, optimizers)]
    return _Passes(*(np.sort(calls.events.start_ns[each]) for each in rows))


def _next(
    times: Times, after_ns: Times, at_least_ns: Times | None = None, missing: int = _LATE - 1
) -> Times:
    """The first of some times after each; `missing`, after all recorded times, if there is none."""
    asked = after_ns if at_least_ns is None else np.maximum(after_ns, at_least_ns)
    return np.append(times, missing)[np.searchsorted(times, asked, side="right")]


class Blocks(NamedTuple):
    """Blocks of one device in the order of their allocation."""

    opened: Int64Array
    """Position of the allocation among the events of the device."""
    freed: Int64Array
    """Position of the free, `NEVER` if not recorded."""
    gone: Int64Array
    """Position from which the block no longer counts: of the free, or of the next segment."""
    bytes: Int64Array

    def alive_at(self, position: int) -> Int64Array:
        """Numbers of the blocks that are open after an event."""
        return np.flatnonzero((self.opened <= position) & (position < self.gone))


def blocks_of(memory: DeviceMemory) -> Blocks:
    """Pair allocations with frees: the next event at the address frees the whole block.

    A free of another size, or of an address that is not open, belongs to an earlier block. Without
    addresses there are no blocks.
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
    """Bytes that are allocated after an event, but whose allocation is not known."""
    alive = blocks.alive_at(position)
    return int(memory.allocated[position]) - int(blocks.bytes[alive].sum())


def bytes_before(memory: DeviceMemory, blocks: Blocks, position: int) -> int:
    """Bytes in no block that were certainly allocated before the segment of the recording.

    Without addresses, as in 2021, a free may belong to earlier memory, and an allocation opens no
    block: only what was there when the segment started and was not freed since is certainly older.
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
