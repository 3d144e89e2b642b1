"""Side tables of the events table, for sparse fields. Data says which tables there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, compress, starmap
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np

from hta_widgets.arrays import Int8Array, Int32Array, Int64Array, Mask
from hta_widgets.names.shorten import remembered
from hta_widgets.trace.loaders.columns import (
    ABSENT,
    ColumnBlock,
    GrowingColumns,
    Vocabulary,
    bytes_of,
    floats,
    integers,
)
from hta_widgets.trace.loaders.event_blocks import side_table
from hta_widgets.trace.loaders.kineto.decode import MISSING_TEXT, NO_ARGS
from hta_widgets.trace.model.details import (
    CONFIGURATION,
    LAUNCH_NUMBERS,
    LAUNCH_SHARES,
    LAUNCH_SIZES,
    LAUNCHES,
    MEMORY,
)
from hta_widgets.trace.model.events import Kind, KindSet, SideTable

COSTED_BY_VALUES: Final = frozenset(
    {
        *("aten::convolution", "aten::_convolution", "aten::convolution_backward"),
        *(
            f"aten::_scaled_dot_product_{kind}_attention{direction}"
            for kind in ("flash", "efficient", "cudnn")
            for direction in ("", "_backward")
        ),
        *("flash_attn::_flash_attn_forward", "aiter::fmha_v3_fwd", "aiter::mha_fwd"),
    }
)
"""Operators whose FLOP depend on inputs that are not tensors, such as strides and flags. Column
``concrete_inputs`` of the side table ``operators`` has the values of these inputs, as JSON text."""


AMD_LAUNCH: Final = re.compile(r"hip\w*Launch")
"""Calls whose launch configuration AMD's profiler also writes."""

_DIGITS: Final = re.compile(r"\d+")
_AXES: Final = 3
_SIZES: Final = tuple(map(attrgetter, LAUNCH_SIZES))
_OTHERS: Final = attrgetter(*LAUNCH_NUMBERS, *LAUNCH_SHARES)

Launch = tuple[Any, ...]
"""JSON of the grid and of the block, and the other fields as decoded, in a tuple."""


class LaunchConfigurations(Vocabulary[Launch]):
    """Code of each launch configuration, which many kernels share."""

    def of(self, arguments: Sequence[Any]) -> Int32Array:
        """Codes of the launch configurations of kernels, given their decoded arguments."""
        try:
            return self.codes(_launches(arguments), len(arguments))
        except TypeError:  # a list or an object where a number belongs
            return self.codes(map(_hashable, _launches(arguments)), len(arguments))

    def texts(self) -> tuple[str, ...]:
        """Each configuration as a JSON list of numbers, see `DetailGroup.LAUNCH_CONFIGURATION`."""
        return tuple(starmap(_launch_text, self))


def _launches(arguments: Sequence[Any]) -> Iterator[Launch]:
    sizes = (bytes_of(list(map(size, arguments))) for size in _SIZES)
    return zip(*sizes, map(_OTHERS, arguments), strict=True)


def _hashable(launch: Launch) -> Launch:
    *sizes, others = launch
    numbers = tuple(None if isinstance(value, list | dict) else value for value in others)
    return (*sizes, numbers)


@remembered  # ranks launch with the same sizes: of 256 small ones, a sixth of the loading time
def _launch_text(grid: bytes, block: bytes, others: tuple[Any, ...]) -> str:
    numbers, shares = others[: len(LAUNCH_NUMBERS)], others[len(LAUNCH_NUMBERS) :]
    sizes = (*_three_sizes(grid), *_three_sizes(block))
    return json.dumps([*sizes, *integers(numbers).tolist(), *floats(shares).tolist()])


@remembered
def _three_sizes(text: bytes) -> tuple[int, int, int]:
    """Sizes from a JSON list, or from text with three numbers, as before 2022.

    Examples
    --------
    >>> _three_sizes(b"[128, 2, 1]"), _three_sizes(b'"[128,2,1]"'), _three_sizes(b"")
    ((128, 2, 1), (128, 2, 1), (-1, -1, -1))
    """
    try:
        value = json.loads(text or b"null")
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, str):
        value = [int(digits) for digits in _DIGITS.findall(value)]
    numbers = integers(value).tolist() if isinstance(value, list) else []
    if len(numbers) != _AXES:
        return (ABSENT, ABSENT, ABSENT)
    return (numbers[0], numbers[1], numbers[2])


class _Table(NamedTuple):
    """A side table: the kinds it covers, the field that must be present, and its columns.

    ``raws`` may list several sources; the first one that any event of a piece has is used.
    ``raws_by_name`` are kept only for the operators in `COSTED_BY_VALUES`. ``launches`` is a
    column with the launch configurations of kernels.
    """

    kinds: KindSet
    required: str | None
    integers: Mapping[str, str] = {}
    floats: Mapping[str, str] = {}
    texts: Mapping[str, str] = {}
    raws: Mapping[str, tuple[str, ...]] = {}
    raws_by_name: Mapping[str, str] = {}
    launches: str | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields that are read from each event."""
        of_raws = (field for fields in self.raws.values() for field in fields)
        return (*self.integers.values(), *self.floats.values(), *self.texts.values(), *of_raws)


MEMORY_FIELDS: Final = {
    "device_type": "memory_type",
    "device": "memory_device",
    "address": "address",
    "bytes": "size",
    "total_allocated": "total_allocated",
    "total_reserved": "total_reserved",
}
"""Columns of allocations and frees, and the argument for each."""

_IDS: Final = ("sequence_number", "forward_thread", "device_type", "device")
"""Columns of ids, each in the narrowest type that holds them."""

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
        raws={"group_ranks": ("group_ranks",)},
    ),
    "operators": _Table(
        KindSet((Kind.CPU_OP,)),
        None,
        integers={
            "sequence_number": "sequence_number",
            "forward_thread": "forward_thread",
        },
        raws={
            "input_dims": ("input_dims", "input_dims_of_2021"),
            "input_types": ("input_types",),
            "call_stack": ("call_stack",),
        },
        raws_by_name={"concrete_inputs": "concrete_inputs"},
    ),
    LAUNCHES: _Table(KindSet((Kind.KERNEL,)), "grid", launches=CONFIGURATION),
    MEMORY: _Table(KindSet((Kind.INSTANT,)), "size", integers=MEMORY_FIELDS),
}
"""``transfers``: bytes, and GB/s as in the trace. ``collectives``: the fields of NCCL records, with
the ranks of the group as the JSON text of the trace; ``source_rank`` and ``destination_rank`` are
the peer of a receive and of a send. ``operators``: the links between forward and backward, shapes
and stacks as the JSON text of the trace, and for `COSTED_BY_VALUES` the values of inputs that are
not tensors. ``launches``: the fields of `DetailGroup.LAUNCH_CONFIGURATION`. ``memory``: those of
`DetailGroup.MEMORY`, for all instants with a size."""


class Marks(NamedTuple):
    """What the names of events say."""

    by_values: Mask
    """Events with a name in `COSTED_BY_VALUES`."""
    launches_on_amd: Mask
    """Events that launch kernels on AMD GPUs."""


class SideTablesBuilder:
    """Side tables of one trace under construction."""

    def __init__(self) -> None:
        self._tables: dict[str, GrowingColumns] = {}
        self._vocabularies: dict[tuple[str, str], Vocabulary[str]] = {}
        self._raw: dict[tuple[str, str], Vocabulary[bytes]] = {}
        self._launches = LaunchConfigurations()

    def add(
        self,
        arguments: Sequence[Any],
        kind: Int8Array,
        marks: Marks,
        offset: int,
    ) -> None:
        """Add the fields of the events in rows `offset` and following."""
        for table, spec in _TABLES.items():
            covered = spec.kinds.among(kind)
            if spec.launches:
                covered = covered | marks.launches_on_amd
            rows = np.flatnonzero(covered)
            if not rows.size:  # common, because Kineto writes the events of a kind in a row
                continue
            of_table = list(compress(arguments, covered.tobytes()))
            columns = _whole_numbers(spec, of_table)
            if columns is None:
                if spec.required:
                    rows, of_table = _with_field(spec, spec.required, rows, of_table)
                if not rows.size:
                    continue
                columns = self._columns(table, spec, of_table)
                for column, source in spec.raws_by_name.items():
                    chosen = marks.by_values[rows]
                    columns[column] = self._some_raw_codes(table, column, source, of_table, chosen)
            columns["rows"] = rows + offset
            self._tables.setdefault(table, GrowingColumns()).append(columns)

    def add_counters(self, arguments: Sequence[Any], rows: Int64Array) -> None:
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

    def finish(self, positions: Int64Array) -> dict[str, SideTable]:
        """Return the tables, given the final position of each event in the main table."""
        return {table: self._finish_table(table, positions) for table in self._tables}

    def _columns(self, table: str, spec: _Table, arguments: Sequence[Any]) -> ColumnBlock:
        if spec.launches:
            return {spec.launches: self._launches.of(arguments)}
        names = spec.fields
        each = zip(*map(attrgetter(*names), arguments), strict=True)
        values = dict(zip(names, each, strict=True))
        columns: ColumnBlock = {}
        for name, field in spec.integers.items():
            columns[name] = integers(values[field])
        for name, field in spec.floats.items():
            columns[name] = floats(values[field])
        for name, field in spec.texts.items():
            columns[name] = self._codes(table, name, list(map(_text, values[field])))
        for name, fields in spec.raws.items():
            columns[name] = self._raw_codes(table, name, [values[field] for field in fields])
        return columns

    def _raw_codes(self, table: str, column: str, fields: Sequence[Sequence[Any]]) -> Int32Array:
        vocabulary = self._raw.setdefault((table, column), Vocabulary[bytes]())
        for raws in fields:
            if raws[0] is not MISSING_TEXT or raws.count(MISSING_TEXT) < len(raws):
                return vocabulary.codes(bytes_of(raws), len(raws))
        return np.full(len(fields[0]), vocabulary[bytes(MISSING_TEXT)], np.int32)

    def _some_raw_codes(
        self,
        table: str,
        column: str,
        source: str,
        arguments: Sequence[Any],
        chosen: Mask,
    ) -> Int32Array:
        """Codes of a field for the chosen arguments, and the code of no text for the others."""
        vocabulary = self._raw.setdefault((table, column), Vocabulary[bytes]())
        codes = np.full(len(arguments), vocabulary[bytes(MISSING_TEXT)], np.int32)
        if chosen.any():
            raws = _of_all(source, list(compress(arguments, chosen.tobytes())))
            codes[chosen] = vocabulary.codes(bytes_of(raws), len(raws))
        return codes

    def _codes(self, table: str, column: str, texts: Sequence[str]) -> Int32Array:
        vocabulary = self._vocabularies.setdefault((table, column), Vocabulary[str]())
        return vocabulary.codes(texts, len(texts))

    def _texts(self, table: str, column: str) -> tuple[str, ...] | None:
        """Texts by code; None for a column of numbers."""
        if (table, column) == (LAUNCHES, CONFIGURATION):
            return self._launches.texts()
        raw = self._raw.get((table, column))
        if raw is not None:
            return tuple(text.decode("utf-8", "replace") for text in raw)
        vocabulary = self._vocabularies.get((table, column))
        return None if vocabulary is None else tuple(vocabulary)

    def _finish_table(self, table: str, positions: Int64Array) -> SideTable:
        return side_table(
            self._tables[table], positions, lambda column: self._texts(table, column), _IDS
        )


def _whole_numbers(spec: _Table, arguments: Sequence[Any]) -> ColumnBlock | None:
    """All columns of a table of only whole numbers, if every argument has all of them.

    It takes half the time of one column after the other.
    """
    if (*spec.integers.values(),) != spec.fields or spec.launches:
        return None
    fields = chain.from_iterable(map(attrgetter(*spec.fields), arguments))
    try:
        values = np.fromiter(fields, np.int64, len(arguments) * len(spec.fields))
    except (TypeError, ValueError, OverflowError):
        return None
    return dict(zip(spec.integers, values.reshape(-1, len(spec.fields)).T, strict=True))


def _with_field(
    spec: _Table, required: str, rows: Int64Array, arguments: list[Any]
) -> tuple[Int64Array, list[Any]]:
    """Keep the rows and arguments that have a field, with a number if it is of whole numbers."""
    values = _of_all(required, arguments)
    if required in spec.integers.values():
        has = np.isfinite(floats(values))
    else:
        missing = getattr(NO_ARGS, required)
        if values and values[0] is missing and values.count(missing) == len(values):
            return rows[:0], []
        has = np.array([value is not missing for value in values], dtype=np.bool_)
    if has.all():
        return rows, arguments
    return rows[has], list(compress(arguments, has.tobytes()))


def _of_all(field: str, arguments: Sequence[Any]) -> list[Any]:
    return list(map(attrgetter(field), arguments))


def _text(value: Any) -> str:  # noqa: ANN401
    """The value if it is text or a whole number (ids of groups, in 2023), else an empty string."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) else ""
