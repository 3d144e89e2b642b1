"""Noise is told from a change: against all orders, on both sides of each threshold."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.diagnosis.change import significance as module
from hta_widgets.diagnosis.change.significance import (
    MOST_CHANCE,
    mann_whitney,
    significance,
)

FEW = st.lists(st.integers(0, 6), min_size=1, max_size=5)


def _chance(lower: list[int], higher: list[int]) -> float:
    """Share of all ways to choose the higher side that win as many duels with the others."""

    def wins(chosen: tuple[int, ...]) -> float:
        others = [every[i] for i in range(len(every)) if i not in chosen]
        return sum((every[i] > o) + (every[i] == o) / 2 for i in chosen for o in others)

    every = [*lower, *higher]
    reached = wins(tuple(range(len(lower), len(every))))
    ways = [wins(each) for each in combinations(range(len(every)), len(higher))]
    return sum(each >= reached for each in ways) / len(ways)


@given(FEW, FEW)
def test_chances_are_those_of_all_orders(lower, higher):
    found = mann_whitney(np.array(lower, dtype=float), np.array(higher, dtype=float))
    assert found == pytest.approx(_chance(lower, higher))


def test_many_values_have_nearly_the_chance_of_an_exact_count(monkeypatch):
    draw = np.random.default_rng(1)
    for ties in (0, 1):
        one, other = (np.round(draw.normal(mean, 1, 30), 3 - 2 * ties) for mean in (0, 0.5))
        exact = mann_whitney(one, other)
        with monkeypatch.context() as patch:
            patch.setattr(module, "_MOST_EXACT", 0)
            assert mann_whitney(one, other) == pytest.approx(exact, rel=0.1)
    assert mann_whitney(np.zeros(40), np.zeros(40)) == 1


@pytest.mark.parametrize(
    ("first", "second", "can_tell"), [(4, 4, False), (4, 5, True), (3, 6, False), (3, 7, True)]
)
def test_few_steps_prove_no_small_change(first, second, can_tell):
    """Four against four have 70 orders, four against five 126."""
    shorter, longer = [100.0] * first, [109.0] * second
    for found in (significance(shorter, longer), significance(longer, shorter)):
        assert found.can_tell == can_tell
    assert significance(shorter, longer).is_longer(2) == can_tell
    assert significance(longer, shorter).is_shorter(2) == can_tell
    assert not significance(shorter, longer).is_shorter(0)


@pytest.mark.parametrize(
    ("second", "is_told"),
    [
        ([111.5, 112.0], True),  # 10.1 % more, 10.5 apart where each varies by 1 at most
        ([110.9, 111.0], False),  # 9.9 % more
        ([109.0, 119.0], False),  # varies by more than they are apart
        ([119.0], False),  # does not vary
    ],
)
def test_few_steps_prove_a_large_change(second, is_told):
    first = [100.0, 101.0, 101.0]
    assert significance(first, second).can_tell == is_told
    assert significance(first, second).is_longer(2) == is_told
    assert significance(second, first).is_shorter(2) == is_told


@pytest.mark.parametrize(("ratio", "is_longer"), [(1.0199, False), (1.0201, True)])
def test_a_change_must_be_beyond_the_limit(ratio, is_longer):
    first = [100.0, 100.001, 99.999, 100.002, 99.998]
    second = [each * ratio for each in first]
    assert significance(first, second).is_longer(2) == is_longer
    assert significance(second, first).is_shorter(2) == is_longer


def test_one_slow_step_is_noise():
    first = [100.0, 101.0, 99.0, 100.5, 99.5]
    assert not significance(first, [100.0, 101.0, 99.0, 100.5, 300.0]).is_longer(2)


def test_nothing_is_said_of_nothing():
    for first, second in (([], [1.0]), ([1.0], []), ([0.0] * 5, [1.0] * 5)):
        found = significance(first, second)
        assert not found.is_longer(0)
        assert not found.is_shorter(0)


def test_alike_recordings_raise_no_alarm_and_three_percent_is_found():
    draw = np.random.default_rng(7)
    alarms = found = 0
    for _ in range(200):
        first, again, slower = draw.normal(100, 0.5, (3, 5))
        change = significance(first.tolist(), again.tolist())
        alarms += change.is_longer(2) or change.is_shorter(2)
        found += significance(first.tolist(), (slower * 1.03).tolist()).is_longer(2)
    assert alarms == 0
    assert found >= 195
    assert MOST_CHANCE > 1 / 252
