"""How kernels are launched: grid, block and what else Kineto records of it.

Many kernels are launched alike, so a column holds one text for all that is recorded of a launch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, Final

from hta_widgets.arrays import Int32Array
from hta_widgets.trace.loaders.columns import ABSENT, Vocabulary, bytes_of, floats, integers
from hta_widgets.trace.model.details import LAUNCH_NUMBERS, LAUNCH_SHARES, LAUNCH_SIZES

AMD_LAUNCH: Final = re.compile(r"hip\w*Launch")
"""Calls of which AMD's profiler writes the launch configuration, too."""

_DIGITS: Final = re.compile(r"\d+")
_AXES: Final = 3
_SIZES: Final = tuple(map(attrgetter, LAUNCH_SIZES))
_OTHERS: Final = attrgetter(*LAUNCH_NUMBERS, *LAUNCH_SHARES)

Launch = tuple[Any, ...]
"""JSON of the grid and of the block, and the other fields as decoded, in a tuple."""


class LaunchConfigurations(Vocabulary[Launch]):
    """Code of each launch configuration that differs from the others."""

    def of(self, arguments: Sequence[Any]) -> Int32Array:
        """Codes of the launch configurations of kernels, given their decoded arguments."""
        try:
            return self.codes(_launches(arguments), len(arguments))
        except TypeError:  # a list or an object where a number belongs
            return self.codes(map(_hashable, _launches(arguments)), len(arguments))

    def texts(self) -> tuple[str, ...]:
        """Each configuration as a JSON list of numbers, as `DetailGroup.LAUNCH_CONFIGURATION`."""
        return tuple(map(_text, self))


def _launches(arguments: Sequence[Any]) -> Iterator[Launch]:
    sizes = (bytes_of(list(map(size, arguments))) for size in _SIZES)
    return zip(*sizes, map(_OTHERS, arguments), strict=True)


def _hashable(launch: Launch) -> Launch:
    *sizes, others = launch
    numbers = tuple(None if isinstance(value, list | dict) else value for value in others)
    return (*sizes, numbers)


def _text(launch: Launch) -> str:
    grid, block, others = launch
    numbers, shares = others[: len(LAUNCH_NUMBERS)], others[len(LAUNCH_NUMBERS) :]
    sizes = (*_three_sizes(grid), *_three_sizes(block))
    return json.dumps([*sizes, *integers(numbers).tolist(), *floats(shares).tolist()])


def _three_sizes(text: bytes) -> tuple[int, int, int]:
    """Sizes from a JSON list, or from text with three numbers, as before 2022.

    Examples
    --------
    >>> _three_sizes(b"[128, 2, 1]"), _three_sizes(b'"[128,2,1]"'), _three_sizes(b"")
    ((128, 2, 1), (128, 2, 1), (-1, -1, -1))
    """
    try:
        value = json.loads(text or b"null")
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, str):
        value = [int(digits) for digits in _DIGITS.findall(value)]
    numbers = integers(value).tolist() if isinstance(value, list) else []
    if len(numbers) != _AXES:
        return (ABSENT, ABSENT, ABSENT)
    return (numbers[0], numbers[1], numbers[2])
