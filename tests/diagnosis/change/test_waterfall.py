"""From one mean step to another: every level adds up, and what cancels is not blamed."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.diagnosis.change.explain_change import explain_change
from hta_widgets.diagnosis.change.summary import COLUMNS, MOST_ROWS, Summary, folded, rounded
from hta_widgets.diagnosis.change.time_spent import KEYS
from hta_widgets.diagnosis.change.waterfall import LEVELS, level, shares
from tests.diagnosis.change.made import job_of


@given(st.lists(st.integers(0, 10**12), max_size=20), st.integers(1, 1000))
def test_shares_add_up_and_each_is_right_to_a_ns(sums, count):
    found = shares(np.array(sums, dtype=np.int64), count)
    assert found.sum() == rounded(sum(sums), count)
    for share, whole in zip(found.tolist(), sums, strict=True):
        assert abs(share - Fraction(whole, count)) <= 1


ROW = st.tuples(
    st.sampled_from(COLUMNS),
    st.sampled_from(["", "Net_0 › A_0", "Net_0 › B_0"]),
    st.sampled_from(["", "aten::mm", "aten::add"]),
    st.sampled_from(["k1", "k2"]),
    st.integers(0, 10**7),
)


@given(st.lists(ROW, max_size=12), st.lists(ROW, max_size=12))
def test_each_level_adds_up_to_the_difference(first, second):
    change = explain_change(job_of(first), job_of(second, steps=7))
    for name in LEVELS:
        rows = level(change.waterfall, name)
        assert rows["delta_ns"].sum() == change.delta_ns
        assert rows["first_ns"].sum() == change.first.mean_ns
        assert rows["second_ns"].sum() == change.second.mean_ns


def test_kernels_that_replace_each_other_are_not_blamed():
    common = ("compute", "Net_0 › Conv_0", "aten::cudnn_convolution")
    first = [(*common, "old", 36_000_000), ("gap_loader", "", "", "next", 16_000_000)]
    second = [(*common, "new", 36_100_000), ("gap_loader", "", "", "next", 3_000_000)]
    change = explain_change(job_of(first), job_of(second))
    assert change.verdict == "improvement"
    assert [line.path[0] for line in change.lines] == ["data_loading"]
    assert "old" not in change.finding
    assert "100 % of the difference" not in change.finding or "data loading" in change.finding


def test_a_line_goes_down_to_what_stands_for_the_change():
    place = ("compute", "Net_0 › Linear_3", "aten::mm")
    change = explain_change(
        job_of([(*place, "gemm", 10_000_000), ("compute", "Net_0", "aten::add", "add", 5_000_000)]),
        job_of([(*place, "gemm", 14_000_000), ("compute", "Net_0", "aten::add", "add", 5_000_000)]),
    )
    (line,) = change.lines
    assert line.path == ("compute", "compute", "Net_0 › Linear_3", "aten::mm", "", "gemm")
    assert (line.first_ns, line.second_ns, line.outcome) == (10_000_000, 14_000_000, "grew")
    assert "+4 ms compute, Net_0 › Linear_3, aten::mm, gemm (10 ms → 14 ms)" in change.finding


def test_modules_are_matched_by_class_where_their_numbers_differ():
    first = [("compute", "Net_0 › Linear_3", "aten::mm", "a", 10_000_000)]
    second = [("compute", "Net_1 › Linear_9", "aten::mm", "b", 12_000_000)]
    rows = level(explain_change(job_of(first), job_of(second)).waterfall, "operator")
    assert rows["module"].tolist() == ["Net › Linear"]
    assert rows["delta_ns"].tolist() == [2_000_000]


def test_what_is_folded_is_summed_up_by_operator():
    count = MOST_ROWS + 700
    table = pd.DataFrame(
        {
            "part": ["compute"] * count,
            "module": [f"m{i % 5}" for i in range(count)],
            "operator": [f"o{i % 300}" for i in range(count)],
            "shape": [""] * count,
            "kernel": [f"k{i}" for i in range(count)],
            "count": np.ones(count, dtype=np.int64),
            "time_ns": np.arange(count, dtype=np.int64)[::-1],
        }
    )
    found = folded([table])
    assert found["time_ns"].sum() == table["time_ns"].sum()
    assert found["count"].sum() == count
    assert not found.duplicated([*KEYS]).any()
    assert len(found) < count


def test_summaries_of_jobs_without_work_are_compared_with_nothing():
    empty: Summary = job_of([])
    change = explain_change(empty, job_of([("compute", "", "", "k", 5)]))
    assert change.verdict == "cannot tell"
    assert "no GPU work" in change.finding
    with pytest.raises(TypeError):
        replace(empty, nothing=1)
