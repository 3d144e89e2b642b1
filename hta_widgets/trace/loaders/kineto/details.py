"""Read bulky fields of a Kineto trace: a second pass over its text, when they are asked for.

Events are found again by their position in the file. Pieces of text in which the fields do not
occur are only counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np

from hta_widgets.trace.loaders.columns import (
    GrowingColumns,
    Vocabulary,
    inverse_permutation,
)
from hta_widgets.trace.loaders.garbage_collection import no_garbage_collection
from hta_widgets.trace.loaders.kineto.detail_fields import FIELDS, Fields, OnlyCounted, Vocabularies
from hta_widgets.trace.loaders.kineto.repair import UNREADABLE, Reading, repair
from hta_widgets.trace.loaders.kineto.text import EventText
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.model.events import Events, SideTable, TextColumn, Trace


class _Finder(Protocol):
    """Collects the fields of one group."""

    @property
    def keys(self) -> tuple[bytes, ...]:
        """Every event that has the fields contains one of these texts."""

    @property
    def event(self) -> type[Any]:
        """Decodes an event with the fields."""

    def add(self, events: Sequence[Any], first: int) -> None:
        """Keep the fields of the events of a piece, given the position of its first event."""

    def table(self) -> SideTable:
        """The fields found."""


def read_details(path: Path, trace: Trace, _: int | None, group: DetailGroup) -> SideTable:
    """Read the fields of a group.

    Parameters
    ----------
    path : Path
        The file that the trace was loaded from.
    trace : Trace
    group : DetailGroup

    Returns
    -------
    SideTable
        Of the events that have any of the fields; without rows if none has.
    """
    found = _finder(trace, group)
    if found is None:
        return SideTable(np.zeros(0, dtype=np.int64), {})
    text, read_count = EventText(path), 0
    with no_garbage_collection():
        for piece in text:
            has_fields = any(key in piece for key in found.keys)
            reading = _decode(piece, text, found.event if has_fields else OnlyCounted)
            if has_fields:
                found.add(reading.events, read_count)
            read_count += len(reading.events) + reading.dropped
            del reading  # free its events before the next ones are decoded
    return found.table()


def _finder(trace: Trace, group: DetailGroup) -> _Finder | None:
    """What collects the fields of a group; None if loading has found that there are none."""
    if group in {DetailGroup.LAUNCH_CONFIGURATION, DetailGroup.MEMORY}:
        return None
    return _OfRows(trace.events, FIELDS[group])


class _OfRows:
    """Fields of events that have a row in the events table.

    Parameters
    ----------
    events : Events
    fields : Fields
    """

    def __init__(self, events: Events, fields: Fields) -> None:
        rows = events.rows_of(*fields.kinds)
        self._rows = rows[np.argsort(events.index[rows], kind="stable")]
        self._positions = events.index[self._rows].astype(np.int64)
        self._fields = fields
        self._columns = GrowingColumns()
        self._texts: Vocabularies = defaultdict(Vocabulary[bytes])
        self.keys, self.event = fields.keys, fields.event

    def add(self, events: Sequence[Any], first: int) -> None:
        """Keep the fields of the events of a piece, given the position of its first event."""
        begin, end = np.searchsorted(self._positions, (first, first + len(events))).tolist()
        places = (self._positions[begin:end] - first).tolist()
        arguments = [events[place].args for place in places]
        has = self._fields.are_in(arguments)
        if has.any():
            chosen = [
                each for each, has_any in zip(arguments, has.tolist(), strict=True) if has_any
            ]
            columns = self._fields.columns(chosen, self._texts)
            self._columns.append({"rows": self._rows[begin:end][has], **columns})

    def table(self) -> SideTable:
        """The fields by row."""
        if "rows" not in self._columns.names():
            return SideTable(np.zeros(0, dtype=np.int64), {})
        rows = self._columns.pop("rows").astype(np.int64)
        positions = inverse_permutation(np.argsort(rows, kind="stable"))
        columns = {name: self._columns.pop(name, positions) for name in self._columns.names()}
        return SideTable(
            np.sort(rows), {name: self._typed(name, columns[name]) for name in columns}
        )

    def _typed(self, name: str, column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | TextColumn:
        if name in self._fields.texts:
            texts = tuple(text.decode("utf-8", "replace") for text in self._texts[name])
            return TextColumn(column.astype(np.int32), texts)
        return column.astype(np.int64) if column.dtype.kind == "i" else column


def _decode(piece: bytes, text: EventText, event: type[Any]) -> Reading[Any]:
    """Decode the events of a piece, and count those that are unreadable, as loading does."""
    several = _decoder(list[event])  # type: ignore[valid-type]
    with suppress(*UNREADABLE):
        return Reading(piece, several.decode(piece))
    return repair(piece[1:-1], text.separator, several, _decoder(event), text.hold_back)


def _decoder(of: Any) -> msgspec.json.Decoder[Any]:  # noqa: ANN401
    return msgspec.json.Decoder(of)
