"""Kernel breakdown against brute force with the standard library's statistics."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.kernel_breakdown import OTHERS, kernel_breakdown
from hta_widgets.defaults import NUM_KERNELS, DefaultNumber
from hta_widgets.errors import ParameterError
from hta_widgets.trace.loaders.event_blocks import EventBlocks
from hta_widgets.trace.loaders.formats import OVERLAP_RECIPE
from hta_widgets.trace.model.events import Kind
from tests.analyses.generated_jobs import (
    NAMES,
    devices_of,
    gpu_work,
    jobs,
    microseconds,
    open_job,
)
from tests.analyses.lane_jobs import job_of
from tests.kineto_text import kernel, step

TYPES = ("COMPUTATION", "COMMUNICATION", "MEMORY")


def expected_row(name, durations, kernel_type, rank, folded=0):
    return {
        "name": name,
        "sum_ns": 1000 * sum(durations),
        "max_ns": 1000 * max(durations),
        "min_ns": 1000 * min(durations),
        "stddev_ns": 1000 * statistics.stdev(durations) if len(durations) > 1 else 0,
        "mean_ns": 1000 * statistics.mean(durations),
        "kernel_type": kernel_type,
        "rank": rank,
        "count": len(durations),
        "folded": folded,
    }


def durations_by_name(events, kernel_type):
    durations = defaultdict(list)
    for event in gpu_work(events):
        if NAMES[event["name"]] == kernel_type:
            durations[event["name"]].append(event["dur"])
    return durations


def top_of(durations, ratio, num_kernels):
    """The longest: so many, but where there are more, none after the share is reached."""
    order = sorted(durations, key=lambda name: (-sum(durations[name]), name))
    if len(order) <= num_kernels or not isinstance(num_kernels, DefaultNumber):
        return order[:num_kernels]
    named, reached, total = [], 0, sum(map(sum, durations.values()))
    while len(named) < num_kernels and (ratio == 1 or reached < Fraction(str(ratio)) * total):
        named.append(order.pop(0))
        reached += sum(durations[named[-1]])
    return named


def expected_rows(ranks, types, ratio=1, num_kernels=NUM_KERNELS):
    """Fold what is a top kernel on no rank."""
    rows = []
    for kernel_type in types:
        each = [durations_by_name(events, kernel_type) for events in ranks]
        named = {name for durations in each for name in top_of(durations, ratio, num_kernels)}
        for rank, durations in enumerate(each):
            own = durations.keys() & named
            rows += [expected_row(name, durations[name], kernel_type, rank) for name in own]
            others = durations.keys() - named
            rest = [duration for name in others for duration in durations[name]]
            if rest:
                rows.append(expected_row(OTHERS, rest, kernel_type, rank, folded=len(others)))
    return sorted(rows, key=by_type)


def by_type(row):
    return row["kernel_type"], row["name"], row["rank"]


def assert_rows(actual, expected):
    assert len(actual) == len(expected)
    for row, wanted in zip(actual, expected, strict=True):
        deviation = {key: row.pop(key) for key in ("stddev_ns", "mean_ns")}
        assert deviation == pytest.approx({key: wanted.pop(key) for key in deviation}, abs=1e-6)
        assert row == wanted


ratios = st.sampled_from([0, 0.3, 0.5, 0.8, 1])


numbers = st.integers(0, 3) | st.integers(0, 3).map(DefaultNumber)


@given(jobs, ratios, numbers, st.booleans())
def test_kernels_against_brute_force(tmp_path_factory, ranks, ratio, num_kernels, with_memory):
    job = open_job(tmp_path_factory.mktemp("job"), ranks)
    result = kernel_breakdown(
        job,
        duration_ratio=ratio,
        num_kernels=num_kernels,
        include_memory_kernels=with_memory,
    )
    types = TYPES if with_memory else TYPES[:2]
    assert_rows(result.kernels.to_dict("records"), expected_rows(ranks, types, ratio, num_kernels))
    every = sorted(result.every_kernel.to_dict("records"), key=by_type)
    assert_rows(every, expected_rows(ranks, types, 1, 100))
    default = kernel_breakdown(job, include_memory_kernels=with_memory).kernels
    assert_rows(default.to_dict("records"), expected_rows(ranks, types))


@given(jobs, st.integers(0, 3))
def test_a_sum_by_name_misses_nothing(tmp_path_factory, ranks, num_kernels):
    job = open_job(tmp_path_factory.mktemp("job"), ranks)
    result = kernel_breakdown(job, num_kernels=num_kernels)
    by_kernel = ["kernel_type", "name"]
    every = result.every_kernel.groupby(by_kernel)["sum_ns"].sum()
    named = result.kernels[result.kernels["folded"] == 0].groupby(by_kernel)["sum_ns"].sum()
    assert named.to_dict() == every[every.index.isin(named.index)].to_dict()


def test_a_name_is_in_memory_once_however_many_rows_have_it(tmp_path):
    """Arrow has a copy for each row: 18 MB in the table of 256 ranks."""
    ranks = [[kernel(0, 10, name=f"{'k' * 10_000}_{n}") for n in range(3)] for _ in range(20)]
    table = kernel_breakdown(open_job(tmp_path, ranks)).every_kernel
    assert len(table) == 60
    assert table.memory_usage().sum() < 60 * 100


@pytest.mark.parametrize("kernels", [1, 10, 11, 15, 130])
def test_every_kernel_is_a_row_up_to_the_number_asked_for(tmp_path, kernels):
    """Whatever share of the time they take: the first of them takes nearly all."""
    durations = [10_000, *range(1, kernels)]
    events = [
        kernel(20_000 * place, duration, name=f"gemm_{place}")
        for place, duration in enumerate(durations)
    ]
    job = open_job(tmp_path, [events])

    def rows(**arguments):
        return len(kernel_breakdown(job, **arguments).kernels)

    assert rows(num_kernels=200) == kernels
    assert rows(num_kernels=200, duration_ratio=0.8) == kernels
    assert rows() == min(kernels, 11)
    assert [rows(num_kernels=number) for number in range(1, kernels)] == [*range(2, kernels + 1)]


@given(jobs, st.booleans())
def test_types_against_brute_force(tmp_path_factory, ranks, with_memory):
    result = kernel_breakdown(
        open_job(tmp_path_factory.mktemp("job"), ranks), include_memory_kernels=with_memory
    )
    types = TYPES if with_memory else TYPES[:2]
    total = defaultdict(int)
    for events in ranks:
        for device in devices_of(events):
            work = gpu_work(events, device)
            covers = {each: microseconds(work, each) for each in types}
            for time in set().union(*covers.values()):
                running = [each for each in types if time in covers[each]]
                total[" overlapping ".join(running)] += 1000
    table = result.types
    assert dict(zip(table["kernel_type"], table["sum_ns"], strict=True)) == total
    assert table["sum_ns"].is_monotonic_decreasing
    assert math.isclose(table["percentage"].sum(), 100) or table.empty


def test_one_pass_names_the_fewest_that_reach_the_ratio(tmp_path):
    durations = {"a": 50, "b": 30, "c": 15, "d": 5}
    events = [kernel(100 * i, dur, name=name) for i, (name, dur) in enumerate(durations.items())]
    job = open_job(tmp_path, [events])

    def named(ratio, number):
        table = kernel_breakdown(job, duration_ratio=ratio, num_kernels=number).kernels
        return table[table["folded"] == 0]["name"].tolist()

    three = DefaultNumber(3)
    assert named(0, three) == []
    assert named(0.5, three) == ["a"]
    assert named(0.8, three) == ["a", "b"]
    assert named(0.81, three) == ["a", "b", "c"]
    assert named(1, three) == ["a", "b", "c"]
    assert named(0.5, NUM_KERNELS) == ["a", "b", "c", "d"]
    assert named(0.5, 2) == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"duration_ratio": 1.1}, r"duration_ratio must be between 0 and 1, got 1\.1"),
        ({"duration_ratio": -0.1}, r"got -0\.1"),
        ({"num_kernels": -1}, "num_kernels must be 0 or more, got -1"),
    ],
)
def test_wrong_parameters(tmp_path, arguments, words):
    job = open_job(tmp_path, [[kernel(0, 1)]])
    with pytest.raises(ParameterError, match=words):
        kernel_breakdown(job, **arguments)


def test_findings(tmp_path):
    events = [kernel(0, 30, name="void gemm<1>(int)"), kernel(40, 10, name="ncclDevKernel_X")]
    job = open_job(tmp_path, [events, []])
    assert kernel_breakdown(job).finding == (
        "Compute alone takes 75 % of the busy time. The top kernel, gemm<1> (compute), "
        "takes 75 % of the kernel time: 30 µs in 1 launch."
    )
    assert kernel_breakdown(job, [1]).finding == "No kernels were recorded on the selected ranks."


def test_the_finding_says_what_overlaps(tmp_path):
    compute, communicate = kernel(0, 10), kernel(0, 30, name="ncclDevKernel_X", stream=8)
    alone = kernel_breakdown(open_job(tmp_path, [[compute, communicate]])).finding
    assert alone.startswith("Communication alone takes 66.7 % of the busy time.")
    overlapping = kernel(0, 20, name="ncclDevKernel_X", stream=8)
    both = kernel_breakdown(open_job(tmp_path, [[kernel(0, 15), overlapping]])).finding
    assert both.startswith("Compute + communication take 75 % of the busy time.")
    only = kernel_breakdown(open_job(tmp_path, [[compute]])).finding
    assert only.startswith("Compute takes 100 % of the busy time.")


def test_the_finding_does_not_call_a_copy_a_kernel(tmp_path):
    copy = kernel(20, 30, name="Memcpy HtoD", cat="gpu_memcpy")
    job = open_job(tmp_path, [[kernel(0, 10, name="gemm"), copy]])
    assert kernel_breakdown(job).finding == (
        "Copies and memsets alone take 75 % of the busy time. The top operation, Memcpy HtoD "
        "(copies and memsets), takes "
        "75 % of the time of kernels, copies and memsets: 30 µs in 1 launch."
    )
    assert kernel_breakdown(job, include_memory_kernels=False).finding.endswith(
        " The top kernel, gemm (compute), takes 100 % of the kernel time: 10 µs in 1 launch."
    )


def test_no_top_kernel_where_none_has_a_name():
    blocks = EventBlocks()
    blocks.add(Kind.BUSY, np.array([0, 20]), np.array([10, 5]), ["Compute", "Communicate"])
    job = job_of(blocks, OVERLAP_RECIPE)
    assert kernel_breakdown(job).finding == "Compute alone takes 66.7 % of the busy time."


def test_busy_time_is_also_a_share_of_longer_steps(tmp_path):
    job = open_job(tmp_path, [[step(1, 0, 100), kernel(80, 10), kernel(95, 5)]])
    assert kernel_breakdown(job).finding.endswith(
        " GPU busy 15 % of the analysed 100 µs (75 % of the 20 µs between its first and last "
        "operation)."
    )
