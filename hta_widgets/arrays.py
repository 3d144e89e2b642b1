"""Types of numpy arrays, by what they hold.

In a browser (wasm32), where its indices have 32 bits, numpy is made to accept 64-bit positions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray


def patch_numpy() -> None:
    """Replace functions of numpy, for the whole process, if its indices have 32 bits.

    Of the functions used here, numpy refuses to narrow the arguments of only these. What it already
    accepts stays the same.
    """
    if np.dtype(np.intp).itemsize < np.dtype(np.int64).itemsize:
        np.bincount = accepting_64_bits(np.bincount, 0)
        np.repeat = accepting_64_bits(np.repeat, 1)
        np.take = accepting_64_bits(np.take, 1)


def accepting_64_bits(function: Callable[..., Any], positions: int) -> Callable[..., Any]:
    """Make a numpy function accept 64-bit numbers in an argument where an index has 32 bits."""

    @wraps(function)
    def accepting(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        given = [*arguments]
        given[positions] = np.asarray(given[positions]).astype(np.intp)
        if named.get("out") is not None:
            given[0] = np.asarray(given[0], named["out"].dtype)
        return function(*given, **named)

    return accepting


# Whatever holds events imports this module, so nothing is computed before.
patch_numpy()

Int64Array = NDArray[np.int64]
Int32Array = NDArray[np.int32]
Int8Array = NDArray[np.int8]
IntArray = NDArray[np.signedinteger[Any]]
"""Ids, rows or places, to compare and to index with; arithmetic on them may overflow."""
Float64Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
"""A boolean for each row: whether it is chosen."""

_INTEGERS = [
    (np.dtype(each), int(np.iinfo(each).min), int(np.iinfo(each).max))
    for each in (np.int8, np.int16, np.int32, np.int64)
]


def narrowest_type(values: NDArray[Any]) -> np.dtype[Any]:
    """Narrowest type that fits all of the integers."""
    least, most = (int(values.min()), int(values.max())) if values.size else (0, 0)
    return next(each for each, lowest, highest in _INTEGERS if lowest <= least and most <= highest)


def narrowed(values: NDArray[Any]) -> NDArray[Any]:
    """The same integers in the narrowest type that fits all: to store, not to calculate with."""
    return values.astype(narrowest_type(values), copy=False)
