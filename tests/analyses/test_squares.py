"""Squared differences from a mean, against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.idle_time.block_variance import BLOCK, Squares

COUNT = 4 * BLOCK + 17
LENGTHS = np.random.default_rng(5).integers(0, 10**6, COUNT)
PLACES = st.integers(0, COUNT)


def exactly(values: np.ndarray) -> Fraction:
    numbers = values.tolist()
    return sum(number**2 for number in numbers) - Fraction(sum(numbers) ** 2, len(numbers))


@pytest.mark.parametrize("offset", [0, 10**12], ids=["short", "of a quarter of an hour"])
@given(ends=st.tuples(PLACES, PLACES).map(sorted).filter(lambda ends: ends[0] < ends[1]))
def test_any_run_is_as_exact_as_floats_are(offset, ends):
    values, (first, last) = LENGTHS + offset, ends
    run = values[first:last]
    found = Squares.of(values).about(run.sum() / run.size, first, last)
    assert found == pytest.approx(float(exactly(run)), rel=1e-10, abs=1e-4)


@pytest.mark.parametrize("count", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1])
def test_any_number_of_values(count):
    squares = Squares.of(LENGTHS[:count])
    mean = LENGTHS[:count].mean() if count else 0.0
    expected = float(exactly(LENGTHS[:count])) if count else 0
    assert squares.about(mean, 0, count) == pytest.approx(expected, rel=1e-12)


def test_whole_blocks_are_not_read_again():
    squares = Squares.of(LENGTHS)
    told = squares._replace(values=np.zeros_like(LENGTHS))
    mean = LENGTHS[: 2 * BLOCK].mean()
    assert told.about(mean, 0, 2 * BLOCK) == squares.about(mean, 0, 2 * BLOCK)
