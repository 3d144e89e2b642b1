"""Build the events table from blocks of columns, for the loaders of table formats."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Int8Array, Int64Array
from hta_widgets.intervals import Times
from hta_widgets.trace.loaders.columns import (
    ABSENT,
    ColumnBlock,
    GrowingColumns,
    Vocabulary,
    inverse_permutation,
)
from hta_widgets.trace.model.events import IDS, Events, Kind, SideTable, TextColumn

Values = NDArray[Any] | Sequence[str]


class EventBlocks:
    """Columns of one trace under construction, block by block, in any order of time."""

    def __init__(self) -> None:
        self._columns = GrowingColumns()
        self._names = Vocabulary[str]()
        self._texts: dict[tuple[str, str], Vocabulary[str]] = {}
        self._side: dict[str, GrowingColumns] = {}
        self._count = 0

    def __len__(self) -> int:
        """Number of events so far."""
        return self._count

    def add(
        self,
        kind: Kind | Int8Array,
        start_ns: Times,
        duration_ns: Times,
        names: Iterable[str],
        *,
        side: Mapping[str, Mapping[str, Values]] | None = None,
        **identity: Int64Array | int,
    ) -> None:
        """Add events, all of one kind or with a kind each, and with a name each.

        Times are on a clock that all blocks share; durations are not negative. `side` has, by table
        and column, a number or a text per event. The identity (``pid``, ``tid``, ``device``,
        ``stream``, ``correlation``) is one value, or one per event; `ABSENT` by default.
        """
        size = start_ns.size
        columns: ColumnBlock = {
            "start_ns": start_ns.astype(np.int64),
            "duration_ns": duration_ns.astype(np.int64),
            "kind": np.broadcast_to(np.asarray(kind, np.int8), size),
            "name": self._names.codes(names, size),
            "index": np.arange(self._count, self._count + size, dtype=np.int32),
        }
        for key in IDS:
            value = np.asarray(identity.get(key, ABSENT), np.int64)
            columns[key] = np.broadcast_to(value, size)
        self._columns.append(columns)
        for table, fields in (side or {}).items():
            self._add_side(table, fields, size)
        self._count += size

    def finish(self) -> tuple[Events, int]:
        """Return the table, sorted by start, and the first start on the blocks' clock (ns)."""
        self.add(Kind.OTHER, np.empty(0, np.int64), np.empty(0, np.int64), [])
        columns, positions, first_ns = by_time(self._columns, self._names)
        side = {table: self._finish_table(table, positions) for table in self._side}
        return Events(side=side, **columns), first_ns

    def _add_side(self, table: str, fields: Mapping[str, Values], size: int) -> None:
        columns: ColumnBlock = {"rows": np.arange(self._count, self._count + size)}
        for column, values in fields.items():
            if isinstance(values, np.ndarray):
                columns[column] = values
            else:
                vocabulary = self._texts.setdefault((table, column), Vocabulary[str]())
                columns[column] = vocabulary.codes(values, size)
        self._side.setdefault(table, GrowingColumns()).append(columns)

    def _finish_table(self, table: str, positions: Int64Array) -> SideTable:
        texts = {
            column: tuple(of) for (of_table, column), of in self._texts.items() if of_table == table
        }
        return side_table(self._side[table], positions, texts.get)


def by_time(
    grown: GrowingColumns, names: Vocabulary[str]
) -> tuple[dict[str, Any], Int64Array, int]:
    """The columns of the events table, sorted by start, with times since the first start.

    Also returns the new position of each event, and the first start on the trace's own clock (ns).
    """
    starts = grown.pop("start_ns")
    first_ns = int(starts.min()) if starts.size else 0
    starts -= first_ns
    positions = inverse_permutation(np.argsort(starts, kind="stable"))
    starts[positions] = starts.copy()
    columns: dict[str, Any] = {
        key: grown.pop(key, positions, narrow=key in (*IDS, "name")) for key in grown.names()
    }
    name = TextColumn(columns.pop("name"), tuple(names))
    return {"start_ns": starts, "name": name, **columns}, positions, first_ns


def side_table(
    grown: GrowingColumns,
    event_positions: Int64Array,
    texts_of: Callable[[str], tuple[str, ...] | None],
    narrow: Collection[str] = (),
) -> SideTable:
    """Make a side table of columns, one of which is ``rows``, in the order of adding events.

    `event_positions` has the final row of each event. `texts_of` gives the texts of a column by
    code, or None for numbers. Codes, and columns that are `narrow`, stay in the narrowest type that
    fits.
    """
    rows = event_positions[grown.pop("rows")]
    order = np.argsort(rows, kind="stable")
    positions = inverse_permutation(order)
    columns: dict[str, NDArray[Any] | TextColumn] = {}
    for column in grown.names():
        texts = texts_of(column)
        is_narrow = texts is not None or column in narrow
        values = grown.pop(column, positions, narrow=is_narrow)
        columns[column] = values if texts is None else TextColumn(values, texts)
    return SideTable(rows[order].astype(np.int32), columns)


def transfer_columns(transferred: Int64Array, duration_ns: Times) -> dict[str, Values]:
    """Columns of the side table ``transfers``, for exports that state bytes but no bandwidth.

    Unknown bytes are `ABSENT`, and unknown bandwidths (GB/s) are NaN.
    """
    gb_per_s = np.full(transferred.size, np.nan)
    known = (transferred >= 0) & (duration_ns > 0)
    np.divide(transferred, duration_ns, out=gb_per_s, where=known)
    return {"bytes": np.maximum(transferred, ABSENT), "bandwidth_gb_per_s": gb_per_s}


def shared_bytes(*parts: Int64Array) -> Int64Array:
    """Shared memory of blocks from its static and dynamic parts; `ABSENT` if none is known."""
    is_known = np.any([part >= 0 for part in parts], axis=0)
    total = np.sum([np.maximum(part, 0) for part in parts], axis=0)
    return np.asarray(np.where(is_known, total, ABSENT))
