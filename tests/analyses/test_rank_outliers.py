"""Rules for outliers against plain Python, known tables and the numbers of the literature."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.rank_overlap.outlier_rules import (
    critical_t,
    directions,
    largest_z,
    leave_one_out_t,
    modified_z_scores,
    scores_beside,
    t_quantile,
    verdicts_by_modified_z,
    verdicts_by_t,
    verdicts_by_z,
    z_scores,
)

ONE_OF_8 = [97.0, 98, 99, 100, 101, 102, 103, 210]
NODE_OF_32 = [97.0, 98, 99, 100, 100, 101, 102, 103] * 3 + [148.0] * 8

few_values = st.lists(st.integers(-1000, 1000).map(float), min_size=3, max_size=12)


def column(values):
    return np.array(values, dtype=float)


@pytest.mark.parametrize(
    ("count", "largest"),
    [(2, 0.71), (4, 1.50), (8, 2.47), (10, 2.85), (11, 3.02), (16, 3.75), (32, 5.48)],
)
def test_the_largest_z_that_so_many_values_can_have(count, largest):
    assert round(largest_z(count), 2) == largest
    farthest = z_scores(column([0] * (count - 1) + [1]))[-1]
    assert farthest == pytest.approx(largest_z(count))


def test_one_slow_rank_of_8_is_no_outlier_by_z_and_one_by_the_others():
    z, modified = z_scores(column(ONE_OF_8)), modified_z_scores(column(ONE_OF_8))
    assert (round(z[-1], 2), round(modified[-1])) == (2.47, 37)
    assert verdicts_by_z(z).tolist() == [""] * 7 + ["Likely"]
    assert verdicts_by_modified_z(modified).tolist() == [""] * 7 + ["Outlier"]
    assert verdicts_by_t(leave_one_out_t(column(ONE_OF_8))).tolist() == [""] * 7 + ["Outlier"]


def test_one_slow_node_of_4_is_nothing_by_z_and_8_outliers_by_medians():
    z, modified = z_scores(column(NODE_OF_32)), modified_z_scores(column(NODE_OF_32))
    assert {(round(each, 2)) for each in z[24:]} == {1.7}
    assert {round(each) for each in modified[24:]} == {16}
    assert set(verdicts_by_z(z)) == {""}
    assert verdicts_by_modified_z(modified).tolist() == [""] * 24 + ["Outlier"] * 8


@pytest.mark.parametrize(("ranks", "slow", "z"), [(16, 2, 2.56), (20, 2, 2.92), (21, 2, 3.01)])
def test_equal_outliers_hide_each_other(ranks, slow, z):
    assert round(z_scores(column([0] * (ranks - slow) + [1] * slow))[-1], 2) == z


@given(few_values)
def test_against_plain_python(values):
    z, modified = z_scores(column(values)), modified_z_scores(column(values))
    t = leave_one_out_t(column(values))
    median = statistics.median(values)
    deviations = [abs(value - median) for value in values]
    scale = statistics.median(deviations) / 0.6745 or 1.2533 * statistics.mean(deviations)
    for place, value in enumerate(values):
        assert modified[place] == pytest.approx((value - median) / scale if scale else 0)
        others = values[:place] + values[place + 1 :]
        if len(set(values)) == 1:
            assert math.isnan(z[place])
            assert math.isnan(t[place])
            continue
        assert z[place] == pytest.approx(
            (value - statistics.mean(values)) / statistics.stdev(values)
        )
        if len(set(others)) == 1:
            assert t[place] == math.copysign(math.inf, value - others[0])
        else:
            noise = statistics.stdev(others) * math.sqrt(1 + 1 / len(others))
            expected = (value - statistics.mean(others)) / noise
            assert t[place] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("outside", "freedom", "quantile"),
    [
        (0.05, 1, 12.706),
        (0.05, 2, 4.303),
        (0.05, 3, 3.182),
        (0.01, 4, 4.604),
        (0.01, 5, 4.032),
        (0.05, 10, 2.228),
        (0.001, 30, 3.646),
        (0.05, 120, 1.980),
    ],
)
def test_quantiles_of_student_t(outside, freedom, quantile):
    assert round(t_quantile(outside, freedom), 3) == quantile


@pytest.mark.parametrize(("count", "limit"), [(3, 1.154), (8, 2.127), (10, 2.290), (32, 2.938)])
def test_the_limit_is_that_of_the_test_of_grubbs(count, limit):
    t = critical_t(count)
    g = (count - 1) / math.sqrt(count) * math.sqrt(t**2 / (count - 2 + t**2))
    assert round(g, 3) == limit


def test_limits_of_the_verdicts():
    z = column([3, -3, 2.99, -2, 1.99, math.nan])
    assert verdicts_by_z(z).tolist() == ["Outlier", "Outlier", "Likely", "Likely", "", ""]
    modified = column([3.51, -3.5, 2.5, -2.49, 0])
    assert verdicts_by_modified_z(modified).tolist() == ["Outlier", "Likely", "Likely", "", ""]


def test_too_few_values_get_no_verdict():
    assert set(verdicts_by_modified_z(column([9, 9, 9, 9]))) == {""}
    for values in ([], [1.0], [1.0, 9.0]):
        assert set(verdicts_by_z(column([9.0] * len(values)))) <= {""}
        t = leave_one_out_t(column(values))
        assert np.isnan(t).all()
        assert set(verdicts_by_t(t)) <= {""}
    assert math.isnan(critical_t(2))


def test_equal_values_do_not_differ_by_rounding():
    assert np.isnan(z_scores(column([0.1 + 0.2, 0.3, 0.3, 0.3]))).all()
    assert modified_z_scores(column([0.3, 0.3, 0.3])).tolist() == [0, 0, 0]


def test_deviations_beside_noise():
    assert scores_beside(column([4, -2, 0]), column([-1, 1, 0])).tolist() == pytest.approx(
        [4 * 0.6745, -2 * 0.6745, 0]
    )
    still = scores_beside(column([4, -2, 0]), column([0, 0, 0]))
    assert still.tolist() == [math.inf, -math.inf, 0]


def test_directions():
    assert directions(column([1, 2, 3])).tolist() == ["lower", "", "higher"]


def test_columns_are_apart():
    both = np.array([ONE_OF_8, ONE_OF_8[::-1]]).T
    for score in (z_scores, modified_z_scores, leave_one_out_t):
        np.testing.assert_allclose(score(both)[:, 0], score(column(ONE_OF_8)))
        np.testing.assert_allclose(score(both)[:, 1], score(column(ONE_OF_8))[::-1])
