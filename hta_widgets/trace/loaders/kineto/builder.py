"""Build the columns of the events table from decoded events, piece by piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import compress, islice
from typing import Any, TypeVar, cast

import numpy as np

from hta_widgets.arrays import Int8Array, Int32Array, Int64Array, Mask
from hta_widgets.intervals import Times
from hta_widgets.trace.loaders.columns import (
    ABSENT,
    ColumnBlock,
    GrowingColumns,
    Labels,
    Vocabulary,
    floats,
    integers,
    streams,
)
from hta_widgets.trace.loaders.event_blocks import by_time
from hta_widgets.trace.loaders.kineto.categories import PHASE_KINDS, SYNC_NAMES, kind_of
from hta_widgets.trace.loaders.kineto.decode import NO_ARGS, Event, EventInTime, decode_counters
from hta_widgets.trace.loaders.kineto.repair import Reading
from hta_widgets.trace.loaders.kineto.side_tables import (
    AMD_LAUNCH,
    COSTED_BY_VALUES,
    MEMORY_FIELDS,
    Marks,
    SideTablesBuilder,
)
from hta_widgets.trace.loaders.timestamps import UNREADABLE, decimal_text_to_ns, durations_to_ns
from hta_widgets.trace.model.details import ALLOCATION, UNCATEGORISED
from hta_widgets.trace.model.events import (
    GPU_SIDE,
    GPU_WORK,
    LAUNCH_CALLS,
    Events,
    Kind,
    KindSet,
    SideTable,
)
from hta_widgets.trace.model.notices import Notice

Item = TypeVar("Item")

_COUNTED = KindSet((Kind.PROFILER_RANGE, Kind.COUNTER))
_WITHOUT_DURATION = KindSet((Kind.INSTANT, Kind.COUNTER))
_LINKED = KindSet(GPU_SIDE + LAUNCH_CALLS)
_ON_GPU = KindSet(GPU_SIDE)
_GPU_WORK = KindSet(GPU_WORK)
_NOT_AN_EVENT = -1
_BEGIN_OR_END = -2
_OTHER_PHASE = -3
_INSTANT_WITHOUT_CATEGORY = -4
_BYTE = 0xFF
_NOT_IN_TIME = frozenset("XCiIMstf")
"""Phases whose events are known to be left out without loss: metadata, flow arrows, …"""


_BEGIN_END_NOTICE = (
    "{} begin and end events (phases B and E) are left out; only complete events (phase X) are read"
)
_OTHER_PHASE_NOTICE = "{} events without a phase (ph), or of a phase that is not read, are left out"
_UNREADABLE_NOTICE = "{} events that are not JSON are left out"
_REPAIRED_NOTICE = "{} events that are not quite JSON are loaded after repair"
_UNCOUNTED_NOTICE = "counters could not be read in {} parts of the file"
_TIMELESS_NOTICE = "{} events without a readable time and duration are left out"


class EventsBuilder:
    """Columns of one trace under construction."""

    def __init__(self) -> None:
        self._columns = GrowingColumns()
        self._names = Vocabulary[str]()
        self._labels = Labels()
        self._by_values = _Named(self._names, COSTED_BY_VALUES.__contains__)
        self._launches_on_amd = _Named(self._names, AMD_LAUNCH.match)
        self._side = SideTablesBuilder()
        self._memory = MemoryEvents(self._labels)
        self._kinds = _Kinds()
        self._counts: Counter[str] = Counter()
        self._read_count = 0
        self._kept_count = 0

    def add(self, reading: Reading[Any]) -> None:
        """Add the events of one piece of text."""
        events: Sequence[Event] = reading.events
        kinds = self._kinds.of(events)
        self._counts[_UNREADABLE_NOTICE] += reading.dropped
        self._counts[_REPAIRED_NOTICE] += reading.repaired
        self._counts[_BEGIN_END_NOTICE] += int(np.count_nonzero(kinds == _BEGIN_OR_END))
        self._counts[_OTHER_PHASE_NOTICE] += int(np.count_nonzero(kinds == _OTHER_PHASE))
        self._memory.add(_select(events, kinds == _INSTANT_WITHOUT_CATEGORY))
        known = kinds >= 0
        kept = cast("Sequence[EventInTime]", _select(events, known))
        kind, positions = kinds[known], np.flatnonzero(known)
        start, duration = _times(kept, kind)
        readable = (start != UNREADABLE) & (duration >= 0)
        if not readable.all():
            self._counts[_TIMELESS_NOTICE] += int(np.count_nonzero(~readable))
            kept, kind, positions = _select(kept, readable), kind[readable], positions[readable]
            start, duration = start[readable], duration[readable]
        arguments: Sequence[Any] = [event.args or NO_ARGS for event in kept]
        columns: ColumnBlock = {"start_ns": start, "duration_ns": duration, "kind": kind}
        columns |= self._identity(kept) | _placement(kept, arguments, kind)
        columns["index"] = (positions + self._read_count).astype(np.int32)
        self._columns.append(columns)
        name = columns["name"]
        marks = Marks(self._by_values.among(name), self._launches_on_amd.among(name))
        self._side.add(arguments, kind, marks, self._kept_count)
        counted = np.flatnonzero(_COUNTED.among(kind))
        if counted.size:
            self._add_counters(reading.text, positions, counted, len(events))
        self._read_count += len(events) + reading.dropped
        self._kept_count += len(kept)

    def finish(self) -> tuple[Events, int]:
        """Return the table, sorted by start, and the first start on the trace's own clock (ns)."""
        self.add(Reading(b"", []))
        columns, positions, first_ns = by_time(self._columns, self._names)
        side, memory = self._side.finish(positions), self._memory.table(first_ns)
        if memory is not None:
            side[UNCATEGORISED] = memory
        return Events(labels=tuple(self._labels), side=side, **columns), first_ns

    def notices(self) -> list[Notice]:
        """Notices about what was left out or repaired, with counts."""
        return [Notice(words, (count,)) for words, count in self._counts.items() if count]

    def categories_of_others(self) -> list[str]:
        """Sorted categories that are not the PyTorch profiler's; empty if there is GPU work."""
        return [] if self._kinds.has_gpu_work else self._kinds.unknown_categories

    def _identity(self, events: Sequence[EventInTime]) -> ColumnBlock:
        return {
            "name": self._names.codes([event.name or "" for event in events], len(events)),
            "pid": integers([event.pid for event in events], self._labels),
            "tid": integers([event.tid for event in events], self._labels),
        }

    def _add_counters(
        self, text: bytes, positions: Int64Array, rows: Int64Array, count: int
    ) -> None:
        events = decode_counters(text)
        if len(events) != count:
            self._counts[_UNCOUNTED_NOTICE] += 1
            return
        arguments = [events[i].args for i in positions[rows].tolist()]
        self._side.add_counters(arguments, rows + self._kept_count)


class _Kinds:
    """Kinds by phase and category; known combinations are looked up in plain, fast dicts."""

    def __init__(self) -> None:
        self._known: dict[str | None, dict[str | None, int]] = {}

    def of(self, events: Sequence[Event]) -> Int8Array:
        """Kind of each event, or a negative code for why it is left out."""
        try:
            codes = self._of_known(events)
        except KeyError:
            for phase, category in {(event.ph, event.cat) for event in events}:
                of_phase = self._known.setdefault(phase, {})
                of_phase[category] = _code_of(phase, category) & _BYTE
            codes = self._of_known(events)
        has_waits = not SYNC_NAMES.keys().isdisjoint(self._known.get("X", ()))
        return _named(events, codes) if has_waits else codes

    @property
    def has_gpu_work(self) -> bool:
        """Whether any category was one of GPU work."""
        return any(code in GPU_WORK for of in self._known.values() for code in of.values())

    @property
    def unknown_categories(self) -> list[str]:
        """Categories of complete events that are not the PyTorch profiler's, sorted."""
        complete = self._known.get("X", {})
        return sorted(name or "" for name, code in complete.items() if code == Kind.OTHER)

    def _of_known(self, events: Sequence[Event]) -> Int8Array:
        known = self._known
        codes = bytes([known[event.ph][event.cat] for event in events])
        return np.frombuffer(codes, np.int8)


class _Named:
    """Tells which codes stand for names that pass a test; each name is tested once."""

    def __init__(self, names: Vocabulary[str], test: Callable[[str], object]) -> None:
        self._names = names
        self._test = test
        self._is_one = np.zeros(0, dtype=np.bool_)
        self._is_any = False

    def among(self, codes: Int32Array) -> Mask:
        """Mask of these codes."""
        if self._is_one.size < len(self._names):
            new = islice(self._names, self._is_one.size, None)
            is_one = [bool(self._test(name)) for name in new]
            self._is_any = self._is_any or any(is_one)
            self._is_one = np.append(self._is_one, np.array(is_one, dtype=np.bool_))
        return self._is_one[codes] if self._is_any else np.zeros(codes.size, dtype=np.bool_)


def _code_of(phase: str | None, category: str | None) -> int:
    kind = kind_of(phase, category)
    if kind is not None:
        return int(kind)
    if category is None and phase in PHASE_KINDS:
        return _INSTANT_WITHOUT_CATEGORY
    if phase in {"B", "E"}:
        return _BEGIN_OR_END
    return _NOT_AN_EVENT if phase in _NOT_IN_TIME else _OTHER_PHASE


def _named(events: Sequence[Event], codes: Int8Array) -> Int8Array:
    """Correct the kinds that only names distinguish: `SYNC_NAMES`."""
    codes = codes.copy()
    for place in np.flatnonzero(codes == Kind.KERNEL).tolist():
        event = cast("EventInTime", events[place])
        if event.name in SYNC_NAMES.get(event.cat or "", ()):
            codes[place] = Kind.SYNC
    return codes


def _select(items: Sequence[Item], wanted: Mask) -> Sequence[Item]:
    count = np.count_nonzero(wanted)
    if not count:
        return []
    return items if count == wanted.size else list(compress(items, wanted.tobytes()))


def _times(events: Sequence[EventInTime], kind: Int8Array) -> tuple[Times, Times]:
    start = decimal_text_to_ns([event.ts for event in events])
    duration = np.zeros(len(events), dtype=np.int64)
    lasting = ~_WITHOUT_DURATION.among(kind)
    duration[lasting] = durations_to_ns([event.dur for event in _select(events, lasting)])
    return start, duration


def _placement(
    events: Sequence[EventInTime], arguments: Sequence[Any], kind: Int8Array
) -> ColumnBlock:
    """Device, stream and correlation; for GPU work, Kineto's pid is the device, tid the stream."""
    device, stream, correlation = (np.full(len(events), ABSENT, np.int64) for _ in range(3))
    linked = _LINKED.among(kind)
    correlation[linked] = integers([args.correlation for args in _select(arguments, linked)])
    on_gpu = _ON_GPU.among(kind)
    of_gpu = _select(arguments, on_gpu)
    device[on_gpu] = integers([args.device for args in of_gpu])
    stream[on_gpu] = streams([args.stream for args in of_gpu])
    work = _GPU_WORK.among(kind)
    elsewhere = work & (device == ABSENT)
    device[elsewhere] = integers([event.pid for event in _select(events, elsewhere)])
    elsewhere = work & (stream == ABSENT)
    stream[elsewhere] = streams([event.tid for event in _select(events, elsewhere)])
    return {"device": device, "stream": stream, "correlation": correlation}


class MemoryEvents:
    """Allocations and frees found so far that have no category.

    They are instants, which traces of 2021 write without a category, so the events table has no
    row for them. `labels` has the codes of process and thread ids that are text.
    """

    def __init__(self, labels: Labels) -> None:
        self._labels = labels
        self._columns = GrowingColumns()

    def add(self, instants: Sequence[Any]) -> None:
        """Keep the allocations and frees among the instants of a piece of the file."""
        events = [each for each in instants if each.name == ALLOCATION and each.args is not None]
        if not events:
            return
        time_ns = decimal_text_to_ns([event.ts for event in events])
        usable = (time_ns != UNREADABLE) & np.isfinite(
            floats([event.args.size for event in events])
        )
        events = [event for event, is_usable in zip(events, usable, strict=True) if is_usable]
        columns = {
            "time_ns": time_ns[usable],
            "pid": integers([event.pid for event in events], self._labels),
            "tid": integers([event.tid for event in events], self._labels),
        }
        for name, field in MEMORY_FIELDS.items():
            columns[name] = integers([getattr(event.args, field) for event in events])
        self._columns.append(columns)

    def table(self, first_ns: int) -> SideTable | None:
        """All of them by time since the first event; at equal times, in the order of the file."""
        columns = {name: self._columns.pop(name) for name in self._columns.names()}
        if not columns:
            return None
        order = np.argsort(columns["time_ns"], kind="stable")
        by_time = {name: column[order].astype(np.int64) for name, column in columns.items()}
        by_time["time_ns"] -= first_ns
        return SideTable(np.full(order.size, -1, dtype=np.int64), by_time)
