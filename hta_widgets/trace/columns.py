"""Turn decoded values of doubtful type into typed columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Columns = dict[str, NDArray[Any]]
Text = TypeVar("Text", str, bytes)

ABSENT = -1
_PIECES_PER_BLOCK = 64
_NO_STREAM = 2**32 - 1
"""How CUPTI writes "no stream": -1 as an unsigned 32-bit number."""


class GrowingColumns:
    """Equally long columns that grow piece by piece.

    Small pieces are put together into blocks large enough that the allocator gives their memory
    back when they go: reading a trace then never holds its columns twice.
    """

    def __init__(self) -> None:
        self._pieces: list[Columns] = []
        self._blocks: list[Columns] = []

    def append(self, columns: Columns) -> None:
        """Add a piece; every piece has the same keys."""
        self._pieces.append(columns)
        if len(self._pieces) == _PIECES_PER_BLOCK:
            self._close_block()

    def names(self) -> list[str]:
        """Names of the columns; none before the first piece."""
        return list((self._blocks + self._pieces)[0]) if self._blocks or self._pieces else []

    def pop(self, key: str) -> NDArray[Any]:
        """Return a whole column and forget it."""
        if self._pieces:
            self._close_block()
        return np.concatenate([block.pop(key) for block in self._blocks])

    def _close_block(self) -> None:
        keys = self._pieces[0]
        self._blocks.append({key: np.concatenate([p[key] for p in self._pieces]) for key in keys})
        self._pieces = []


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
    there = [ABSENT if value is None else value for value in values]
    try:
        return np.fromiter(there, dtype=np.int64, count=len(there))
    except (TypeError, ValueError, OverflowError):
        return np.array([_integer(value, labels) for value in there], dtype=np.int64)


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
