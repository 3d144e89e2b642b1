"""Defaults of HTA that differ from the same numbers given by the caller.

Apart from what uses them, so that the signature of a method is read without its analysis.
"""

from __future__ import annotations

from typing import Final


class DefaultRatio(float):
    """A ratio that was not given."""


class DefaultNumber(int):
    """A number that was not given."""


DURATION_RATIO: Final[float] = DefaultRatio(0.8)
NUM_KERNELS: Final[int] = DefaultNumber(10)
