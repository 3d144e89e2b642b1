"""Turn decoded values of doubtful type into typed columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from mmap import mmap
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Columns = dict[str, NDArray[Any]]
Text = TypeVar("Text", str, bytes)

ABSENT = -1
_PIECES_PER_BLOCK = 32
_INTEGERS = (np.int8, np.int16, np.int32, np.int64)
_NO_STREAM = 2**32 - 1
"""How CUPTI writes "no stream": -1 as an unsigned 32-bit number."""


class GrowingColumns:
    """Equally long columns that grow piece by piece.

    Small pieces are put together into blocks, which hold integers in the narrowest type that they
    fit, in pages that go back to the system with the column: a trace's columns are never held
    twice.
    """

    def __init__(self) -> None:
        self._types: dict[str, np.dtype[Any]] = {}
        self._pieces: list[Columns] = []
        self._blocks: list[Columns] = []

    def append(self, columns: Columns) -> None:
        """Add a piece; every piece has the same keys."""
        self._pieces.append(columns)
        if len(self._pieces) == _PIECES_PER_BLOCK:
            self._close_block()

    def names(self) -> list[str]:
        """Names of the columns that have not been taken; none before the first piece."""
        self._close_block()
        return list(self._types)

    def pop(self, key: str, places: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """Return a whole column and forget it.

        Parameters
        ----------
        key : str
        places : ndarray of int64, optional
            Where each value goes; they stay as they were appended when not given.
        """
        self._close_block()
        blocks = [block.pop(key) for block in self._blocks]
        column = np.empty(sum(block.size for block in blocks), self._types.pop(key))
        begin = 0
        for block in blocks:
            span = slice(begin, begin + block.size)
            column[span if places is None else places[span]] = block
            begin = span.stop
        return column

    def _close_block(self) -> None:
        if not self._pieces:
            return
        block: Columns = {}
        for key in self._pieces[0]:
            pieces = [piece[key] for piece in self._pieces]
            dtype = np.result_type(*{piece.dtype for piece in pieces})
            self._types[key] = np.promote_types(self._types.get(key, dtype), dtype)
            block[key] = _packed(pieces, dtype)
        self._blocks.append(block)
        self._pieces = []


def places_in(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place that each value has once all are put into `order`."""
    places = np.empty_like(order)
    places[order] = np.arange(order.size)
    return places


def _packed(pieces: Sequence[NDArray[Any]], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Join pieces, integers in the narrowest type that holds them.

    Freed blocks of the allocator's heap leave holes between those in use; pages that a block has
    for itself do not.
    """
    if dtype.kind == "i":
        dtype = _narrowest([piece for piece in pieces if piece.size])
    size = sum(piece.size for piece in pieces)
    pages = mmap(-1, max(size * dtype.itemsize, 1))
    packed = np.frombuffer(pages, dtype, size)
    return np.concatenate(pieces, out=packed, casting="same_kind")


def _narrowest(pieces: Sequence[NDArray[Any]]) -> np.dtype[Any]:
    """Narrowest type that holds all of the integers."""
    least = min((piece.min() for piece in pieces), default=0)
    most = max((piece.max() for piece in pieces), default=0)
    holding = (t for t in _INTEGERS if np.iinfo(t).min <= least and most <= np.iinfo(t).max)
    return np.dtype(next(holding))


class Vocabulary(dict[Text, int]):
    """Give each distinct text the next code; reading an unknown text enters it."""

    def __missing__(self, text: Text) -> int:
        """Enter a new text."""
        code = self[text] = len(self)
        return code

    def codes(self, texts: Iterable[Text], count: int) -> NDArray[np.int32]:
        """Encode `count` texts."""
        return np.fromiter(map(self.__getitem__, texts), dtype=np.int32, count=count)


class Labels(dict[str, int]):
    """Codes below -1 for process and thread ids that are text."""

    def __missing__(self, label: str) -> int:
        """Enter a new label."""
        code = self[label] = -2 - len(self)
        return code


def integers(values: Sequence[Any], labels: Labels | None = None) -> NDArray[np.int64]:
    """Convert values to int64.

    Text that is no number becomes a label's code, or `ABSENT` without `labels`; so does a missing
    value.
    """
    try:
        return np.fromiter(values, dtype=np.int64, count=len(values))
    except (TypeError, ValueError, OverflowError):
        if None in values:
            return integers([ABSENT if value is None else value for value in values], labels)
        return np.array([_integer(value, labels) for value in values], dtype=np.int64)


def streams(values: Sequence[Any]) -> NDArray[np.int64]:
    """Convert stream ids to int64; CUPTI's unsigned -1 is `ABSENT`."""
    ids = integers(values)
    ids[ids == _NO_STREAM] = ABSENT
    return ids


def floats(values: Sequence[Any]) -> NDArray[np.float64]:
    """Convert values to float64; what is no number becomes NaN."""
    try:
        return np.fromiter(values, dtype=np.float64, count=len(values))
    except (TypeError, ValueError):
        return np.array([_float(value) for value in values], dtype=np.float64)


def _integer(value: Any, labels: Labels | None) -> int:  # noqa: ANN401
    try:
        number = int(value, 0) if isinstance(value, str) else int(value)
    except (TypeError, ValueError, OverflowError):
        return labels[str(value)] if labels is not None else ABSENT
    return (number + 2**63) % 2**64 - 2**63


def _float(value: Any) -> float:  # noqa: ANN401
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")
