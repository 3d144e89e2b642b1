"""Allocations and frees of a Kineto trace that have no category.

They are instants, which traces of 2021 write without one: the events table has no row for these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hta_widgets.trace.loaders.columns import (
    GrowingColumns,
    Labels,
    floats,
    integers,
)
from hta_widgets.trace.loaders.kineto.side_tables import MEMORY_FIELDS
from hta_widgets.trace.loaders.timestamps import UNREADABLE, decimal_text_to_ns
from hta_widgets.trace.model.details import ALLOCATION
from hta_widgets.trace.model.events import SideTable


class MemoryEvents:
    """Allocations and frees found so far.

    Parameters
    ----------
    labels : Labels
        Codes of process and thread ids that are text.
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
        """All of them by time since the first event; those of one time in the order of the file."""
        columns = {name: self._columns.pop(name) for name in self._columns.names()}
        if not columns:
            return None
        order = np.argsort(columns["time_ns"], kind="stable")
        by_time = {name: column[order].astype(np.int64) for name, column in columns.items()}
        by_time["time_ns"] -= first_ns
        return SideTable(np.full(order.size, -1, dtype=np.int64), by_time)
