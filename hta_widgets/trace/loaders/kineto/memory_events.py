"""Allocations and frees of a Kineto trace that have no category.

They are instants, which traces of 2021 write without one: the events table has no row for these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np

from hta_widgets.trace.loaders.columns import GrowingColumns, Labels, floats, integers
from hta_widgets.trace.loaders.kineto.decode import MISSING_TEXT
from hta_widgets.trace.loaders.kineto.load import BASE_TIME, base_ns
from hta_widgets.trace.loaders.timestamps import UNREADABLE, decimal_text_to_ns
from hta_widgets.trace.model.details import ALLOCATION
from hta_widgets.trace.model.events import SideTable, Trace


class _MemoryArgs(
    msgspec.Struct,
    gc=False,
    rename={
        "device_type": "Device Type",
        "device": "Device Id",
        "address": "Addr",
        "bytes": "Bytes",
        "total_allocated": "Total Allocated",
        "total_reserved": "Total Reserved",
    },
):
    device_type: Any = None
    device: Any = None
    address: Any = None
    bytes: Any = None
    total_allocated: Any = None
    total_reserved: Any = None


class _MemoryEvent(msgspec.Struct, gc=False):
    name: Any = None
    ph: Any = None
    pid: Any = None
    tid: Any = None
    ts: msgspec.Raw = MISSING_TEXT
    args: _MemoryArgs | None = None


def may_have_memory_events(trace: Trace) -> bool:
    """Whether a trace may record allocations that were not loaded: those without a category.

    Only traces whose threads and streams have names write these.
    """
    return bool(trace.events.labels) and BASE_TIME not in trace.metadata


class MemoryEvents:
    """Allocations and frees found so far.

    Parameters
    ----------
    trace : Trace
        Gives the clock, and the numbers of processes and threads whose ids are text.
    """

    keys: Final = (b'"[memory]"',)
    event: Final = _MemoryEvent

    def __init__(self, trace: Trace) -> None:
        self._origin_ns = trace.origin_ns - base_ns(trace.metadata)
        self._labels = Labels(
            {label: -2 - place for place, label in enumerate(trace.events.labels)}
        )
        self._columns = GrowingColumns()
        self._add([])

    def add(self, events: Sequence[Any], _: int) -> None:
        """Keep the allocations and frees among the events of a piece of the file."""
        self._add([each for each in events if each.name == ALLOCATION and _is_complete(each)])

    def table(self) -> SideTable:
        """All of them by time; those of one time in the order of the file."""
        columns = {name: self._columns.pop(name) for name in self._columns.names()}
        order = np.argsort(columns["time_ns"], kind="stable")
        if not order.size:
            return SideTable(order, {})
        by_time = {name: column[order].astype(np.int64) for name, column in columns.items()}
        return SideTable(np.full(order.size, -1, dtype=np.int64), by_time)

    def _add(self, events: Sequence[Any]) -> None:
        time_ns = decimal_text_to_ns([event.ts for event in events])
        size = floats([event.args.bytes for event in events])
        usable = (time_ns != UNREADABLE) & np.isfinite(size)
        if not usable.all():
            events = [event for event, is_usable in zip(events, usable, strict=True) if is_usable]
            time_ns = time_ns[usable]
        columns = {
            "time_ns": time_ns - self._origin_ns,
            "pid": integers([event.pid for event in events], self._labels),
            "tid": integers([event.tid for event in events], self._labels),
        }
        for name in _MemoryArgs.__struct_fields__:
            columns[name] = integers([getattr(event.args, name) for event in events])
        self._columns.append(columns)


def _is_complete(event: _MemoryEvent) -> bool:
    return event.ph == "i" and event.args is not None and event.args.bytes is not None
