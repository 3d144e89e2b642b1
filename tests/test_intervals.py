"""Interval algebra against brute force over single nanoseconds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.intervals import (
    Intervals,
    Reach,
    distinct_times,
    time_by_combination,
    time_of_both,
)

HORIZON = 40
pairs = st.lists(
    st.tuples(st.integers(0, HORIZON), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1])),
    max_size=12,
)


def covered_by(spans) -> set[int]:
    return {time for start, end in spans for time in range(start, end)}


def make(spans) -> Intervals:
    return Intervals.union([start for start, _ in spans], [end for _, end in spans])


def as_set(intervals: Intervals) -> set[int]:
    return covered_by(zip(intervals.starts.tolist(), intervals.ends.tolist(), strict=True))


def is_canonical(intervals: Intervals) -> bool:
    return bool(
        np.all(intervals.starts < intervals.ends)
        and np.all(intervals.ends[:-1] < intervals.starts[1:])
    )


@given(pairs)
def test_union_covers_the_same_time_in_canonical_form(spans):
    union = make(spans)
    assert is_canonical(union)
    assert as_set(union) == covered_by(spans)
    assert union.length == len(covered_by(spans))
    own = zip(union.starts.tolist(), union.ends.tolist(), strict=True)
    lengths = [end - start for start, end in own]
    assert union.sums.tolist() == [sum(lengths[:place]) for place in range(len(lengths) + 1)]


@given(pairs, pairs)
def test_intersection_union_and_difference(first, second):
    both = make(first) & make(second)
    either = make(first) | make(second)
    only = make(first) - make(second)
    assert is_canonical(both)
    assert is_canonical(either)
    assert is_canonical(only)
    assert as_set(either) == covered_by(first) | covered_by(second)
    assert as_set(both) == covered_by(first) & covered_by(second)
    assert as_set(only) == covered_by(first) - covered_by(second)


@given(pairs)
def test_gaps_are_the_uncovered_time_inside_the_span(spans):
    covered = covered_by(spans)
    inside = set(range(min(covered), max(covered) + 1)) if covered else set()
    assert as_set(make(spans).gaps()) == inside - covered
    assert make(spans).span == len(inside)


@given(pairs, st.integers(0, 50), st.integers(0, 50))
def test_clip(spans, start, end):
    assert as_set(make(spans).clip(start, end)) == covered_by(spans) & set(range(start, end))


@given(pairs, st.lists(st.integers(-5, 60), min_size=1, max_size=9).map(sorted))
def test_length_in_bins(spans, edges):
    lengths = make(spans).length_in_bins(np.array(edges))
    bins = pairwise(edges)
    assert lengths.tolist() == [len(covered_by(spans) & set(range(*each))) for each in bins]


@given(pairs, st.lists(st.integers(-5, 60), max_size=9))
def test_covers_and_covered_until(spans, times):
    covered = covered_by(spans)
    at = np.array(times, dtype=np.int64)
    assert make(spans).covers(at).tolist() == [time in covered for time in times]
    assert make(spans).covered_until(at).tolist() == [
        sum(moment < time for moment in covered) for time in times
    ]


@given(st.lists(pairs, min_size=1, max_size=3))
def test_time_by_combination(sets):
    covers = [covered_by(spans) for spans in sets]
    together = set().union(*covers)
    inside = range(min(together), max(together) + 1) if together else range(0)
    expected = [0] * 2 ** len(sets)
    for time in inside:
        expected[sum((time in cover) << bit for bit, cover in enumerate(covers))] += 1
    assert time_by_combination([make(spans) for spans in sets]).tolist() == expected


@given(pairs, pairs)
def test_time_of_both(one, other):
    assert time_of_both(make(one), make(other)) == len(covered_by(one) & covered_by(other))


def test_inputs_are_not_modified():
    starts, ends = np.array([5, 1]), np.array([6, 2])
    Intervals.union(starts, ends)
    assert starts.tolist() == [5, 1]
    assert ends.tolist() == [6, 2]


def test_distinct_times_ascend_without_repetition():
    empty = np.empty(0, np.int64)
    assert distinct_times(np.array([5, 1, 5]), empty, np.array([1, 7])).tolist() == [1, 5, 7]
    assert distinct_times(empty).size == 0


@given(pairs, st.integers(-5, 60), st.integers(0, 20))
def test_reach_leaves_out_nothing_that_touches_a_window(spans, start, length):
    starts, ends = (np.array([span[at] for span in spans], dtype=np.int64) for at in (0, 1))
    starts, ends = np.minimum(starts, ends), np.maximum(starts, ends)
    inside = Reach.of(starts, ends).inside(start, start + length)
    touching = np.flatnonzero((ends >= start) & (starts <= start + length))
    assert {*touching.tolist()} <= {*range(len(spans))[inside]}


def test_reach_looks_at_few_of_many_in_order():
    starts = np.arange(1000) * 10
    reach = Reach.of(starts, starts + 5)
    assert reach.inside(4000, 4020) == slice(400, 403)
    assert reach.inside(10_000, 10_001) == slice(1000, 1000)
    assert reach.inside(-9, -3) == slice(0, 0)
