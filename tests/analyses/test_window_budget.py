"""The budget of a window against a trace that is cut there, and against the budget of its steps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses import temporal_breakdown
from hta_widgets.analyses.timeline import window_budget as window_budgets
from hta_widgets.analyses.timeline.overview import by_class
from hta_widgets.analyses.timeline.window_budget import window_budget
from hta_widgets.diagnosis import diagnosis
from hta_widgets.diagnosis.budget_table import BUDGET, budget
from hta_widgets.errors import ParameterError, UnknownRankError
from hta_widgets.sample import write_sample
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.generated_jobs import jobs, open_job

CLASSES = [f"{each.name}_ns" for each in BUDGET]
IDLE = ["late_launching_ns", "late_synchronising_ns", "data_loading_ns", "other_idle_ns"]


def span_of(job: Job) -> tuple[int, int]:
    steps = diagnosis(job).steps
    return int(steps["start_ns"].min()) - 10**9, int(steps["end_ns"].max()) + 10**9


def test_all_of_the_time_is_the_budget_of_the_steps(loaded):
    expected = budget(diagnosis(loaded).steps).drop(columns=["own_ns"])
    found = window_budget(loaded, None, span_of(loaded))
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)


def test_ranks_and_steps_are_those_asked_for(loaded):
    every = window_budget(loaded, None, span_of(loaded))
    some = window_budget(loaded, [3, 1], span_of(loaded), steps={10})
    assert {*zip(some["rank"], some["step"], strict=True)} == {(1, 10), (3, 10)}
    merged = some.merge(every, on=["rank", "step"], suffixes=("", "_of_all"))
    assert all((merged[name] == merged[f"{name}_of_all"]).all() for name in CLASSES)


@pytest.mark.parametrize("part", [(0.1, 0.4), (0.33, 0.35), (0.5, 1.5)])
def test_a_window_is_a_trace_that_is_cut_there(loaded, part):
    start_ns, end_ns = span_of(loaded)
    inside = start_ns + 10**9, end_ns - 10**9
    window = tuple(int(inside[0] + each * (inside[1] - inside[0])) for each in part)
    by_rank = window_budget(loaded, None, window).groupby("rank").sum()
    cut = temporal_breakdown(loaded, window_ns=window).ranks.set_index("rank")
    analysed = by_rank["period_ns"]
    idle_outside = cut["kernel_time_ns"] - analysed  # the last step ends with what it computes
    assert (analysed > 0).all()
    np.testing.assert_array_equal(by_rank["compute_ns"], cut["compute_time_ns"])
    if (idle_outside == 0).all():
        np.testing.assert_array_equal(by_rank[IDLE].sum(axis=1), cut["idle_time_ns"])
        np.testing.assert_array_equal(by_rank["copies_ns"], cut["copy_time_ns"])
    else:
        assert part[1] > 1


@given(jobs, st.lists(st.integers(-200, 2_000), min_size=3, max_size=5, unique=True))
def test_windows_side_by_side_add_up_to_the_whole(tmp_path_factory, drawn, cuts):
    job = open_job(tmp_path_factory.mktemp("job"), drawn)
    edges = [1_000 * cut for cut in sorted(cuts)]
    whole = window_budget(job, None, (edges[0], edges[-1]))
    parts = pd.concat([window_budget(job, None, each) for each in pairwise(edges)])
    np.testing.assert_array_equal(whole[CLASSES].sum(axis=1), whole["period_ns"])
    keys = ["rank", "step"]
    summed = parts.groupby(keys)[["period_ns", *CLASSES]].sum()
    pd.testing.assert_frame_equal(summed, whole.groupby(keys)[["period_ns", *CLASSES]].sum())


def test_ranks_that_are_not_held_have_the_same_budget(tmp_path, monkeypatch):
    write_sample(tmp_path, ranks=3, steps=2, progress=False)
    first, second = (open_trace(tmp_path, progress=False) for _ in range(2))
    window = span_of(first)
    held = window_budget(first, [0, 2], window)
    monkeypatch.setattr(Job, "too_many_to_hold", lambda *_: True)
    pd.testing.assert_frame_equal(window_budget(second, [0, 2], window), held)


def test_each_rank_is_counted_once_for_a_window(loaded, monkeypatch):
    """Bands and panels ask for the same window, each of its own ranks and steps."""
    counted = []

    def counting(lanes, edges):
        counted.append(edges)
        return by_class(lanes, edges)

    monkeypatch.setattr(window_budgets, "by_class", counting)
    start_ns, end_ns = span_of(loaded)
    window = start_ns + 10**9 + 5_000_000, end_ns - 10**9 - 5_000_000
    first = window_budget(loaded, [1, 3], window)
    first.loc[:, "compute_ns"] = -1
    some = window_budget(loaded, [1, 3], window)
    every = window_budget(loaded, None, window)
    window_budget(loaded, [3], window, steps={10})
    assert len(counted) == len(loaded.ranks)
    assert (some["compute_ns"] > 0).all()
    pd.testing.assert_frame_equal(every[every["rank"].isin([1, 3])].reset_index(drop=True), some)


def test_a_rank_or_window_that_cannot_be_is_refused(loaded):
    with pytest.raises(UnknownRankError):
        window_budget(loaded, [9], (0, 1))
    with pytest.raises(ParameterError, match="start < end"):
        window_budget(loaded, None, (5, 5))
