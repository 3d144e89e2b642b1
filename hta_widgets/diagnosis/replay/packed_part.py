"""A rank's part of a replay while nothing is replayed: the same numbers in a third of the bytes."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Int64Array, narrowest_type
from hta_widgets.diagnosis.replay.rank_part import RankPart

_SPARSE: Final = 4
"""An array with at most one in so many numbers that is not 0 is kept as these and their places."""


_EXACT: Final = 2.0**53
"""Below, each whole number is a float."""


class PackedArray(NamedTuple):
    """An array in the narrowest type that holds its numbers exactly.

    Attributes
    ----------
    values : ndarray
        All numbers, or those that are not 0.
    places : ndarray of int or None
        Where these are in the flat array.
    dtype : str
    shape : tuple of int
        As they were.
    """

    values: NDArray[Any]
    places: NDArray[Any] | None
    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, array: NDArray[Any]) -> PackedArray:
        """Pack an array."""
        values, places = array.ravel(), None
        found = np.flatnonzero(values.view(f"u{array.itemsize}"))  # -0.0 is not 0
        if _SPARSE * found.size <= values.size:
            values, places = values[found], _narrow(found)
        return cls(_narrow(_whole(values)), places, array.dtype.str, array.shape)

    def unpacked(self) -> NDArray[Any]:
        """The array as it was."""
        if self.places is None:
            return self.values.astype(self.dtype).reshape(self.shape)
        array = np.zeros(int(np.prod(self.shape)), self.dtype)
        array[self.places] = self.values
        return array.reshape(self.shape)


class PackedPart(NamedTuple):
    """A `RankPart`; of 1.5 M events, 14 MB instead of 45.

    Attributes
    ----------
    fields : tuple
        Those of the part, with arrays packed, and tuples of arrays as tuples of these.
    has_operations : bool
        Whether there is any GPU work.
    """

    fields: tuple[Any, ...]
    has_operations: bool

    @classmethod
    def of(cls, part: RankPart) -> PackedPart:
        """Pack a part."""
        return cls(tuple(map(_packed, part)), bool(part.row.size))

    def unpacked(self) -> RankPart:
        """The part as it was."""
        return RankPart(*map(_unpacked, self.fields))


def _packed(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, np.ndarray):
        return PackedArray.of(value)
    return type(value)(*map(_packed, value)) if hasattr(value, "_fields") else value


def _unpacked(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, PackedArray):
        return value.unpacked()
    return type(value)(*map(_unpacked, value)) if hasattr(value, "_fields") else value


def _whole(values: NDArray[Any]) -> NDArray[Any]:
    """Floats as integers where these are the same numbers."""
    if values.dtype.kind != "f" or not np.isfinite(values).all():
        return values
    if np.abs(values).max(initial=0.0) >= _EXACT or np.signbit(values[values == 0]).any():
        return values
    whole: Int64Array = values.astype(np.int64)
    return whole if np.array_equal(whole, values) else values


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(narrowest_type(values)) if values.dtype.kind == "i" else values
