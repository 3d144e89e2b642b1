"""Side tables of the events table for sparse fields. Which tables exist is data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.trace.loaders.columns import (
    ColumnBlock,
    GrowingColumns,
    Vocabulary,
    floats,
    integers,
    inverse_permutation,
)
from hta_widgets.trace.loaders.kineto.decode import MISSING_TEXT, Args
from hta_widgets.trace.model.events import Kind, KindSet, SideTable, TextColumn


class _Table(NamedTuple):
    """A side table: the kinds it covers, the field that must be present, and its columns."""

    kinds: KindSet
    required: str | None
    integers: Mapping[str, str] = {}
    floats: Mapping[str, str] = {}
    texts: Mapping[str, str] = {}
    raws: Mapping[str, str] = {}


_TABLES = {
    "transfers": _Table(
        KindSet((Kind.MEMCPY, Kind.MEMSET)),
        None,
        integers={"bytes": "transferred"},
        floats={"bandwidth_gb_per_s": "bandwidth"},
    ),
    "collectives": _Table(
        KindSet((Kind.KERNEL, Kind.CPU_OP)),
        "collective",
        integers={
            "in_elements": "in_elements",
            "out_elements": "out_elements",
            "group_size": "group_size",
            "source_rank": "source_rank",
            "destination_rank": "destination_rank",
            "sequence": "sequence",
        },
        texts={
            "collective": "collective",
            "dtype": "dtype",
            "group": "group_name",
            "group_description": "group_description",
        },
        raws={"group_ranks": "group_ranks"},
    ),
    "operators": _Table(
        KindSet((Kind.CPU_OP,)),
        None,
        integers={
            "external_id": "external_id",
            "sequence_number": "sequence_number",
            "forward_thread": "forward_thread",
        },
        raws={
            "input_dims": "input_dims",
            "input_types": "input_types",
            "input_strides": "input_strides",
        },
    ),
}
"""``transfers``: bytes, GB/s as in the trace. ``collectives``: the fields of NCCL records, the
ranks of the group as the JSON text of the trace; ``source_rank`` and ``destination_rank`` are the
peer of a receive and of a send. ``operators``: ids, and shapes as the JSON text of the trace."""


class SideTablesBuilder:
    """Side tables of one trace under construction."""

    def __init__(self) -> None:
        self._tables: dict[str, GrowingColumns] = {}
        self._vocabularies: dict[tuple[str, str], Vocabulary[str]] = {}
        self._raw: dict[tuple[str, str], Vocabulary[bytes]] = {}

    def add(self, arguments: Sequence[Args], kind: NDArray[np.int8], offset: int) -> None:
        """Add the fields of the events in rows `offset` and following."""
        for table, spec in _TABLES.items():
            covered = spec.kinds.among(kind)
            of_table = list(compress(arguments, covered.tobytes()))
            rows = np.flatnonzero(covered)
            if spec.required:
                rows, of_table = _with_field(spec.required, rows, of_table)
            if rows.size:
                columns = {"rows": rows + offset} | self._columns(table, spec, of_table)
                self._tables.setdefault(table, GrowingColumns()).append(columns)

    def add_counters(self, arguments: Sequence[Any], rows: NDArray[np.int64]) -> None:
        """Add one row per event and counter."""
        lines = [
            (row, name, value)
            for row, args in zip(rows.tolist(), arguments, strict=True)
            if isinstance(args, dict)
            for name, value in args.items()
        ]
        columns: ColumnBlock = {
            "rows": np.array([row for row, _, _ in lines], dtype=np.int64),
            "counter": self._codes("counters", "counter", [name for _, name, _ in lines]),
            "value": floats([value for _, _, value in lines]),
        }
        self._tables.setdefault("counters", GrowingColumns()).append(columns)

    def finish(self, positions: NDArray[np.int64]) -> dict[str, SideTable]:
        """Return the tables, given the final position of each event in the main table."""
        return {table: self._finish_table(table, positions) for table in self._tables}

    def _columns(self, table: str, spec: _Table, arguments: Sequence[Args]) -> ColumnBlock:
        sources = (*spec.integers.values(), *spec.floats.values())
        sources += (*spec.texts.values(), *spec.raws.values())
        fields = zip(*map(attrgetter(*sources), arguments), strict=True)
        values = dict(zip(sources, fields, strict=True))
        return (
            {column: integers(values[source]) for column, source in spec.integers.items()}
            | {column: floats(values[source]) for column, source in spec.floats.items()}
            | {
                column: self._codes(table, column, [_text(value) for value in values[source]])
                for column, source in spec.texts.items()
            }
            | {
                column: self._raw_codes(table, column, values[source])
                for column, source in spec.raws.items()
            }
        )

    def _raw_codes(self, table: str, column: str, raws: Sequence[Any]) -> NDArray[np.int32]:
        vocabulary = self._raw.setdefault((table, column), Vocabulary[bytes]())
        if raws[0] is MISSING_TEXT and raws.count(MISSING_TEXT) == len(raws):
            return np.full(len(raws), vocabulary[bytes(MISSING_TEXT)], np.int32)
        return vocabulary.codes(map(bytes, raws), len(raws))

    def _codes(self, table: str, column: str, texts: Sequence[str]) -> NDArray[np.int32]:
        vocabulary = self._vocabularies.setdefault((table, column), Vocabulary[str]())
        return vocabulary.codes(texts, len(texts))

    def _texts(self, table: str, column: str) -> tuple[str, ...] | None:
        """Texts by code; None for a column of numbers."""
        raw = self._raw.get((table, column))
        if raw is not None:
            return tuple(text.decode("utf-8", "replace") for text in raw)
        vocabulary = self._vocabularies.get((table, column))
        return None if vocabulary is None else tuple(vocabulary)

    def _finish_table(self, table: str, event_positions: NDArray[np.int64]) -> SideTable:
        grown = self._tables[table]
        rows = event_positions[grown.pop("rows")]
        positions = inverse_permutation(np.argsort(rows, kind="stable"))
        columns: dict[str, NDArray[Any] | TextColumn] = {}
        for column in grown.names():
            values = grown.pop(column, positions)
            texts = self._texts(table, column)
            columns[column] = values if texts is None else TextColumn(values, texts)
        rows.sort()
        return SideTable(rows, columns)


def _with_field(
    required: str, rows: NDArray[np.int64], arguments: list[Args]
) -> tuple[NDArray[np.int64], list[Args]]:
    """Keep the rows and arguments that have a field."""
    values = list(map(attrgetter(required), arguments))
    if values.count(None) == len(values):
        return rows[:0], []
    has = [value is not None for value in values]
    return rows[has], list(compress(arguments, has))


def _text(value: Any) -> str:  # noqa: ANN401
    """The value if it is text or a whole number (ids of groups, in 2023), else an empty string."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) else ""
