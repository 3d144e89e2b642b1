"""Round numbers for the ticks of an axis."""

from __future__ import annotations

import math

_STEPS = (1, 2, 5, 10)


def round_ticks(start: float, end: float, count: int) -> tuple[list[float], int]:
    """Round numbers from `start` to `end`, and the number of decimals they need.

    They have at most `count` intervals between them.

    Examples
    --------
    >>> round_ticks(0, 1, 6)
    ([0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0], 1)
    """
    rough = max(end - start, 1e-9) / count
    power = math.floor(math.log10(rough))
    factor = next(each for each in _STEPS if each * 10.0**power >= rough)
    step = factor * 10.0**power
    numbers = range(math.ceil(start / step), math.floor(end / step) + 1)
    return [number * step for number in numbers], max(0, -power - (factor == _STEPS[-1]))
