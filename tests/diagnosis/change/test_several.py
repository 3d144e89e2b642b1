"""Several recordings of a side, and several jobs: tables, sums, and what a notebook shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hta_widgets
from hta_widgets.diagnosis.change.baseline import read_baseline, write_baseline
from hta_widgets.diagnosis.change.explain_change import explain_change
from hta_widgets.diagnosis.change.several import pooled, several_jobs, side
from hta_widgets.diagnosis.change.significance import significance_of_recordings
from hta_widgets.errors import ParameterError
from tests.diagnosis.change.made import finding, job_of
from tests.simulator import write_job

MS = 1_000_000


def rows(compute_ms: float, gap_ms: float = 2):
    return [
        ("compute", "Net_0", "aten::mm", "gemm", round(compute_ms * MS)),
        ("gap_op", "", "aten::mm", "launch", round(gap_ms * MS)),
    ]


def run(compute_ms: float, **given):
    return job_of(rows(compute_ms), noise=0.001, **given)


def test_a_side_of_several_recordings_has_the_mean_step_of_all():
    every = [run(10), run(13, steps=7), run(11)]
    whole = pooled(every)
    steps = sum(each.steps["period_ns"].sum() for each in every)
    assert whole.mean_ns == round(steps / 17)
    assert whole.spent["time_ns"].sum() == steps
    assert whole.recordings == (5, 7, 5)
    assert whole.steps["step"].tolist() == [*range(17)]
    by_step = whole.kernels.set_index("step")["total_ns"]
    assert [by_step[each] for each in (0, 5, 12)] == [10 * MS, 13 * MS, 11 * MS]
    assert [len(each) for each in whole.by_recording(by_step.tolist())] == [5, 7, 5]
    change = explain_change(whole, whole)
    assert change.waterfall["first_ns"].sum() == whole.mean_ns
    assert "17 steps in 3 recordings and 17 steps in 3 recordings, p = " in change.finding
    assert pooled(every[:1]) is every[0]


def test_a_cause_counts_if_more_than_half_of_the_recordings_have_it():
    prices = [("host_pause", 5.0), ("slow_gpu", 3.0), ("host_pause", 4.0), ("host_pause", 9.0)]
    every = [run(10, findings=(finding(*each),)) for each in prices]
    assert [(each["cause"], each["recoverable_ms"]) for each in pooled(every).findings] == [
        ("host_pause", 5.0)
    ]
    assert not pooled(every[:2]).findings


def test_what_is_no_other_recording_is_refused_or_doubted():
    with pytest.raises(ParameterError, match="no recording"):
        side([])
    with pytest.raises(ParameterError, match="not another recording of job, which has ranks 0"):
        pooled([run(10), run(10, ranks=[0, 1])])
    mixed = pooled([run(10), run(10, gpus=["other"])])
    assert "its recordings differ: GPU" in mixed.doubts[0]
    assert explain_change(mixed, run(10)).verdict == "cannot tell"


def runs(draw, count: int, mean: float, *, of_runs: float, of_steps: float, steps: int = 6):
    """Recordings that differ by chance, and whose steps do."""
    return [
        (mean * draw.normal(1, of_runs) * draw.normal(1, of_steps, steps)).tolist()
        for _ in range(count)
    ]


def test_runs_that_differ_more_than_their_steps_raise_no_alarm():
    """Single steps of two runs would: they differ by 2 %, and within each by 0.2 %."""
    draw, alarms, alone = np.random.default_rng(5), 0, 0
    for _ in range(50):
        one, other = (runs(draw, 5, 100, of_runs=0.02, of_steps=0.002) for _ in range(2))
        found = significance_of_recordings(one, other)
        alarms += found.is_longer(2) or found.is_shorter(2)
        found = significance_of_recordings(one[:1], other[:1])
        alone += found.is_longer(2) or found.is_shorter(2)
    assert alarms <= 1
    assert alone > 17


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_change_above_the_difference_of_runs_is_found(count):
    draw, found = np.random.default_rng(6), 0
    for _ in range(20):
        one = runs(draw, count, 100, of_runs=0.004, of_steps=0.004)
        other = runs(draw, count, 104, of_runs=0.004, of_steps=0.004)
        change = significance_of_recordings(one, other)
        assert not change.is_shorter(0)
        assert significance_of_recordings(other, one).is_shorter(2) == change.is_longer(2)
        found += change.is_longer(2)
    assert found >= 18


def test_one_recording_among_those_of_the_other_side_makes_noise():
    one = [[100.0] * 5, [108.0] * 5]
    other = [[104.0] * 5, [109.0] * 5]
    assert significance_of_recordings(one, other).chance >= 1 / 6
    apart = significance_of_recordings(one, [[109.0] * 5, [110.0] * 5])
    assert apart.chance < 0.01


def test_each_of_several_jobs_is_compared_with_the_first():
    jobs = [run(10, name="a"), run(9, name="b"), run(12, name="c"), run(12, name="c")]
    found = several_jobs(jobs)
    table = found.table.set_index("job")
    assert [*table.index] == ["a", "b", "c (1)", "c (2)"]
    assert table["verdict"].tolist() == ["", "improvement", "regression", "regression"]
    assert table["mean_ns"].tolist() == [12 * MS, 11 * MS, 14 * MS, 14 * MS]
    classes = [name for name in table if name.endswith("_ns") and name != "mean_ns"]
    assert table[classes].sum(axis=1).tolist() == table["mean_ns"].tolist()
    assert found.times.loc["compute"].tolist() == [10 * MS, 9 * MS, 12 * MS, 12 * MS]
    assert found.finding == (
        "Of 4 jobs, b has the shortest mean step: 11 ms, 8.33 % less than a. "
        "Against the first, improvement: 1, regression: 2."
    )
    with pytest.raises(ParameterError, match="1 job cannot be compared"):
        hta_widgets.compare(jobs[0])
    empty = job_of([])
    assert several_jobs([empty, empty]).finding == "None of the jobs has GPU work."


def test_a_notebook_shows_a_change_and_several_jobs(tmp_path):
    for name, healthy in (("before", True), ("<b>after", False)):
        write_job(tmp_path / name, "input_starvation", healthy=healthy, ranks=2, steps=7)
    before, after = str(tmp_path / "before"), str(tmp_path / "<b>after")
    change = hta_widgets.compare(before, after)
    assert repr(change) == change.finding
    page = change._repr_html_()
    assert page.count("<img ") == 2
    assert "input_starvation: new" in page
    write_baseline(change.first, tmp_path / "main.arrow")
    several = hta_widgets.compare([tmp_path / "main.arrow", after, [before, before]])
    page = several._repr_html_()
    assert page.count("<img ") == 1 + 3
    assert "<b>after" not in page
    assert several.table["verdict"].tolist()[1:] == ["regression", "noise"]


def test_a_baseline_may_be_of_several_recordings(tmp_path):
    every = [run(10), run(13, steps=7)]
    write_baseline(pooled(every), tmp_path / "main.arrow")
    assert read_baseline(str(tmp_path / "main.arrow")).recordings == (5, 7)
    wrong = replace(pooled(every), recordings=(5, 6))
    write_baseline(wrong, tmp_path / "wrong.arrow")
    with pytest.raises(hta_widgets.diagnosis.change.baseline.BaselineError, match="add up"):
        read_baseline(str(tmp_path / "wrong.arrow"))
