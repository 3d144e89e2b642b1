"""Cutoffs: parameters given in µs and compared in ns."""

from __future__ import annotations

import math

from hta_widgets.errors import ParameterError
from hta_widgets.quantities import NS_PER_US


def cutoff_ns(parameter: str, microseconds: float) -> int:
    """Convert a cutoff to whole ns; `ParameterError` if it is negative or not finite.

    Examples
    --------
    >>> cutoff_ns("runtime_cutoff", 2.3)
    2300
    """
    if not math.isfinite(microseconds) or microseconds < 0:
        msg = f"{parameter} must be a time in µs, 0 or more, got {microseconds}"
        raise ParameterError(msg)
    return round(microseconds * NS_PER_US)
