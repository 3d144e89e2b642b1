"""What the time of steps is spent on: each instant once, and nothing left over."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets import diagnose, open_trace
from hta_widgets.analyses.collectives import rank_splits
from hta_widgets.diagnosis.change.summary import COLUMNS, summary
from hta_widgets.diagnosis.change.time_spent import first_come, kept_name, time_spent
from hta_widgets.sample import write_sample
from tests.kineto_text import call, kernel, step, write

INTERVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=12)


@given(INTERVALS)
def test_each_instant_belongs_to_the_interval_that_began_first(given_intervals):
    start = np.array([each for each, _ in given_intervals], dtype=np.int64)
    end = start + np.array([length for _, length in given_intervals], dtype=np.int64)
    which, own_start, own_end = first_come(start, end)
    owner = {
        at: int(each)
        for each, lo, hi in zip(which, own_start, own_end, strict=True)
        for at in range(lo, hi)
    }
    assert sum(own_end - own_start) == len(owner)
    for at in range(60):
        covering = [i for i in np.argsort(start, kind="stable") if start[i] <= at < end[i]]
        assert owner.get(at) == (covering[0] if covering else None)


def _adds_up(job) -> int:
    """Check all ranks of a job against its diagnosis, and return how many rows there are."""
    found = diagnose(job)
    own = found.counted or job
    steps = tuple(sorted({*found.steps["step"].tolist()}))
    splits, rows = rank_splits(own), 0
    answers = own.reduce_each(time_spent, {rank: (splits[rank], steps) for rank in found.ranks})
    for rank, spent in answers.items():
        of_rank = found.steps[found.steps["rank"] == rank]
        by_part = spent.table.groupby("part")["time_ns"].sum()
        for part in COLUMNS:
            assert by_part.get(part, 0) == of_rank[f"{part}_ns"].sum()
        assert spent.table["time_ns"].sum() == of_rank["period_ns"].sum()
        assert (spent.table["time_ns"] >= 0).all()
        rows += len(spent.table)
    return rows


def test_the_parts_of_the_sample_job_add_up_to_its_steps(tmp_path):
    write_sample(tmp_path, ranks=2, steps=4, progress=False)
    assert _adds_up(open_trace(tmp_path, progress=False)) > 100


@pytest.mark.parametrize(
    "name", ["compare_control", "compare_test", "dlrm_2rank", "vllm_piecewise"]
)
def test_the_parts_of_real_jobs_add_up_to_their_steps(kineto_jobs, name):
    assert _adds_up(open_trace(kineto_jobs[name], progress=False)) > 10


def test_durations_of_kernels_are_those_of_the_events(tmp_path):
    events = [step(1, 0, 100), step(2, 100, 10)]
    for number, (name, start) in enumerate((("a", 10), ("b", 20), ("a", 40)), start=1):
        events.append(call(start, 2, number))
        events.append(kernel(start + 3, 5 * number, name=name, correlation=number))
    write(tmp_path / "rank0.json", events)
    kept = summary(open_trace(tmp_path, progress=False))
    sums = kept.kernels.set_index("kernel")[["count", "total_ns"]]
    assert sums.loc["a"].tolist() == [2, 20_000]
    assert sums.loc["b"].tolist() == [1, 10_000]
    assert (kept.rows, kept.mean_ns, kept.unit) == (1, 58_000, "per step")


def test_long_names_stay_apart():
    one, other = "x" * 300 + "1", "x" * 300 + "2"
    assert kept_name(one) != kept_name(other)
    assert kept_name(one)[:100] == "x" * 100
