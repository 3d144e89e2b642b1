"""Every form of a job gives the numbers of its PyTorch-profiler original, in every analysis."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hta_widgets.analyses.duration_tails import duration_tails
from hta_widgets.analyses.idle_time import idle_time
from hta_widgets.analyses.kernel_breakdown import kernel_breakdown
from hta_widgets.analyses.launch_overlap import launch_overlap
from hta_widgets.analyses.launch_stats import launch_stats
from hta_widgets.analyses.memory_bandwidth import memory_bandwidth
from hta_widgets.analyses.overlap import overlap
from hta_widgets.analyses.queue_length import queue_length
from hta_widgets.analyses.rank_overlap import rank_overlap
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.opening.open import open_trace

JOBS = ("dlrm_2rank", "compare_control", "h100_bert")
TABLE_FORMS = ("nsys_sqlite", "cupti_csv")
FORMS = [
    *((job, form) for job in JOBS for form in TABLE_FORMS),
    ("dlrm_2rank", "nsys_sqlite_node"),
    ("dlrm_2rank", "nsys_parquetdir"),
]
RECIPES = [(job, "nsys_recipe") for job in JOBS]

CALLS_LEFT_OUT = {("compare_control", "nsys_sqlite"): (1, 15_000)}
"""Calls before the first ProfilerStep, and their time in ns, which the step filter leaves out."""

SHARES_OF_ALL = ["share_percent"]

Tables = dict[str, pd.DataFrame]

ANALYSES: dict[str, Callable[[Job], Tables]] = {
    "temporal_breakdown": lambda job: {"ranks": temporal_breakdown(job).ranks},
    "overlap": lambda job: {"ranks": overlap(job).ranks},
    "kernel_breakdown": lambda job: _fields(kernel_breakdown(job), "types", "every_kernel"),
    "idle_time": lambda job: _fields(
        idle_time(job), "streams", "devices", "stream_split", "device_split"
    ),
    "launch_stats": lambda job: _fields(launch_stats(job), "ranks", "apis", "launched"),
    "queue_length": lambda job: _fields(queue_length(job), "streams"),
    "memory_bandwidth": lambda job: {"transfers": memory_bandwidth(job).transfers[EXACT_TRANSFERS]},
    "rank_overlap": lambda job: _fields(rank_overlap(job, by="stream"), "lanes", "slices"),
    "duration_tails": lambda job: _fields(duration_tails(job), "categories", "tails"),
    "launch_overlap": lambda job: _fields(launch_overlap(job), "threads", "launch_apis"),
}
OF_SEGMENTS = ("temporal_breakdown", "overlap")
OF_STEPS = ("steps_ns", "steps_idle_ns", "steps_compute_ns")
NOT_IN_EVERY_FORM = ("label", "node", "pid", "tid", *OF_STEPS)

EXACT_TRANSFERS = ["rank", "name", "operations", "without_bandwidth", "bytes", "busy_ns", "count"]
"""Bandwidths differ: the profiler states them from durations that its file has only rounded."""

BEFORE_THE_FIRST_STEP = {("compare_control", "cupti_csv", "duration_tails"): "runtime"}
"""Tables have no ProfilerSteps: what the step filter leaves out of the original is in them."""


def _fields(result: Any, *names: str) -> Tables:
    return {name: getattr(result, name) for name in names}


@cache
def opened(path: Any) -> Job:
    return open_trace(path, include_last_profiler_step=True, progress=False)


def comparable(table: pd.DataFrame, left_out: str | None = None) -> pd.DataFrame:
    """Without what a form does not know, times from the first, and in one order."""
    if left_out:
        table = table[table["category"] != left_out].drop(columns=SHARES_OF_ALL, errors="ignore")
    table = table.drop(columns=[name for name in NOT_IN_EVERY_FORM if name in table])
    times = [name for name in ("start_ns", "end_ns") if name in table]
    table = table.assign(**{name: table[name] - table["start_ns"].min() for name in times})
    texts = [c for c in table if not pd.api.types.is_numeric_dtype(table[c])]
    table = table.astype(dict.fromkeys(texts, object))
    return table.sort_values(list(table.columns), kind="stable").reset_index(drop=True)


@pytest.mark.parametrize("analysis", ANALYSES)
@pytest.mark.parametrize(("job", "form"), FORMS)
def test_same_results_as_the_original(real_traces, job, form, analysis):
    original = opened(real_traces / "kineto" / job)
    converted = opened(real_traces / "converted" / job / form)
    assert converted.ranks == original.ranks
    analyse = ANALYSES[analysis]
    left_out = BEFORE_THE_FIRST_STEP.get((job, form, analysis))
    actual = analyse(converted)
    for name, expected in analyse(original).items():
        pd.testing.assert_frame_equal(
            comparable(actual[name], left_out),
            comparable(expected, left_out),
            rtol=1e-9,
            check_dtype=False,
            obj=name,
        )


@pytest.mark.parametrize("analysis", OF_SEGMENTS)
@pytest.mark.parametrize(("job", "form"), RECIPES)
def test_segments_give_the_times_of_the_kernels(real_traces, job, form, analysis):
    kernels = kernels_only(opened(real_traces / "kineto" / job))
    segments = opened(real_traces / "converted" / job / form)
    assert segments.ranks == tuple(kernels)
    for rank, work in kernels.items():
        busy = segments.gpu_work(rank).busy_by_type
        for kernel_type in (KernelType.COMPUTATION, KernelType.COMMUNICATION):
            expected = work[kernel_type]
            assert busy[kernel_type].length == expected.length
            first = int(expected.starts[0]) if len(expected) else 0
            assert busy[kernel_type].span == expected.span, first
    result = ANALYSES[analysis](segments)["ranks"]
    assert (result["device"] == -1).all()


def kernels_only(job: Job) -> dict[int, Any]:
    return {rank: job.gpu_work(rank).busy_by_type for rank in job.ranks}


@pytest.mark.parametrize(("job", "form"), FORMS)
def test_expected_numbers(real_traces, job, form):
    expected = json.loads((real_traces / "converted" / job / "expected.json").read_text())
    opened_job = opened(real_traces / "converted" / job / form)
    for rank, numbers in zip(opened_job.ranks, expected.values(), strict=True):
        actual = numbers_of(opened_job, rank)
        count, time_ns = CALLS_LEFT_OUT.get((job, form), (0, 0))
        if count:
            left_out, whole = actual.pop("runtime"), numbers.pop("runtime")
            assert (whole["n"] - left_out["n"], whole["sum"] - left_out["sum"]) == (count, time_ns)
        assert actual == numbers


@pytest.mark.parametrize(("job", "form"), [*RECIPES, *FORMS])
def test_expected_overlap(real_traces, job, form):
    expected = json.loads((real_traces / "converted" / job / "expected.json").read_text())
    lanes = rank_overlap(opened(real_traces / "converted" / job / form)).lanes
    columns = ["compute_ns", "communicate_ns", "overlap_ns", "empty_ns"]
    assert lanes[columns].to_numpy().tolist() == [
        list(numbers["overlap4_ns"].values()) for numbers in expected.values()
    ]


def numbers_of(job: Job, rank: int) -> dict[str, Any]:
    """What ``expected.json`` has of a rank, from our analyses."""
    [lane] = rank_overlap(job, [rank]).lanes.to_dict("records")
    names = ("Compute", "Communicate", "Overlap", "Empty")
    overlap4 = {name: lane[f"{name.lower()}_ns"] for name in names}
    categories = {
        name: tail_numbers(job, rank, name)
        for name in ("kernel", "memcpy", "memset", "runtime", "driver")
    }
    return {"overlap4_ns": overlap4, **categories, **launch_numbers(job, rank)}


def tail_numbers(job: Job, rank: int, category: str) -> dict[str, Any]:
    result = duration_tails(job, [rank])
    summary = result.categories[result.categories["category"] == category]
    tails = result.tails[(result.tails["category"] == category)]
    count = int(summary["count"].iloc[0]) if len(summary) else 0
    numbers: dict[str, Any] = {"n": count, "sum": 0, "max": None, "min": None}
    if count:
        numbers |= {
            name: int(summary[f"{column}_ns"].iloc[0])
            for name, column in (("sum", "total"), ("max", "max"), ("min", "min"))
        }
    for percent in (1, 5, 10):
        of_percent = tails[tails["percent"] == percent]
        k = int(of_percent["k"].iloc[0]) if len(of_percent) else 0
        longest = round(float(of_percent["mean_ns"].iloc[0]) * k) if k else 0
        numbers[f"p{percent}"] = {"k": k, "sum": longest}
    return numbers


def launch_numbers(job: Job, rank: int) -> dict[str, Any]:
    loaded = job.rank(rank)
    events, work = loaded.trace.events, loaded.gpu_work
    kernels = work.take(np.flatnonzero(events.kind[work.rows] == Kind.KERNEL))
    launched = kernels.take(np.flatnonzero(kernels.launch >= 0))
    calls = launched.launch
    delay_ns = launched.start_ns - events.end_ns[calls]
    apis = pd.Series(events.names_at(calls)).value_counts().sort_index()
    by_stream = pd.Series(kernels.duration_ns).groupby(kernels.stream).sum()
    overlapping = launch_overlap(job, [rank]).ranks["overlapping"]
    return {
        "launched_by": apis.to_dict(),
        "launch_delay_sum_ns": int(delay_ns.sum()),
        "launch_before_return": int((delay_ns < 0).sum()),
        "launch_while_kernel_running": int(overlapping.sum()),
        "kernel_names": len(np.unique(kernels.name)),
        "by_stream_ns": {str(stream): int(total) for stream, total in by_stream.items()},
    }
