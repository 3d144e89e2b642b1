"""Memory of one device of a rank as tables, and the types of their columns."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.memory_use.owners import (
    BEFORE,
    CATEGORIES,
    UNKNOWN,
    Blocks,
    blocks_of,
    bytes_before,
    bytes_in_no_block,
    categories,
    owners_of,
)
from hta_widgets.analyses.memory_use.recorded import NOT_RECORDED, DeviceMemory
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.modules import module_paths
from hta_widgets.analyses.time.rows import Row, largest_first, stacked, table_of, texts_at
from hta_widgets.analyses.time.window import NO_STEP
from hta_widgets.arrays import Int64Array, IntArray
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Times
from hta_widgets.trace.ranks.rank import Rank

DEVICE: Final = {"rank": np.int64, "device_type": object, "device": np.int64}
_OWNER: Final = {"operator": object, "caller": object, "module": object}
CURVE: Final = DEVICE | dict.fromkeys(("time_ns", "allocated_bytes", "reserved_bytes"), np.int64)

PEAK: Final = DEVICE | dict.fromkeys(
    (
        *("bytes", "time_ns", "step", "reserved_bytes", "fragmentation_bytes"),
        *("largest_fragmentation_bytes", "events", "allocated_in_all_bytes", "breaks"),
    ),
    np.int64,
)

ALIVE: Final = DEVICE | _OWNER | {"category": object, "blocks": np.int64, "bytes": np.int64}

STEPS: Final = DEVICE | dict.fromkeys(
    (
        *("step", "start_ns", "end_ns", "allocated_at_end_bytes", "peak_bytes"),
        *("surviving_blocks", "surviving_bytes"),
    ),
    np.int64,
)

SURVIVORS: Final = DEVICE | _OWNER | {"blocks": np.int64, "bytes": np.int64}


class _Steps(NamedTuple):
    """Steps of the CPU: each lasts until the next one starts."""

    number: Int64Array
    start_ns: Times
    end_ns: Times

    @classmethod
    def of(cls, rank: Rank) -> _Steps:
        marks = rank.steps
        number, first = np.unique(marks.number, return_index=True)
        by_start = np.argsort(marks.start_ns[first], kind="stable")
        number, start_ns = number[by_start], marks.start_ns[first[by_start]]
        last_ns = marks.end_ns.max(initial=0)
        return cls(number, start_ns, np.append(start_ns[1:], last_ns)[: number.size])

    def at(self, time_ns: int) -> int:
        """Number of the step at a time, `NO_STEP` outside of all."""
        place = int(np.searchsorted(self.start_ns, time_ns, side="right")) - 1
        is_in = place >= 0 and time_ns < self.end_ns[place]
        return int(self.number[place]) if is_in else NO_STEP


class DeviceTables:
    """Tables of one device of a rank."""

    def __init__(self, rank: Rank, memory: DeviceMemory) -> None:
        self._rank = rank
        self._memory = memory
        self._blocks = blocks_of(memory)
        self._steps = _Steps.of(rank)
        self._peak = int(memory.allocated.argmax())
        self._identity: Row = {
            "rank": rank.trace.rank,
            "device_type": memory.type_name,
            "device": memory.device,
        }

    def curve(self) -> pd.DataFrame:
        """What is allocated and reserved from each event on."""
        return self._framed(
            time_ns=self._memory.time_ns,
            allocated_bytes=self._memory.allocated,
            reserved_bytes=self._memory.reserved,
        )

    def peak_row(self) -> Row:
        """The first moment with the most allocated."""
        memory, peak = self._memory, self._peak
        spare = np.where(memory.reserved > 0, memory.reserved - memory.allocated, 0)
        return {
            **self._identity,
            "bytes": int(memory.allocated[peak]),
            "time_ns": int(memory.time_ns[peak]),
            "step": self._steps.at(int(memory.time_ns[peak])),
            "reserved_bytes": int(memory.reserved[peak]),
            "fragmentation_bytes": int(spare[peak]),
            "largest_fragmentation_bytes": int(spare.max()),
            "events": memory.bytes.size,
            "allocated_in_all_bytes": int(memory.bytes[memory.bytes > 0].sum()),
            "breaks": memory.breaks,
        }

    def alive_at_peak(self) -> pd.DataFrame:
        """Blocks that are alive at the peak, by owner and category, largest first."""
        alive = self._blocks.alive_at(self._peak)
        by_owner = self._by_owner(alive, with_category=True)
        at = self._memory, self._blocks, self._peak
        before = bytes_before(*at)
        sizes = {BEFORE: before, UNKNOWN: bytes_in_no_block(*at) - before}
        owner = {"operator": "", "caller": "", "module": "", "blocks": 0}
        rest = [
            {**self._identity, **owner, "category": category, "bytes": size}
            for category, size in sizes.items()
            if size
        ]
        return largest_first(stacked([by_owner, table_of(rest, ALIVE)], ALIVE), "bytes")

    def steps(self) -> pd.DataFrame:
        """What each step leaves behind."""
        memory, steps = self._memory, self._steps
        start = int(memory.allocated[0] - memory.bytes[0])
        held = np.append(start, memory.allocated)
        spans = self._spans_of_steps()
        survivors = self._survivors()
        sizes = [int(self._blocks.bytes[each].sum()) for each in survivors]
        peaks = [held[first : last + 1].max() for first, last in spans]
        lasts = [last for _, last in spans]
        unknown = [NOT_RECORDED] * (len(spans) - len(sizes))
        return self._framed(
            step=steps.number,
            start_ns=steps.start_ns,
            end_ns=steps.end_ns,
            allocated_at_end_bytes=held[lasts],
            peak_bytes=np.array(peaks, dtype=np.int64),
            surviving_blocks=np.array([*map(len, survivors), *unknown], dtype=np.int64),
            surviving_bytes=np.array([*sizes, *unknown], dtype=np.int64),
        )

    def survivors(self) -> pd.DataFrame:
        """Blocks that are alive when the step after theirs ends, by owner, largest first."""
        none = np.zeros(0, dtype=np.int64)
        return self._by_owner(np.concatenate([none, *self._survivors()]), with_category=False)

    def _spans_of_steps(self) -> list[tuple[int, int]]:
        """Positions of the first event in each step and of the first one after it."""
        times = (self._steps.start_ns, self._steps.end_ns)
        first, last = np.searchsorted(self._memory.time_ns, times).tolist()
        return list(zip(first, last, strict=True))

    def _survivors(self) -> list[Int64Array]:
        """Blocks of each step except the last that are alive when the next step ends."""
        spans = self._spans_of_steps()
        return [self._of_step(first, last, after) for (first, last), (_, after) in pairwise(spans)]

    def _of_step(self, first: int, last: int, after: int) -> Int64Array:
        """Blocks allocated by some events that are still alive before a later one."""
        begin, end = np.searchsorted(self._blocks.opened, (first, last)).tolist()
        alive: Int64Array = np.flatnonzero(self._blocks.gone[begin:end] >= after)
        places: Int64Array = alive + begin
        return places

    def _by_owner(self, chosen: Int64Array, *, with_category: bool) -> pd.DataFrame:
        """Some blocks by owner, largest first."""
        rank, calls, modules = self._rank, calls_of(self._rank), module_paths(self._rank)
        blocks = Blocks(*(column[chosen] for column in self._blocks))
        owners = owners_of(rank, self._memory, blocks.opened)
        names = np.append(calls.name, calls.name.dtype.type(-1))
        codes: list[IntArray] = [names[owners.operator], names[owners.caller]]
        codes.append(modules.at(owners.call))
        values = [(*rank.trace.events.name.values, "")] * 2 + [(*modules.paths, "")]
        columns = ["operator", "caller", "module"]
        if with_category:
            codes.append(categories(rank, self._memory, blocks, owners))
            values.append(CATEGORIES)
            columns.append("category")
        groups = grouped(*codes)
        texts = {
            name: [of_code[each] for each in code[groups.first].tolist()]
            for name, code, of_code in zip(columns, codes, values, strict=True)
        }
        size = groups.reduce(np.add, blocks.bytes)
        return largest_first(self._framed(**texts, blocks=groups.sizes, bytes=size), "bytes")

    def _framed(self, **columns: Any) -> pd.DataFrame:  # noqa: ANN401
        """A table with the rank and the device in front."""
        count = len(next(iter(columns.values())))
        of_rows = np.zeros(count, dtype=np.intp)
        identity = {
            name: texts_at((value,), of_rows) if of is object else np.full(count, value, dtype=of)
            for (name, value), of in zip(self._identity.items(), DEVICE.values(), strict=True)
        }
        return pd.DataFrame({**identity, **columns}, copy=False)
