"""Outlier rules for small samples: z-scores, and robust rules that hold for a few values.

All functions take arrays whose first axis runs over what is compared (ranks).

References
----------
B. Iglewicz and D. C. Hoaglin, How to Detect and Handle Outliers, ASQC 1993: modified z-scores, 3.5.
F. E. Grubbs, Sample Criteria for Testing Outlying Observations, Ann. Math. Statist. 21, 1950.
NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.17, compares them.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Float64Array, Mask

OUTLIER = "Outlier"
LIKELY = "Likely"
NO_VERDICT = ""

FEWEST = 3
"""Fewest values among which an outlier can be detected."""

FEWEST_FOR_MODIFIED = 5
"""Fewest values for the modified z-score: the median of fewer deviations says little."""

Z_OUTLIER = 3.0
"""Limit of the z-score."""

OUTLIER_ABOVE = 3.5
"""Limit of the modified z-score."""

_NORMAL_MAD = 0.6745
_NORMAL_MEAN_DEVIATION = 1.2533
_Z_LIKELY = 2.0
_LIKELY_FROM = 2.5
_ROUNDING = 1e-12
_BISECTIONS = 80


def z_scores(values: Float64Array) -> Float64Array:
    """Deviations from the mean in sample standard deviations; NaN if all values are equal."""
    if len(values) < 2:  # noqa: PLR2004  # one value has no deviation
        return np.full(values.shape, np.nan)
    mean, deviation = values.mean(axis=0), values.std(axis=0, ddof=1)
    differ = deviation > _ROUNDING * np.abs(mean)
    return np.asarray((values - mean) / np.where(differ, deviation, np.nan))


def largest_z(count: int) -> float:
    """Largest possible absolute z-score among ``n`` values: ``(n - 1) / √n``.

    Examples
    --------
    >>> [round(largest_z(n), 2) for n in (2, 4, 8, 10, 11)]
    [0.71, 1.5, 2.47, 2.85, 3.02]
    """
    return (count - 1) / math.sqrt(count) if count else 0.0


def modified_z_scores(values: Float64Array) -> Float64Array:
    """Deviations from the median on the scale of z, from medians (Iglewicz and Hoaglin 1993).

    ``0.6745 (x - median) / MAD``. If more than half of the values are equal (MAD is 0), the mean
    deviation takes its place: ``(x - median) / (1.2533 · mean|x - median|)``; 0 if all values are
    equal.
    """
    return scores_beside(values - np.median(values, axis=0), values)


def scores_beside(deviations: Float64Array, noise: Float64Array) -> Float64Array:
    """Deviations on the scale of z, given values that differ only by noise.

    The scale is that of `modified_z_scores`. If the noise is 0, deviations are infinite or 0.
    """
    about = np.abs(noise - np.median(noise, axis=0))
    scale = np.median(about, axis=0) / _NORMAL_MAD
    scale = np.where(scale > 0, scale, _NORMAL_MEAN_DEVIATION * about.mean(axis=0))
    beyond = np.where(deviations == 0, 0.0, np.copysign(np.inf, deviations))
    return np.where(scale > 0, deviations / np.where(scale > 0, scale, 1.0), beyond)


def leave_one_out_t(values: Float64Array) -> Float64Array:
    """Distance of each value from all others, in units of their spread.

    ``z √(n (n - 2) / ((n - 1)² - n z²))``, which has Student's t distribution with n - 2 degrees of
    freedom; infinite if the others are equal, NaN if all are, or with fewer than three values.
    """
    count = len(values)
    z = z_scores(values)
    if count < FEWEST:
        return np.full(values.shape, np.nan)
    room = (count - 1) ** 2 - count * z**2
    others_differ = room > _ROUNDING * count**2
    t = z * np.sqrt(count * (count - 2) / np.where(others_differ, room, np.nan))
    return np.where(others_differ | np.isnan(z), t, np.copysign(np.inf, z))


@cache
def critical_t(count: int) -> float:
    """Limit that the largest ``|t|`` of ``count`` values exceeds by chance (Grubbs 1950).

    With probability at most 5 %: the two-sided quantile of Student's t with ``count - 2`` degrees
    of freedom at ``0.05 / count``; NaN for fewer than three values.
    """
    return t_quantile(0.05 / count, count - 2) if count >= FEWEST else math.nan


@cache
def t_quantile(outside: float, freedom: int) -> float:
    """Value that ``|t|`` exceeds with probability `outside`, by bisection.

    Examples
    --------
    >>> round(t_quantile(0.05, 10), 3)
    2.228
    """
    low, high = 0.0, math.pi / 2
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_within(middle, freedom) < 1 - outside else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _t_within(angle: float, freedom: int) -> float:
    """Probability that ``|t| < √freedom · tan(angle)`` (Abramowitz and Stegun 26.7.3, 26.7.4)."""
    odd = freedom % 2
    steps = np.arange(1 + odd, freedom - 2, 2, dtype=np.float64)
    terms = np.cumprod(steps / (steps + 1) * math.cos(angle) ** 2)
    series = math.sin(angle) * (1 + float(terms.sum()))
    if not odd:
        return series
    return 2 / math.pi * (angle + (series * math.cos(angle) if freedom > 1 else 0.0))


def verdicts_by_z(z: Float64Array) -> NDArray[np.str_]:
    """Verdict on each value by its z-score: Outlier from 3, Likely from 2, else empty."""
    enough = len(z) >= FEWEST
    return _verdicts((np.abs(z) >= Z_OUTLIER) & enough, (np.abs(z) >= _Z_LIKELY) & enough)


def verdicts_by_modified_z(modified: Float64Array) -> NDArray[np.str_]:
    """Verdict on each value by its modified z-score: Outlier above 3.5, Likely from 2.5."""
    outlier, likely = np.abs(modified) > OUTLIER_ABOVE, np.abs(modified) >= _LIKELY_FROM
    enough = len(modified) >= FEWEST_FOR_MODIFIED
    return _verdicts(outlier & enough, likely & enough)


def verdicts_by_t(t: Float64Array) -> NDArray[np.str_]:
    """Verdict on each value by its leave-one-out t: Outlier if it exceeds Grubbs' limit."""
    return _verdicts(np.abs(t) > critical_t(len(t)), np.zeros(t.shape, dtype=bool))


def directions(values: Float64Array) -> NDArray[np.str_]:
    """Side of the median that each value is on: ``higher``, ``lower``, or empty if equal."""
    off = values - np.median(values, axis=0)
    return np.select([off > 0, off < 0], ["higher", "lower"], "")


def _verdicts(outlier: Mask, likely: Mask) -> NDArray[np.str_]:
    return np.select([outlier, likely], [OUTLIER, LIKELY], NO_VERDICT)
