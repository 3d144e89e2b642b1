"""The table of steps against brute force, and its definitions one by one."""

from __future__ import annotations

from itertools import pairwise

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.budget.classes import BUDGET_CLASSES
from hta_widgets.analyses.idle_owners import idle_owners
from hta_widgets.analyses.step_table import step_table
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.errors import UnknownRankError, UnknownStepError
from tests.analyses.generated_jobs import open_job
from tests.analyses.test_idle_owners import calls_and_work
from tests.call_stacks import STEP
from tests.kineto_text import call, host, kernel, step
from tests.raw_idle import RawIdle

NOT_ADDED = ("start_ns", "end_ns", "cpu_ns")
CLASSES = [f"{name}_ns" for name in BUDGET_CLASSES]
COMMUNICATION = ("transfer", "communication", "waiting")


def of_each_microsecond(events, device):
    """Time (µs) of each step by what runs, microsecond by microsecond."""
    raw = RawIdle(events)
    first, last = raw.window
    work = [each for each in raw.work if each["device"] == device]
    lasting = [each for each in work if each["start"] < each["end"]]
    begin = min((each["start"] for each in lasting), default=last)
    whole = (-1, begin, max((each["end"] for each in lasting), default=last))
    bounds = raw.step_bounds(device) or [whole]
    found = {number: {"compute": 0, "communication": 0, "hidden": 0} for number, *_ in bounds}
    for time in range(first, last, 1000):
        number = next((n for n, begin, end in bounds if begin <= time < end), None)
        if number is None:
            continue
        names = {each["name"] for each in work if each["start"] <= time < each["end"]}
        computes, talks = "gemm" in names, "ncclDevKernel_AllReduce" in names
        found[number]["compute"] += computes
        found[number]["communication"] += talks and not computes
        found[number]["hidden"] += talks and computes
    return found


def launched_in_steps(events, device):
    """Pieces of work that each step launches, kernels among them, and their launch calls."""
    raw = RawIdle(events)
    starts = dict(reversed([(int(STEP.match(each.name)[1]), each.start) for each in raw.marks]))
    found = {number: (set(), set(), set()) for number in starts or [-1]}
    for work in raw.analysed:
        if work["device"] != device or work["call"] is None:
            continue
        begun = [number for number, ns in starts.items() if ns <= work["call"].start]
        if starts and not begun:
            continue
        number = max(begun, key=starts.get, default=-1)
        pieces, kernels, calls = found[number]
        pieces.add(work["index"])
        calls.add(work["call"].index)
        if work["is_kernel"]:
            kernels.add(work["index"])
    return {number: [len(each) for each in three] for number, three in found.items()}


@given(calls_and_work())
def test_against_brute_force(tmp_path_factory, events):
    job = open_job(tmp_path_factory.mktemp("steps"), [events])
    steps = step_table(job).steps
    assert (steps[CLASSES].sum(axis=1) == steps["period_ns"]).all()
    for device, rows in steps.groupby("device"):
        counts = rows.set_index("step")[["gpu_work", "kernels", "launches"]]
        assert counts.T.to_dict("list") == launched_in_steps(events, device)
        expected = of_each_microsecond(events, device)
        for row in rows.to_dict("records"):
            of_step = expected[row["step"]]
            assert row["compute_ns"] == 1000 * of_step["compute"]
            exposed = sum(row[f"{name}_ns"] for name in COMMUNICATION)
            assert exposed == 1000 * of_step["communication"]
            assert row["hidden_communication_ns"] == 1000 * of_step["hidden"]
    owners = idle_owners(job)
    by_cause = owners.causes.groupby(["device", "step", "cause"])["idle_ns"].sum()
    if (steps["step"] >= 0).any():
        for (device, number, cause), idle_ns in by_cause.drop(
            -1, level="step", errors="ignore"
        ).items():
            row = steps[(steps["device"] == device) & (steps["step"] == number)]
            assert row[f"idle_{cause}_ns"].tolist() == [idle_ns]
    counted = (steps["start_ns"], steps["end_ns"])
    first, last = (each.groupby(steps["device"]) for each in counted)
    whole_ns = steps.groupby("device")["period_ns"].sum()
    assert whole_ns.tolist() == (last.max() - first.min()).tolist()
    assert (whole_ns.to_numpy() <= owners.devices["window_ns"].to_numpy()).all()


def test_work_of_unknown_launch_is_launched_in_no_step(tmp_path):
    events = [step(1, 0, 100), call(10, 5, 1), kernel(20, 10, correlation=1), kernel(40, 10)]
    events += [call(50, 5, 2), kernel(60, 10, correlation=2)]
    steps = step_table(open_job(tmp_path, [events])).steps
    assert steps[["compute_ns", "gpu_work", "kernels", "launches"]].to_numpy().tolist() == [
        [30_000, 2, 2, 2]
    ]


def three_steps(*lengths):
    """Steps with a kernel each, of these lengths (µs), one after the other."""
    events, clock = [], 0
    for number, length in enumerate([*lengths, 1]):
        launch = call(clock + 1, 1, number + 1)
        events += [step(number, clock, length), launch]
        events.append(kernel(clock + 5, length - 5, correlation=number + 1))
        clock += length
    return events


def test_classes(tmp_path):
    events = [
        *(host(0, 100, "aten::mm"), call(5, 5, 1), call(30, 1, 2), call(31, 1, 3)),
        *(kernel(10, 10, correlation=1), kernel(15, 25, name="ncclDevKernel_X", correlation=2)),
        kernel(35, 25, cat="gpu_memcpy", name="Memcpy HtoD (Pageable -> Device)", correlation=3),
    ]
    (row,) = step_table(open_job(tmp_path, [events])).steps.to_dict("records")
    assert {name: row[name] / 1000 for name in CLASSES if row[name]} == {
        "compute_ns": 10,
        "copies_ns": 25,
        "communication_ns": 15,
    }
    assert row["hidden_communication_ns"] == 10_000
    assert (row["gpu_work"], row["kernels"], row["launches"]) == (3, 2, 3)
    assert (row["step"], row["period_ns"], row["cpu_ns"]) == (-1, 50_000, 100_000)


def test_steps_end_with_their_last_kernel_that_computes(tmp_path):
    events = [
        *(step(1, 0, 100), step(2, 100, 100), step(3, 200, 100)),
        *(call(10, 1, 1), kernel(20, 100, correlation=1)),
        *(call(50, 1, 2), kernel(130, 10, correlation=2, name="ncclDevKernel_AllReduce")),
        *(call(150, 1, 3), kernel(170, 20, correlation=3)),
    ]
    steps = step_table(open_job(tmp_path, [events])).steps
    assert steps[["step", "start_ns", "end_ns", "cpu_ns"]].to_numpy().tolist() == [
        [1, 0, 120_000, 100_000],
        [2, 120_000, 190_000, 100_000],
    ]
    assert steps["gpu_work"].tolist() == [2, 1]


def test_the_last_step_has_the_number_of_another(tmp_path):
    """It is left out all the same, as where two profiles are in one trace."""
    events = [
        *(step(1, 0, 100), step(2, 100, 100), step(1, 200, 100)),
        *(call(10, 5, 1), kernel(20, 10, correlation=1)),
        *(call(110, 5, 2), kernel(120, 10, correlation=2)),
        *(call(210, 5, 3), kernel(220, 10, correlation=3)),
    ]
    steps = step_table(open_job(tmp_path, [events])).steps
    assert steps[["step", "end_ns", "cpu_ns", "gpu_work"]].to_numpy().tolist() == [
        [1, 30_000, 100_000, 1],
        [2, 130_000, 100_000, 1],
    ]


def test_work_that_was_launched_before_the_first_step(tmp_path):
    """It is of no step: the first begins when it is done, as where a trace is cut in mid-step."""
    events = [
        *(call(0, 5, 1), kernel(120, 60, correlation=1)),
        *(call(10, 5, 2), kernel(230, 20, correlation=2)),
        *(step(1, 100, 100), step(2, 200, 100), step(3, 300, 100)),
        *(call(110, 5, 3), kernel(190, 10, correlation=3)),
        *(call(210, 5, 4), kernel(260, 10, correlation=4)),
    ]
    steps = step_table(open_job(tmp_path, [events])).steps
    bounds = steps[["step", "start_ns", "end_ns"]].to_numpy().tolist()
    assert bounds == [[1, 180_000, 200_000], [2, 200_000, 270_000]]
    assert steps[["gpu_work", "kernels", "launches"]].to_numpy().tolist() == [[1, 1, 1]] * 2
    assert steps["compute_ns"].tolist() == [10_000, 30_000]


def test_a_step_that_ends_in_an_idle_interval(tmp_path):
    """The last kernel has no duration; the classes still add up to the period."""
    events = [
        *(step(1, 0, 100), step(2, 100, 100), step(3, 200, 100)),
        *(call(10, 1, 1), kernel(20, 30, correlation=1)),
        *(call(60, 1, 2), kernel(90, 0, correlation=2)),
        *(call(130, 5, 3), kernel(160, 20, correlation=3)),
    ]
    job = open_job(tmp_path, [events])
    steps = step_table(job).steps
    assert steps["period_ns"].tolist() == [90_000, 90_000]
    assert steps[CLASSES].sum(axis=1).tolist() == [90_000, 90_000]


def test_slow_steps(tmp_path):
    job = open_job(tmp_path, [three_steps(150, 100, 101, 99, 140, 100)])
    result = step_table(job)
    assert result.steps.loc[result.steps["slow"], "step"].tolist() == [0, 4]
    assert result.steps.loc[result.steps["warm_up"], "step"].tolist() == [0]
    assert result.finding.endswith("; steps 0, 4 took longer than the others.")


@pytest.mark.parametrize("lengths", [(100, 200), (100, 104, 100, 100)])
def test_two_steps_or_five_percent_are_not_slow(tmp_path, lengths):
    assert not step_table(open_job(tmp_path, [three_steps(*lengths)])).steps["slow"].any()


def test_findings(tmp_path):
    events = [kernel(0, 60), host(0, 100, "op"), call(90, 5, 1), kernel(95, 5, correlation=1)]
    job = open_job(tmp_path, [events, [host(0, 1, "op")]])
    assert step_table(job, [0]).finding == (
        "The GPU span takes 100 µs: 65 % computing, 35 % waiting for launches of the CPU."
    )
    nothing = step_table(job, [1])
    assert nothing.finding == "No GPU work was recorded on the selected ranks."
    assert nothing.steps.empty
    assert list(nothing.steps) == list(step_table(job).steps)


def test_ranks(tmp_path):
    job = open_job(tmp_path, [three_steps(100, 100), three_steps(100, 120)])
    steps = step_table(job).steps
    assert steps["rank"].tolist() == [0, 0, 1, 1]
    pd.testing.assert_frame_equal(
        step_table(job, [1]).steps, steps[steps["rank"] == 1].reset_index(drop=True)
    )
    with pytest.raises(UnknownRankError):
        step_table(job, [5])


@given(calls_and_work(), st.integers(-10, 130), st.integers(1, 100))
def test_windows_add_up(tmp_path_factory, events, start, length):
    job = open_job(tmp_path_factory.mktemp("steps"), [events])
    cuts = [-1_000_000, 1000 * start, 1000 * (start + length), 10_000_000]
    parts = [step_table(job, window_ns=window).steps for window in pairwise(cuts)]
    keys = ["rank", "device", "step"]
    times = [name for name in parts[0] if name.endswith("_ns") and name not in NOT_ADDED]
    summed = pd.concat(parts).groupby(keys)[times].sum()
    whole = step_table(job).steps.set_index(keys)[times]
    pd.testing.assert_frame_equal(summed, whole[whole["period_ns"] > 0].sort_index())
    numbers = [number for number in set(whole.index.get_level_values("step")) if number >= 0]
    for part, window in zip(parts, pairwise(cuts), strict=True):
        assert (part[CLASSES].sum(axis=1) == part["period_ns"]).all()
        if not numbers:
            continue
        there = temporal_breakdown(job, steps=numbers, window_ns=window).ranks
        assert part["period_ns"].sum() == there["kernel_time_ns"].sum()
        idle = part.filter(regex="^idle_.*_ns$").to_numpy().sum()
        assert idle == there["idle_time_ns"].sum()


def test_some_steps(tmp_path):
    job = open_job(tmp_path, [three_steps(150, 100, 101, 99, 140, 100)] * 2)
    whole = step_table(job).steps
    some = step_table(job, steps=[4, 1]).steps
    pd.testing.assert_frame_equal(
        some, whole[whole["step"].isin([1, 4])].reset_index(drop=True), check_dtype=True
    )
    assert step_table(job, steps=[4]).finding.endswith("; step 4 took longer than the others.")
    with pytest.raises(UnknownStepError):
        step_table(job, steps=[9])


def test_a_window_without_steps_inside(tmp_path):
    job = open_job(tmp_path, [three_steps(100, 100)])
    result = step_table(job, window_ns=(10**9, 10**9 + 1))
    assert result.steps.empty
    assert result.finding == "No GPU work was recorded on the selected ranks in the window."
