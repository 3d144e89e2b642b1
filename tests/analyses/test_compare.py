"""Two jobs side by side: literal jobs, brute force, and real ones."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from hta_widgets.analyses.compare import compare, kernel_totals, steps_differ
from hta_widgets.analyses.kernel_breakdown import kernel_breakdown
from hta_widgets.errors import ParameterError, UnknownRankError
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.generated_jobs import NAMES, gpu_work, jobs, open_job
from tests.kineto_text import call, kernel, step, write
from tests.recipe_folder import write_recipe_folder


def opened(folder, *ranks, name="job", **options):
    for number, events in enumerate(ranks):
        (folder / name).mkdir(parents=True, exist_ok=True)
        write(folder / name / f"rank{number}.json", events)
    return open_trace(folder / name, progress=False, **options)


@pytest.fixture
def before(tmp_path):
    events = [
        kernel(0, 10, name="void gemm<(int)4>(T1)"),
        kernel(20, 30, name="void gemm<(int)4>(T1)"),
        kernel(50, 5, name="gone"),
        kernel(60, 2, name="Memset (Device)", cat="gpu_memset"),
    ]
    return opened(tmp_path, events, name="before")


@pytest.fixture
def after(tmp_path):
    events = [
        kernel(0, 70, name="void gemm<4>(float*)"),
        kernel(80, 8, name="new"),
        kernel(98, 2, name="Memset (Device)", cat="gpu_memset"),
    ]
    return opened(tmp_path, events, name="after")


def test_kernels(before, after):
    kernels = compare(before, after, per="job").kernels
    columns = ["kernel", "in", "kernel_type", "name_first", "name_second"]
    assert kernels[columns].fillna("").to_numpy().tolist() == [
        [
            *("void gemm<(int)4>(T1)", "both", "COMPUTATION"),
            *("void gemm<(int)4>(T1)", "void gemm<4>(float*)"),
        ],
        ["new", "second", "COMPUTATION", "", "new"],
        ["gone", "first", "COMPUTATION", "gone", ""],
        ["Memset (Device)", "both", "MEMORY", "Memset (Device)", "Memset (Device)"],
    ]
    columns = ["count_first", "count_second", "total_first_ns", "total_second_ns"]
    assert kernels[columns].to_numpy().tolist() == [
        [2, 1, 40_000, 70_000],
        [0, 1, 0, 8_000],
        [1, 0, 5_000, 0],
        [1, 1, 2_000, 2_000],
    ]
    assert {kernels[column].dtype for column in columns} == {np.dtype(np.int64)}
    assert kernels["delta_count"].tolist() == [-1, 1, -1, 0]
    assert kernels["delta_total_ns"].tolist() == [30_000, 8_000, -5_000, 0]
    means = kernels[["mean_first_ns", "mean_second_ns", "delta_mean_ns", "ratio_mean"]]
    assert means.fillna(-1).to_numpy().tolist() == [
        [20_000, 70_000, 50_000, 3.5],
        [-1, 8_000, -1, -1],
        [5_000, -1, -1, -1],
        [2_000, 2_000, 0, 1],
    ]


def test_kernels_only_in_one(before, after):
    result = compare(before, after)
    columns = ["in", "kernel", "kernel_type", "count", "total_ns"]
    assert result.only_in_one[columns].to_numpy().tolist() == [
        ["first", "gone", "COMPUTATION", 1, 5_000],
        ["second", "new", "COMPUTATION", 1, 8_000],
    ]
    assert result.only_in_one["share_percent"].tolist() == [100 * 5 / 47, 100 * 8 / 80]


def test_times(before, after):
    times = compare(before, after, per="job").times.set_index("time")
    columns = ["first_ns", "second_ns", "delta_ns"]
    assert {time: times.loc[time, columns].tolist() for time in times.index} == {
        "span": [62_000, 100_000, 38_000],
        "busy": [47_000, 80_000, 33_000],
        "idle": [15_000, 20_000, 5_000],
        "compute": [45_000, 78_000, 33_000],
        "non_compute": [2_000, 2_000, 0],
        "communication": [0, 0, 0],
        "overlap": [0, 0, 0],
        "exposed_communication": [0, 0, 0],
    }
    assert times.loc["idle", "first_percent"] == 100 * 15 / 62
    assert times.loc["idle", "delta_percentage_points"] == pytest.approx(20 - 100 * 15 / 62)
    assert math.isnan(times.loc["overlap", "first_percent"])


def test_finding_and_notices(before, after):
    result = compare(before, after)
    assert (result.first, result.second, result.unit) == ("before", "after", "")
    assert result.finding == (
        "after takes 61.3 % longer than before: 100 µs instead of 62 µs, from the first to the "
        "last GPU operation. Largest increase: gemm<(int)4> (+30 µs); largest decrease: gone "
        "(−5 µs)."
    )
    assert "takes 38 % less time than after: 62 µs" in compare(after, before).finding
    assert result.notices[0] == (
        "before: 1 rank with no steps and 62 µs from the first to the last GPU operation"
    )
    assert any(notice.startswith("after: 3 of 3 GPU operations") for notice in result.notices)


def test_kernels_are_called_what_the_chart_calls_them(tmp_path):
    one, two = (
        opened(tmp_path, [kernel(0, took, name="triton_poi_fused_add_0")], name=name)
        for name, took in (("one", 10), ("two", 30))
    )
    assert "increase: fused add · triton (+20 µs)" in compare(one, two).finding


def test_a_job_with_itself(before):
    result = compare(before, before)
    assert result.finding == (
        "before (second) takes as long as before (first): 62 µs, from the first "
        "to the last GPU operation."
    )
    assert result.only_in_one.empty
    assert not result.kernels["delta_total_ns"].any()


def test_ranks_are_averaged(tmp_path):
    one = opened(tmp_path, [kernel(0, 10, name="gemm")], name="one")
    two = opened(tmp_path, *[[kernel(0, 10, name="gemm")]] * 2, name="two")
    [per_rank] = compare(one, two).kernels.to_dict("records")
    assert (per_rank["count_second"], per_rank["total_second_ns"]) == (1, 10_000)
    [per_job] = compare(one, two, per="job").kernels.to_dict("records")
    assert (per_job["count_second"], per_job["total_second_ns"]) == (2, 20_000)
    assert compare(one, two, ranks=[0], per="job").kernels["delta_count"].tolist() == [0]
    assert "per rank" in compare(one, two).finding
    assert (
        "two: 2 ranks with no steps and 10 µs from the first to the last GPU operation each"
        in compare(one, two).notices
    )


@pytest.fixture
def jobs_of_unequal_length(tmp_path):
    def stepped(name, steps, ranks=1):
        events = [step(number, 100 * number, 100) for number in range(steps)]
        events += [kernel(100 * number + 10, 50, name="gemm") for number in range(steps)]
        return opened(tmp_path, *[events] * ranks, name=name, include_last_profiler_step=True)

    return stepped("short", 2), stepped("long", 4, ranks=2)


def test_per_step(jobs_of_unequal_length):
    short, long = jobs_of_unequal_length
    assert steps_differ(short, long)
    assert not steps_differ(short, short)
    whole = compare(short, long)
    assert whole.kernels["delta_total_ns"].tolist() == [100_000]
    assert any("per_step=True compares them per step" in each for each in whole.notices)
    stepwise = compare(short, long, per_step=True)
    assert stepwise.kernels["total_second_ns"].tolist() == [50_000]
    assert stepwise.kernels["delta_total_ns"].tolist() == [0]
    assert stepwise.unit == "per rank and step"
    assert not any("per_step=True" in each for each in stepwise.notices)
    of_job = compare(short, long, per="job", per_step=True)
    assert of_job.kernels["total_second_ns"].tolist() == [100_000]
    assert whole.recorded["steps"].tolist() == [2, 4]


def test_refusals(before, after, jobs_of_unequal_length):
    with pytest.raises(ParameterError, match=r"per_step=True needs .* missing in before;"):
        compare(before, jobs_of_unequal_length[0], per_step=True)
    with pytest.raises(ParameterError, match="per must be one of 'rank', 'job', got 'step'"):
        compare(before, after, per="step")
    with pytest.raises(UnknownRankError):
        compare(before, after, ranks=[1])


def test_tails(tmp_path):
    short = [kernel(100 * number, number, name="k") for number in range(1, 21)]
    long = [kernel(100 * number, 2 * number, name="k") for number in range(1, 41)]
    first = opened(tmp_path, [*short, call(0, 8, 1)], name="first")
    second = opened(tmp_path, long, name="second")
    tails = compare(first, second).tails
    columns = ["category", "percent", "count_first", "count_second", "k_first", "k_second"]
    assert tails[columns].to_numpy().tolist() == [
        ["kernel", 1, 20, 40, 0, 0],
        ["kernel", 5, 20, 40, 1, 2],
        ["kernel", 10, 20, 40, 2, 4],
        *[["runtime", percent, 1, 0, 0, 0] for percent in (1, 5, 10)],
    ]
    assert tails["mean_first_ns"].fillna(-1).tolist() == [-1, 20_000, 19_500, -1, -1, -1]
    assert tails["mean_second_ns"].fillna(-1).tolist() == [-1, 79_000, 77_000, -1, -1, -1]
    assert tails["ratio_mean"].fillna(-1).tolist() == [*(-1, 79 / 20, 77 / 19.5, -1, -1, -1)]


@given(jobs, jobs)
def test_kernels_against_brute_force(tmp_path_factory, first, second):
    sides = [
        (open_job(tmp_path_factory.mktemp(name), ranks), ranks)
        for name, ranks in (("first", first), ("second", second))
    ]
    kernels = compare(sides[0][0], sides[1][0], per="job").kernels
    rows = {row["kernel"]: row for row in kernels.to_dict("records")}
    found = [[event for events in ranks for event in gpu_work(events)] for _, ranks in sides]
    assert set(rows) == {event["name"] for events in found for event in events}
    for name, row in rows.items():
        lasting = [[event["dur"] for event in events if event["name"] == name] for events in found]
        assert [row["count_first"], row["count_second"]] == [len(each) for each in lasting]
        assert [row["total_first_ns"], row["total_second_ns"]] == [
            1000 * sum(each) for each in lasting
        ]
        assert row["delta_total_ns"] == 1000 * (sum(lasting[1]) - sum(lasting[0]))
        assert row["in"] == ("both" if all(lasting) else "first" if lasting[0] else "second")
        assert row["kernel_type"] == NAMES[name]
        if all(lasting):
            means = [1000 * sum(each) / len(each) for each in lasting]
            assert row["delta_mean_ns"] == pytest.approx(means[1] - means[0])
    order = [(-abs(row["delta_total_ns"]), name) for name, row in rows.items()]
    assert order == sorted(order)


def test_where_a_format_holds_no_kernels(tmp_path, before):
    write_recipe_folder(tmp_path / "recipe", ranks=2, segments=8)
    recipe = open_trace(tmp_path / "recipe", progress=False)
    result = compare(before, recipe)
    assert result.kernels.empty
    assert result.only_in_one.empty
    assert any("recipe: " in each and "has no kernels" in each for each in result.notices)
    assert result.times["second_ns"].iloc[0] > 0


def test_without_gpu_work(tmp_path, before):
    idle = opened(tmp_path, [call(0, 5, 1)], name="idle")
    result = compare(before, idle)
    assert result.finding == "There is no GPU work in idle, so there is nothing to compare."
    assert set(result.kernels["in"]) == {"first"}


def test_real_jobs(real_traces):
    control = open_trace(real_traces / "kineto" / "compare_control", progress=False)
    test = open_trace(real_traces / "kineto" / "compare_test", progress=False)
    result = compare(control, test)
    assert result.kernels["in"].value_counts().to_dict() == {"both": 108, "first": 66, "second": 27}
    for job, side in ((control, "first"), (test, "second")):
        whole_ns = job.gpu_work(job.ranks[0]).duration_ns.sum()
        assert result.kernels[f"total_{side}_ns"].sum() == whole_ns
    assert result.kernels["kernel"].iloc[0] == "Memcpy DtoD (Device -> Device)"
    assert result.kernels[["count_first", "count_second"]].iloc[0].tolist() == [15, 3877]
    back = compare(test, control)
    assert back.kernels["delta_total_ns"].tolist() == (-result.kernels["delta_total_ns"]).tolist()


def test_a_kernel_of_two_versions_of_a_library_is_one(kineto_jobs):
    """FBGEMM moved the class of an argument into a namespace: both names are in one row."""
    older, newer = (
        open_trace(kineto_jobs[name], progress=False) for name in ("compare_control", "dlrm_8rank")
    )
    kernels = compare(older, newer, per="job").kernels
    (row,) = kernels[kernels["kernel"].str.contains("bounds_check_indices")].to_dict("records")
    assert row["in"] == "both"
    assert row["name_first"].endswith(", FixedDivisor)")
    assert row["name_second"].endswith(", fbgemm_gpu::FixedDivisor)")
    assert (row["count_first"], row["count_second"]) == (10, 8)


def test_a_real_job_with_itself(real_traces):
    job = open_trace(real_traces / "kineto" / "dlrm_2rank", progress=False)
    result = compare(job, job)
    deltas = [each for each in result.kernels if each.startswith("delta")]
    assert not result.kernels[deltas].to_numpy().any()
    assert (result.kernels["ratio_mean"] == 1).all()
    assert not result.times["delta_ns"].any()
    assert set(result.tails["ratio_mean"].dropna()) == {1}


@pytest.mark.parametrize("form", ["nsys_sqlite", "cupti_csv"])
def test_a_real_job_with_its_other_forms(real_traces, form):
    original, other = (
        open_trace(folder, include_last_profiler_step=True, progress=False)
        for folder in (
            real_traces / "kineto" / "dlrm_2rank",
            real_traces / "converted" / "dlrm_2rank" / form,
        )
    )
    result = compare(original, other, per="job")
    assert set(result.kernels["in"]) == {"both"}
    assert not result.kernels[["delta_count", "delta_total_ns"]].to_numpy().any()


def test_totals_are_kept(before):
    assert kernel_totals(before, (0,)) is kernel_totals(before, (0,))
    pd.testing.assert_frame_equal(compare(before, before).kernels, compare(before, before).kernels)


def test_totals_of_the_mangled_names_that_a_trace_keeps(real_traces):
    job = open_trace(real_traces / "nsys" / "h100_2gpu_1s.sqlite", progress=False)
    totals = kernel_totals(job, job.ranks)
    kernels = kernel_breakdown(job).every_kernel
    assert set(totals["name"]) == set(kernels["name"])
    assert totals["total_ns"].sum() == kernels["sum_ns"].sum()
