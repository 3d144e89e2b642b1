"""Groups against a dictionary of lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.grouping import distinct, grouped, reduce_runs

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
    assert [part.tolist() for part in groups.parts] == [expected[key] for key in sorted(expected)]
    assert groups.first.tolist() == [expected[key][0] for key in sorted(expected)]
    assert groups.sizes.tolist() == [len(expected[key]) for key in sorted(expected)]
    assert groups.of_rows.tolist() == [sorted(expected).index(row) for row in rows]
    places = np.arange(len(rows))
    assert groups.reduce(np.add, places).tolist() == [
        sum(expected[key]) for key in sorted(expected)
    ]


@given(st.lists(st.integers(-5, 300)), st.sampled_from([np.int64, np.int32, np.int16]))
def test_distinct_numbers(numbers, dtype):
    assert distinct(np.array(numbers, dtype=dtype)).tolist() == sorted({*numbers})


def test_numbers_with_a_point():
    groups = grouped(np.array([0.5, -1.0, 0.5]))
    assert [part.tolist() for part in groups.parts] == [[1], [0, 2]]


def test_no_runs():
    assert reduce_runs(np.add, np.zeros(0), np.zeros(0, dtype=np.int64)).size == 0
