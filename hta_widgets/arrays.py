"""Types of numpy arrays, by what they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hta_widgets.numpy_on_wasm import patch_numpy

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
