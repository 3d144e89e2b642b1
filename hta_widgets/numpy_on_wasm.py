"""Make numpy accept 64-bit positions in a browser (wasm32), where its indices have 32 bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np


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
