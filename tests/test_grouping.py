"""Groups against a dictionary of lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.grouping import grouped, narrow, reduce_runs

NUMBERS = st.one_of(st.integers(-3, 3), st.integers(-(2**62), 2**62))
ROWS = st.lists(st.tuples(NUMBERS, st.integers(0, 2)), max_size=40)


@given(ROWS)
def test_groups(rows):
    first = np.array([row[0] for row in rows], dtype=np.int64)
    second = np.array([row[1] for row in rows], dtype=np.int8)
    expected = {}
    for place, row in enumerate(rows):
        expected.setdefault(row, []).append(place)
    groups = grouped(first, second)
    members = np.split(groups.order, groups.edges[1:-1])
    assert [part.tolist() for part in members if part.size] == [
        expected[key] for key in sorted(expected)
    ]
    assert groups.first.tolist() == [expected[key][0] for key in sorted(expected)]
    assert groups.sizes.tolist() == [len(expected[key]) for key in sorted(expected)]
    assert groups.number.tolist() == [sorted(expected).index(row) for row in rows]
    places = np.arange(len(rows))
    assert groups.reduce(np.add, places).tolist() == [
        sum(expected[key]) for key in sorted(expected)
    ]


def test_numbers_with_a_point():
    groups = grouped(np.array([0.5, -1.0, 0.5]))
    assert groups.number.tolist() == [1, 0, 1]


def test_no_runs():
    assert reduce_runs(np.add, np.zeros(0), np.zeros(0, dtype=np.int64)).size == 0


@given(st.lists(NUMBERS, max_size=5))
def test_narrow_keeps_the_numbers(numbers):
    values = np.array(numbers, dtype=np.int64)
    narrowed = narrow(values)
    assert narrowed.tolist() == numbers
    fits = all(abs(number) < 2**31 for number in numbers) and bool(numbers)
    assert narrowed.dtype == (np.int32 if fits else np.int64)
