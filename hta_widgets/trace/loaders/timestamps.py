"""Convert microseconds in decimal text to integer nanoseconds, exactly.

Times since 1970 have 16 digits before the point. At that size, float64 values are 0.25 µs apart, so
that a float would lose the nanoseconds::

    1732611000000000.123 µs    text without the point    1732611000000000123 ns
                               float64                   1732611000000000000 ns

The fast paths parse a whole block at once if that is exact: all integers; all with three decimals
(the point is removed); or all so small (`FLOAT_EXACT_US`) that the float is exact after rounding to
ns. Everything else goes through `decimal.Decimal`, one value at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Float64Array
from hta_widgets.intervals import Times

FLOAT_EXACT_US = 2.0**42
"""Below this many µs, float64 values are at most 0.5 ns apart, so that rounding to ns is exact."""

UNREADABLE: int = np.iinfo(np.int64).min
"""Stands for a time that is unreadable or out of range."""

FARTHEST_NS = 2**61
"""Upper limit of times and durations, so that no sum of a start and a duration overflows."""

_COMMA, _DOT = ord(","), ord(".")


def decimal_text_to_ns(texts: Sequence[bytes]) -> Times:
    """Convert JSON numbers (µs, as written; quoted ones, too) to int64 ns, rounded half to even.

    `UNREADABLE` where the text is not a time.
    """
    joined = b",".join(texts)
    if not joined or joined.translate(None, b"0123456789.,-"):
        return _convert_one_by_one(texts)
    if b"." not in joined:
        whole = _parse_numbers(joined, np.int64)
        fits = _fits(whole, len(texts), FARTHEST_NS // 1000)
        return whole * 1000 if fits else _convert_one_by_one(texts)
    if _three_decimals_each(joined, len(texts)):
        exact = _parse_numbers(joined.replace(b".", b""), np.int64)
        return exact if _fits(exact, len(texts), FARTHEST_NS) else _convert_one_by_one(texts)
    microseconds = _parse_numbers(joined, np.float64)
    if _fits(microseconds, len(texts), FLOAT_EXACT_US):
        return _split_to_ns(microseconds)
    return _convert_one_by_one(texts)


def durations_to_ns(values: Sequence[Any]) -> Times:
    """Convert decoded durations (µs; numbers, or text in some traces) to int64 ns.

    `UNREADABLE` where the value is not a time.
    """
    with suppress(TypeError, ValueError):
        microseconds = np.fromiter(values, dtype=np.float64, count=len(values))
        if _fits(microseconds, len(values), FLOAT_EXACT_US):
            return _split_to_ns(microseconds)
    return _convert_one_by_one([str(value).encode() for value in values])


def _parse_numbers(joined: bytes, dtype: type[np.int64 | np.float64]) -> NDArray[Any]:
    """Parse comma-separated numbers; none if any of them is unreadable."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # numpy 1 only warns where numpy 2 raises
        try:
            return np.fromstring(joined, dtype=dtype, sep=",")
        except (ValueError, DeprecationWarning):
            return np.empty(0, dtype)


def _fits(values: NDArray[Any], count: int, limit: float) -> bool:
    return values.size == count and bool(np.all(np.abs(values) < limit))


def _split_to_ns(microseconds: Float64Array) -> Times:
    whole = np.floor(microseconds)
    fraction = np.rint((microseconds - whole) * 1000)
    return whole.astype(np.int64) * 1000 + fraction.astype(np.int64)


def _three_decimals_each(joined: bytes, count: int) -> bool:
    text = np.frombuffer(joined + b",", dtype=np.uint8)
    dots = np.flatnonzero(text == _DOT)
    commas = np.flatnonzero(text == _COMMA)
    return (
        dots.size == count and commas.size == count and bool(np.all(commas - dots == len(b".ddd")))
    )


def _convert_one_by_one(texts: Sequence[bytes]) -> Times:
    return np.fromiter((_parse_exactly(text) for text in texts), dtype=np.int64, count=len(texts))


def _parse_exactly(text: bytes) -> int:
    try:
        microseconds = Decimal(bytes(text).decode("ascii", "replace").strip('" '))
        if not abs(microseconds) < FARTHEST_NS // 1000:
            return UNREADABLE
        return int((microseconds * 1000).to_integral_value(ROUND_HALF_EVEN))
    except (ArithmeticError, ValueError):
        return UNREADABLE
