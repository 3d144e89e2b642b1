"""Write quantities for people: three significant digits, a unit chosen by size, short lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

NS_PER_US = 1000
NS_PER_MS = 1e6
UNDEFINED = "n/a"
MINUS = "−"
_SIGNIFICANT_DIGITS = 3
_LEAST_PERCENT = 0.01


class TimeUnit(NamedTuple):
    """A unit of time and its length in ns."""

    symbol: str
    ns: int


TIME_UNITS = (TimeUnit("s", 10**9), TimeUnit("ms", 10**6), TimeUnit("µs", 10**3), TimeUnit("ns", 1))


_FLOP_UNITS = ((10**15, "PFLOP"), (10**12, "TFLOP"), (10**9, "GFLOP"), (10**6, "MFLOP"))
_DATA_UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def time_unit(ns: float) -> TimeUnit:
    """Choose the unit in which a time reads best, for example for a whole axis."""
    size = abs(ns)
    for unit in TIME_UNITS:
        if size >= unit.ns:
            return unit
    return TIME_UNITS[-1]


def duration(ns: float) -> str:
    """Write a time.

    Examples
    --------
    >>> duration(1_682_725)
    '1.68 ms'
    >>> duration(1_682_725_000_000)
    '1,683 s'
    """
    if math.isnan(ns):
        return UNDEFINED
    unit = time_unit(ns)
    return f"{number(ns / unit.ns)} {unit.symbol}"


def stretch(start_ns: int, end_ns: int) -> str:
    """Write two times in one unit, with enough digits to show their distance.

    Examples
    --------
    >>> stretch(12_400_000, 18_000_000), stretch(0, 950)
    ('12.40–18.00 ms', '0–950 ns')
    """
    unit = time_unit(max(abs(start_ns), abs(end_ns)))
    length = (end_ns - start_ns) / unit.ns
    most = len(str(unit.ns)) - 1
    digits = min(max(_SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(length)), 0), most)
    start, end = (with_minus(f"{edge_ns / unit.ns:,.{digits}f}") for edge_ns in (start_ns, end_ns))
    return f"{start}–{end} {unit.symbol}"


def exact_microseconds(ns: int) -> str:
    """Write a time in µs with all its digits.

    Examples
    --------
    >>> exact_microseconds(1234567), exact_microseconds(-1)
    ('1234.567', '-0.001')
    """
    whole, rest = divmod(abs(ns), NS_PER_US)
    return f"{'-' if ns < 0 else ''}{whole}.{rest:03d}"


def percent(value: float) -> str:
    """Write a percentage.

    Examples
    --------
    >>> percent(53.559), percent(0.000084)
    ('53.6 %', 'under 0.01 %')
    """
    if 0 < value < _LEAST_PERCENT:
        return f"under {_LEAST_PERCENT} %"
    return UNDEFINED if math.isnan(value) else f"{number(value)} %"


def signed(value: float, words: Callable[[float], str]) -> str:
    """Write a change with its sign.

    Examples
    --------
    >>> signed(-1_682_725, duration), signed(0.5, percent), signed(math.nan, percent)
    ('−1.68 ms', '+0.5 %', '')
    """
    if math.isnan(value):
        return ""
    sign = (MINUS if value < 0 else "+") if value else ""
    return f"{sign}{words(abs(value))}"


def data_size(size: float) -> str:
    """Write an amount of data, in decimal units as for bandwidths and disks.

    Examples
    --------
    >>> data_size(1_895_000_000), data_size(12)
    ('1.9 GB', '12 B')
    """
    unit, symbol = data_unit(size)
    return f"{number(size / unit)} {symbol}"


def data_unit(size: float) -> tuple[int, str]:
    """Choose the unit in which an amount of data reads best: its bytes and its symbol.

    Examples
    --------
    >>> data_unit(1_895_000_000)
    (1000000000, 'GB')
    """
    return next((each for each in _DATA_UNITS if size >= each[0]), (1, "B"))


def flop_unit(flop: float) -> tuple[int, str]:
    """Choose the unit in which an amount of FLOP reads best: its FLOP and its symbol.

    Examples
    --------
    >>> flop_unit(235_838_453_760)
    (1000000000, 'GFLOP')
    """
    return next((each for each in _FLOP_UNITS if flop >= each[0]), (1, "FLOP"))


def capitalised(words: str) -> str:
    """The same words as the beginning of a sentence; unlike `str.capitalize`, keeps capitals."""
    return words[:1].upper() + words[1:]


def counted(count: float, noun: str, plural: str = "") -> str:
    """Write a count with its noun in the singular, or the plural if that is not the noun with an s.

    Examples
    --------
    >>> counted(1, "kernel"), counted(0, "kernel"), counted(1234, "launch", "launches")
    ('1 kernel', '0 kernels', '1,234 launches')
    """
    text = number(count)
    return f"{text} {noun if text == '1' else plural or f'{noun}s'}"


def number(value: float) -> str:
    """Write a number with three significant digits and separated thousands.

    Examples
    --------
    >>> number(0.012345), number(12.0), number(-12345.6)
    ('0.0123', '12', '−12,346')
    """
    if math.isnan(value):
        return UNDEFINED
    if value == 0 or math.isinf(value):
        return with_minus(f"{value:g}")
    decimals = max(0, _SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(abs(value))))
    text = with_minus(f"{value:,.{decimals}f}")
    return text.rstrip("0").rstrip(".") if "." in text else text


def with_minus(text: str) -> str:
    """The same number with a minus sign, which unlike a hyphen is as wide as a plus.

    Examples
    --------
    >>> with_minus("-0.001")
    '−0.001'
    """
    return text.replace("-", MINUS)


def some_of(names: Sequence[str], most: int = 5) -> str:
    """The first of some names, and how many more there are.

    Examples
    --------
    >>> some_of(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def number_ranges(numbers: Iterable[int]) -> str:
    """Write numbers compactly: ``0-2, 4``.

    Examples
    --------
    >>> number_ranges([4, 0, 1, 2])
    '0-2, 4'
    """
    ordered = sorted(set(numbers))
    runs = [
        [number for _, number in run]
        for _, run in groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0])
    ]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def named_numbers(noun: str, numbers: Collection[int]) -> str:
    """Write a noun with its numbers, such as ranks or steps.

    Examples
    --------
    >>> named_numbers("rank", [3]), named_numbers("step", [0, 1, 2])
    ('rank 3', 'steps 0-2')
    """
    return f"{noun if len(numbers) == 1 else f'{noun}s'} {number_ranges(numbers)}"
