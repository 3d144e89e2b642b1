"""The table of steps on real traces: times add up, and equal those of other analyses."""

from __future__ import annotations

import pandas as pd
import pytest

from hta_widgets.analyses.budget.classes import BUDGET_CLASSES
from hta_widgets.analyses.idle_owners import idle_owners
from hta_widgets.analyses.step_table import step_table
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.analyses.timeline import timeline
from hta_widgets.diagnosis.budget_table import budget
from tests.golden import brute_force
from tests.golden.reference import diagnosed, opened, place_of
from tests.golden.test_idle_owners import TRACES


@pytest.fixture(scope="module", params=TRACES, ids=lambda trace: trace.partition("/")[0])
def path(request):
    return place_of(request.param)


def test_times_add_up(path):
    job = opened(path)
    steps, owners = step_table(job).steps, idle_owners(job)
    classes = steps[[f"{name}_ns" for name in BUDGET_CLASSES]]
    assert (classes.sum(axis=1) == steps["period_ns"]).all()
    for _, rows in steps.groupby("device"):
        assert (rows["end_ns"].to_numpy()[:-1] == rows["start_ns"].to_numpy()[1:]).all()
    if (steps["step"] < 0).any():
        return
    by_cause = owners.causes.groupby(["device", "step", "cause"])["idle_ns"].sum()
    rows = steps.set_index(["device", "step"])
    for (device, number, cause), idle_ns in by_cause.items():
        if number >= 0:
            assert rows.loc[(device, number), f"idle_{cause}_ns"] == idle_ns
    in_steps = owners.causes["step"] >= 0
    idle = steps[[name for name in steps if name.startswith("idle_")]].sum().sum()
    assert idle == owners.causes.loc[in_steps, "idle_ns"].sum()


def test_all_analyses_bound_a_step_alike(path):
    """The header of a dashboard said 46.9 ms for a step that its timeline drew with 33.8."""
    job = opened(path)
    table = step_table(job).steps
    main = job.rank(job.ranks[0]).gpu_work.main_device
    rows = table[table["device"] == main].set_index("step")
    of_verdict = diagnosed(path).steps.set_index("step")
    drawn = timeline(job).steps.set_index("step")
    for name in ("start_ns", "end_ns", "period_ns"):
        assert of_verdict[name].to_dict() == rows[name].to_dict()
    assert (drawn["end_ns"] - drawn["start_ns"]).to_dict() == rows["period_ns"].to_dict()
    for number in sorted({*table["step"]} - {-1}):
        of_step = table[table["step"] == number]
        for device, period_ns in zip(of_step["device"], of_step["period_ns"], strict=True):
            times = temporal_breakdown(job, steps=[number]).ranks.set_index("device").loc[device]
            owned = idle_owners(job, steps=[number]).devices.set_index("device").loc[device]
            assert times["kernel_time_ns"] == owned["window_ns"] == period_ns
            assert times["idle_time_ns"] == owned["idle_ns"]


def test_steps_are_divided_as_the_verdict_divides_them(path):
    """Steps of TimeSformer waited for launches, and its verdict said that they wait for data."""
    job, of_verdict = opened(path), budget(diagnosed(path).steps)
    if of_verdict.empty:
        return
    table = step_table(job).steps
    own = table[table["device"] == job.rank(job.ranks[0]).gpu_work.main_device]
    classes = [f"{name}_ns" for name in BUDGET_CLASSES]
    pd.testing.assert_frame_equal(
        own[classes].reset_index(drop=True), of_verdict[classes].reset_index(drop=True)
    )


def test_counts_over_all_steps(path):
    """Work whose launch is not in the trace is launched in no step."""
    steps = step_table(opened(path)).steps
    work = [each for each in brute_force.gpu_operations(path) if each["call"]]
    assert steps["gpu_work"].sum() == len(work)
    assert steps["kernels"].sum() == sum(each["cat"] == "kernel" for each in work)
    assert steps["launches"].sum() == len({id(each["call"]) for each in work})
