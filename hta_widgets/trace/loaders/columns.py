"""Convert decoded values of uncertain type into typed columns."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from mmap import mmap
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Float64Array, Int32Array, Int64Array, narrowest_type

ColumnBlock = dict[str, NDArray[Any]]
"""Columns of equal length, by name."""

Value = TypeVar("Value", bound=Hashable)

ABSENT = -1
_PIECES_PER_BLOCK = 32
_NOT_IN_JSON = b"\0"
NO_STREAM = 2**32 - 1
"""How CUPTI writes "no stream": -1 as an unsigned 32-bit number."""


class GrowingColumns:
    """Columns of equal length that grow piece by piece.

    Small pieces are joined into blocks in memory pages of their own, with integers in the narrowest
    type that fits. The pages return to the system when a column is popped, so that a trace's
    columns are never in memory twice.
    """

    def __init__(self) -> None:
        self._types: dict[str, np.dtype[Any]] = {}
        self._pieces: list[ColumnBlock] = []
        self._blocks: list[ColumnBlock] = []

    def append(self, columns: ColumnBlock) -> None:
        """Add a piece; every piece has the same keys."""
        self._pieces.append(columns)
        if len(self._pieces) == _PIECES_PER_BLOCK:
            self._close_block()

    def names(self) -> list[str]:
        """Names of the columns that have not been popped; none before the first piece."""
        self._close_block()
        return list(self._types)

    def pop(
        self, key: str, positions: Int64Array | None = None, *, narrow: bool = False
    ) -> NDArray[Any]:
        """Return a whole column and remove it.

        `positions` says where each value goes in the result, by default in the order of appending.
        If `narrow`, integers stay in the narrowest type that fits.
        """
        self._close_block()
        blocks = [block.pop(key) for block in self._blocks]
        dtype = self._types.pop(key)
        if narrow and blocks:
            dtype = np.result_type(*{block.dtype for block in blocks})
        column = np.empty(sum(block.size for block in blocks), dtype)
        begin = 0
        for block in blocks:
            span = slice(begin, begin + block.size)
            column[span if positions is None else positions[span]] = block
            begin = span.stop
        return column

    def _close_block(self) -> None:
        if not self._pieces:
            return
        block: ColumnBlock = {}
        for key in self._pieces[0]:
            pieces = [piece[key] for piece in self._pieces]
            dtype = np.result_type(*{piece.dtype for piece in pieces})
            self._types[key] = np.promote_types(self._types.get(key, dtype), dtype)
            block[key] = _pack(pieces, dtype)
        self._blocks.append(block)
        self._pieces = []


def inverse_permutation(order: Int64Array) -> Int64Array:
    """Position of each value after sorting by `order`, an argsort."""
    positions = np.empty_like(order)
    positions[order] = np.arange(order.size)
    return positions


def _pack(pieces: Sequence[NDArray[Any]], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Join pieces, with integers in the narrowest type that fits.

    Each block has its own pages: freed blocks on the allocator's heap would leave holes.
    """
    joined = np.concatenate(pieces)
    if dtype.kind == "i":
        dtype = narrowest_type(joined)
    pages = mmap(-1, max(joined.size * dtype.itemsize, 1))
    packed = np.frombuffer(pages, dtype, joined.size)
    packed[:] = joined
    return packed


def whole_number(value: object, limit: int = 2**63) -> int | None:
    """Whole number in a file's metadata, even as text; None if it is none or reaches the limit.

    Examples
    --------
    >>> whole_number("12"), whole_number("²"), whole_number(10**30)
    (12, None, None)
    """
    if isinstance(value, str):
        digits = value.isascii() and value.isdigit() and len(value) < len(str(2**63))
        value = int(value) if digits else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if abs(value) < limit else None


class Vocabulary(dict[Value, int]):
    """Code of each distinct value, such as a text; looking up an unknown one adds it."""

    def __missing__(self, value: Value) -> int:
        """Add a new value."""
        code = self[value] = len(self)
        return code

    def codes(self, values: Iterable[Value], count: int) -> Int32Array:
        """Encode `count` values."""
        return np.fromiter(map(self.__getitem__, values), dtype=np.int32, count=count)


def bytes_of(texts: Sequence[Any]) -> list[bytes]:
    """Copies of pieces of JSON text; a piece itself would keep all of its file's text in memory."""
    copies = _NOT_IN_JSON.join(texts).split(_NOT_IN_JSON)  # half the time of copying one by one
    return copies if len(copies) == len(texts) else list(map(bytes, texts))


class Labels(dict[str, int]):
    """Codes below -1 for process and thread ids that are text; unknown texts are added."""

    def __missing__(self, label: str) -> int:
        """Add a new label."""
        code = self[label] = -2 - len(self)
        return code


def integers(values: Sequence[Any], labels: Labels | None = None) -> Int64Array:
    """Convert values to int64.

    Text that is not a number becomes the code of a label, or `ABSENT` without `labels`. Missing
    values become `ABSENT`.
    """
    try:
        return np.fromiter(values, dtype=np.int64, count=len(values))
    except (TypeError, ValueError, OverflowError):
        if None in values:
            return integers([ABSENT if value is None else value for value in values], labels)
        return np.array([_to_integer(value, labels) for value in values], dtype=np.int64)


def streams(values: Sequence[Any]) -> Int64Array:
    """Convert stream ids to int64; CUPTI's unsigned -1 is `ABSENT`."""
    ids = integers(values)
    ids[ids == NO_STREAM] = ABSENT
    return ids


def floats(values: Sequence[Any]) -> Float64Array:
    """Convert values to float64; NaN where a value is not a number."""
    try:
        return np.fromiter(values, dtype=np.float64, count=len(values))
    except (TypeError, ValueError):
        return np.array([_to_float(value) for value in values], dtype=np.float64)


def _to_integer(value: Any, labels: Labels | None) -> int:  # noqa: ANN401
    try:
        number = int(value, 0) if isinstance(value, str) else int(value)
    except (TypeError, ValueError, OverflowError):
        return labels[str(value)] if labels is not None else ABSENT
    return (number + 2**63) % 2**64 - 2**63


def _to_float(value: Any) -> float:  # noqa: ANN401
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")
