"""Read bulky fields of a Kineto trace in a second pass over its text, when they are asked for.

Events are found again by their position in the file. In pieces of text without the fields, events
are only counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np

from hta_widgets.arrays import Mask
from hta_widgets.garbage_collection import no_garbage_collection
from hta_widgets.trace.loaders.columns import (
    ColumnBlock,
    GrowingColumns,
    Vocabulary,
    bytes_of,
    integers,
)
from hta_widgets.trace.loaders.event_blocks import side_table
from hta_widgets.trace.loaders.kineto.decode import MISSING_TEXT
from hta_widgets.trace.loaders.kineto.repair import UNREADABLE, Reading, repair
from hta_widgets.trace.loaders.kineto.text import EventText
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.model.events import NO_FIELDS, Events, Kind, SideTable, Trace

Arguments = TypeVar("Arguments")

Vocabularies = defaultdict[str, Vocabulary[bytes]]
"""Texts of each column that holds text."""


class OnlyCounted(msgspec.Struct, gc=False):
    """An event whose content is not decoded."""


class _With(msgspec.Struct, Generic[Arguments], gc=False):
    """An event with some decoded arguments."""

    args: Arguments | None = None


class _SyncArgs(msgspec.Struct, gc=False):
    wait_on_stream: Any = None
    wait_on_cuda_event_id: Any = None
    wait_on_cuda_event_record_corr_id: Any = None


class _InputArgs(
    msgspec.Struct,
    gc=False,
    rename={"concrete_inputs": "Concrete Inputs", "module_hierarchy": "Module Hierarchy"},
):
    concrete_inputs: msgspec.Raw = MISSING_TEXT
    module_hierarchy: Any = None
    kernel_file: Any = None


class _LaunchArgs(msgspec.Struct, gc=False):
    kernel: Any = None


class _OtherArgs(
    msgspec.Struct,
    gc=False,
    rename={
        "external_id": "External id",
        "python_id": "Python id",
        "python_parent_id": "Python parent id",
        "process_rank": "Rank",
        "input_dims": "Input Dims",
        "input_type": "Input type",
        "input_strides": "Input Strides",
        "in_split_size": "In split size",
        "out_split_size": "Out split size",
    },
):
    bytes: Any = None
    external_id: Any = None
    python_id: Any = None
    python_parent_id: Any = None
    process_rank: Any = None
    input_dims: msgspec.Raw = MISSING_TEXT
    input_type: msgspec.Raw = MISSING_TEXT
    input_strides: msgspec.Raw = MISSING_TEXT
    in_split_size: msgspec.Raw = MISSING_TEXT
    out_split_size: msgspec.Raw = MISSING_TEXT


class Fields(NamedTuple):
    """How the fields of a group are found and decoded."""

    keys: tuple[bytes, ...]
    """Every event that has the fields contains one of these texts."""
    kinds: tuple[Kind, ...]
    event: type[Any]
    """Decodes an event with the fields as ``args``."""
    required: tuple[str, ...]
    """Arguments, at least one of which an event must have."""
    columns: Callable[[Sequence[Any], Vocabularies], ColumnBlock]
    """Makes columns of the decoded arguments and the texts so far."""
    texts: tuple[str, ...] = ()
    """Columns with codes of texts."""

    def are_in(self, arguments: Sequence[Any]) -> Mask:
        """Mask of the events whose decoded arguments have any of the fields."""
        found = np.array([each is not None for each in arguments], dtype=np.bool_)
        unknown = np.flatnonzero(found)
        found[unknown] = False
        for name in self.required:
            field = attrgetter(name)
            values = [field(arguments[place]) for place in unknown.tolist()]
            has = np.array([each is not None and each is not MISSING_TEXT for each in values], bool)
            found[unknown[has]] = True
            unknown = unknown[~has]
        return found


def _sync_columns(arguments: Sequence[_SyncArgs], _: Vocabularies) -> ColumnBlock:
    return {name: integers([getattr(each, name) for each in arguments]) for name in _SYNC_FIELDS}


def _input_columns(arguments: Sequence[_InputArgs], texts: Vocabularies) -> ColumnBlock:
    """Columns with codes of the texts."""
    count = len(arguments)
    concrete = bytes_of([each.concrete_inputs for each in arguments])
    columns: ColumnBlock = {
        "concrete_inputs": texts["concrete_inputs"].codes(concrete, count),
    }
    for name in _INPUT_TEXTS[1:]:
        values = list(map(attrgetter(name), arguments))
        if values.count(None) == count:  # usual
            columns[name] = np.full(count, texts[name][b""], dtype=np.int32)
        else:
            columns[name] = texts[name].codes(map(_encoded, values), count)
    return columns


def _encoded(value: object) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else b""


def _launch_columns(arguments: Sequence[_LaunchArgs], texts: Vocabularies) -> ColumnBlock:
    names = (_encoded(each.kernel) for each in arguments)
    return {"kernel": texts["kernel"].codes(names, len(arguments))}


def _other_columns(arguments: Sequence[_OtherArgs], texts: Vocabularies) -> ColumnBlock:
    columns: ColumnBlock = {}
    for name in _OTHER_FIELDS:
        values = list(map(attrgetter(name), arguments))
        if name in _OTHER_TEXTS:
            columns[name] = texts[name].codes(bytes_of(values), len(values))
        else:
            columns[name] = integers(values)
    return columns


_SYNC_FIELDS: Final = tuple(_SyncArgs.__struct_fields__)
_INPUT_TEXTS: Final = tuple(_InputArgs.__struct_fields__)
_OTHER_FIELDS: Final = tuple(_OtherArgs.__struct_fields__)
_OTHER_TEXTS: Final = (
    *("input_dims", "input_type", "input_strides"),
    *("in_split_size", "out_split_size"),
)

FIELDS: Final[Mapping[DetailGroup, Fields]] = {
    DetailGroup.SYNCHRONISATION: Fields(
        (b'"wait_on_stream"',), (Kind.SYNC,), _With[_SyncArgs], ("wait_on_stream",), _sync_columns
    ),
    DetailGroup.OPERATOR_INPUTS: Fields(
        (b'"Concrete Inputs"', b'"Module Hierarchy"', b'"kernel_file"'),
        (Kind.CPU_OP,),
        _With[_InputArgs],
        _INPUT_TEXTS,
        _input_columns,
        _INPUT_TEXTS,
    ),
    DetailGroup.LAUNCHED_KERNELS: Fields(
        (b'"kernel"',),
        (Kind.RUNTIME,),
        _With[_LaunchArgs],
        ("kernel",),
        _launch_columns,
        ("kernel",),
    ),
    DetailGroup.OTHER_ARGUMENTS: Fields(
        tuple(f'"{key}"'.encode() for key in _OtherArgs.__struct_encode_fields__),
        (*(kind for kind in Kind if kind not in {Kind.COUNTER, Kind.INSTANT}),),
        _With[_OtherArgs],
        _OTHER_FIELDS,
        _other_columns,
        _OTHER_TEXTS,
    ),
}


def read_details(path: Path, trace: Trace, _: int | None, group: DetailGroup) -> SideTable:
    """Read the fields of a group from the file that the trace was loaded from.

    The table has a row for each event with any of the fields.
    """
    if group not in FIELDS:  # loading has already found that the trace has none
        return NO_FIELDS
    found = _OfRows(trace.events, FIELDS[group])
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


class _OfRows:
    """Fields of events that have a row in the events table."""

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
            self._columns.append({"rows": np.flatnonzero(has) + begin, **columns})

    def table(self) -> SideTable:
        """The fields by row."""
        if "rows" not in self._columns.names():
            return NO_FIELDS
        return side_table(self._columns, self._rows, self._texts_of)

    def _texts_of(self, column: str) -> tuple[str, ...] | None:
        if column not in self._fields.texts:
            return None
        return tuple(text.decode("utf-8", "replace") for text in self._texts[column])


def _decode(piece: bytes, text: EventText, event: type[Any]) -> Reading[Any]:
    """Decode the events of a piece, and count those that are unreadable, as loading does."""
    several = _decoder(list[event])  # type: ignore[valid-type]
    with suppress(*UNREADABLE):
        return Reading(piece, several.decode(piece))
    return repair(piece[1:-1], text.separator, several, _decoder(event), text.hold_back)


def _decoder(of: Any) -> msgspec.json.Decoder[Any]:  # noqa: ANN401
    return msgspec.json.Decoder(of)
