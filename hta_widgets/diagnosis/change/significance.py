"""Whether the steps of one recording take longer than those of another, or only vary.

A change is real if three things hold: the medians differ by more than the limit; the steps of one
side rank above those of the other more than chance explains (Mann-Whitney, exact for few steps);
and the ratio of medians stays on its side of 1 when steps are resampled (bootstrap). Either test
alone cries wolf, the first if steps drift a little, the second if there are few of them.

Profilers are often asked for three steps, the last of which is left out. So few cannot prove a
small change, but they can prove a large one, if the sides are further apart than either varies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

MOST_CHANCE: Final = 0.01
"""One-sided p of Mann-Whitney from which a change is noise: four against four steps cannot get
below it (1 of 70 orders is 0.014), four against five can (1 of 126 is 0.008)."""

FEWEST_STEPS: Final = 2
"""Fewest steps of each side: a single one does not vary."""

LARGE_PERCENT: Final = 10
"""A change of the medians that a few steps can prove, if the sides are apart."""

CONFIDENCE: Final = 0.98
"""Confidence of the interval of the ratio of medians, drawn `DRAWS` times from a fixed seed."""

DRAWS: Final = 4_000
_SEED: Final = 34
_MOST_EXACT: Final = 30
"""Most values a side for which orders are counted; for more, the normal distribution is as good."""


class Significance(NamedTuple):
    """How the values of two sides differ, and how sure that is."""

    ratio: float
    """Median of the second ÷ median of the first; NaN without values."""
    low: float
    high: float
    """Interval of the ratio at `CONFIDENCE`; NaN with too few values to reach `MOST_CHANCE`."""
    chance: float
    """One-sided p of Mann-Whitney in the direction of the change; NaN with too few values."""
    counts: tuple[int, int]
    """Number of values of each side."""
    is_apart: bool = False
    """With too few values for these: whether the sides are further apart than either varies, and
    their medians by more than `LARGE_PERCENT`."""

    @property
    def can_tell(self) -> bool:
        """Whether both sides have enough values to tell a change from noise."""
        return self.is_apart or not math.isnan(self.chance)

    def is_longer(self, percent: float) -> bool:
        """Whether the second is longer than the first, by more than a percentage and noise."""
        is_real = self.is_apart or (self.low > 1 and self.chance < MOST_CHANCE)
        return bool(is_real and self.ratio > 1 + percent / 100)

    def is_shorter(self, percent: float) -> bool:
        """Whether the first is longer than the second, by more than a percentage and noise."""
        is_real = self.is_apart or (self.high < 1 and self.chance < MOST_CHANCE)
        return bool(is_real and self.ratio > 0 and 1 / self.ratio > 1 + percent / 100)


def significance(first: Sequence[float], second: Sequence[float]) -> Significance:
    """Compare the values of two sides.

    Examples
    --------
    >>> found = significance([100, 101, 99, 100, 102], [104, 105, 103, 104, 106])
    >>> round(found.ratio, 2), found.is_longer(2), found.is_longer(5)
    (1.04, True, False)
    """
    return significance_of_recordings([first], [second])


def significance_of_recordings(
    first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]
) -> Significance:
    """Compare the values of two sides, one or both of which were recorded several times.

    Runs differ more than the steps of one run. The interval draws recordings first, then steps
    within each. The chance is that of the medians of recordings. If these are too few to reach
    `MOST_CHANCE`, all medians of one side must lie above all of the other, and the chance is that
    of the steps.

    Examples
    --------
    >>> slow_run = [[100, 101, 100, 99, 100], [107, 108, 107, 106, 107]]
    >>> significance_of_recordings(slow_run, [[104, 105, 104, 103, 104]] * 2).is_longer(2)
    False
    """
    sides = [
        [np.asarray(each, dtype=np.float64) for each in side if len(each)]
        for side in (first, second)
    ]
    one, other = (np.concatenate([*side, np.zeros(0)]) for side in sides)
    counts = (int(one.size), int(other.size))
    median = float(np.median(one)) if one.size else 0.0
    if not (one.size and other.size and median > 0):
        return Significance(math.nan, math.nan, math.nan, math.nan, counts)
    ratio = float(np.median(other)) / median
    least_chance = 1 / math.comb(sum(counts), counts[0])
    if min(counts) < FEWEST_STEPS or least_chance >= MOST_CHANCE:
        are_apart = min(counts) >= FEWEST_STEPS and _are_apart(one, other)
        return Significance(ratio, math.nan, math.nan, math.nan, counts, are_apart)
    low, high = _interval(*sides)
    return Significance(ratio, low, high, _chance(*sides, is_longer=ratio >= 1), counts)


_Recordings: TypeAlias = list[NDArray[np.float64]]


def _chance(one: _Recordings, other: _Recordings, *, is_longer: bool) -> float:
    lower, higher = (one, other) if is_longer else (other, one)
    of_steps = mann_whitney(np.concatenate(lower), np.concatenate(higher))
    if len(one) == len(other) == 1:
        return of_steps
    medians = [np.array([float(np.median(each)) for each in side]) for side in (lower, higher)]
    of_runs = mann_whitney(*medians)
    least = 1 / math.comb(len(one) + len(other), len(one))
    if least < MOST_CHANCE:
        return of_runs
    is_apart = medians[0].max() < medians[1].min()
    return of_steps if is_apart else max(of_runs, of_steps)


def _are_apart(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    shorter, longer = sorted((one, other), key=np.median)
    distance = float(longer.min() - shorter.max())
    change = float(np.median(longer) / np.median(shorter) - 1)
    return bool(distance > max(np.ptp(one), np.ptp(other)) and 100 * change > LARGE_PERCENT)


def _interval(one: _Recordings, other: _Recordings) -> tuple[float, float]:
    """Bounds of the bootstrap interval of the ratio of medians."""
    draw = np.random.default_rng(_SEED)
    before, after = (_medians(side, draw) for side in (one, other))
    ratios = after / np.where(before > 0, before, np.nan)
    edge = 50 * (1 - CONFIDENCE)
    low, high = np.nanpercentile(ratios, [edge, 100 - edge])
    return float(low), float(high)


def _medians(side: _Recordings, draw: np.random.Generator) -> NDArray[np.float64]:
    """Medians of resampled steps of resampled recordings."""
    count = len(side)
    chosen = draw.integers(0, count, (DRAWS, count)) if count > 1 else np.zeros((DRAWS, 1))
    drawn = np.full((DRAWS, count, max(each.size for each in side)), np.nan)
    for place, values in enumerate(side):
        rows, columns = np.nonzero(chosen == place)
        which = draw.integers(0, values.size, (rows.size, values.size))
        drawn[rows, columns, : values.size] = values[which]
    medians: NDArray[np.float64] = np.nanmedian(drawn.reshape(DRAWS, -1), axis=1)
    return medians


def mann_whitney(lower: NDArray[np.float64], higher: NDArray[np.float64]) -> float:
    """Chance that one side would rank above the other by this much, if both were alike.

    Counted over all ways to deal the ranks to the sides, with the mean rank for equal values; for
    many values, by the normal distribution, corrected for ties and continuity.

    Examples
    --------
    >>> round(mann_whitney(np.arange(5.0), np.arange(5.0) + 10), 4)  # 1 of 252
    0.004
    """
    every = np.concatenate((lower, higher))
    _, of_value, sizes = np.unique(every, return_inverse=True, return_counts=True)
    # twice the mean rank, a whole number: (first + last rank) of equal values
    ends = np.cumsum(sizes)
    twice = (2 * ends - sizes + 1)[of_value.ravel()]
    reached = int(twice[lower.size :].sum())
    if max(lower.size, higher.size) <= _MOST_EXACT:
        return _exact(twice, higher.size, reached)
    count, size = every.size, higher.size
    mean = size * (count + 1)
    ties = float((sizes**3 - sizes).sum())
    spread = size * lower.size / 12 * (count + 1 - ties / (count * (count - 1)))
    if spread <= 0:
        return 1.0
    distance = (reached - mean) / 2 - 0.5
    return 0.5 * math.erfc(distance / math.sqrt(2 * spread))


def _exact(twice: NDArray[np.int64], size: int, reached: int) -> float:
    """Share of the choices of ``size`` ranks whose sum is at least ``reached``."""
    most = int(twice.sum())
    ways = np.zeros((size + 1, most + 1))
    ways[0, 0] = 1
    for rank in twice.tolist():
        ways[1:, rank:] = ways[1:, rank:] + ways[:-1, : most + 1 - rank]
    return float(ways[size, reached:].sum() / ways[size].sum())
