"""Launch statistics against brute force, and each defect of HTA's one by one."""

from __future__ import annotations

import math
import statistics
from collections import Counter

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.launch_stats import launch_stats
from hta_widgets.errors import ParameterError, UnknownRankError
from tests.analyses.generated_jobs import (
    NAMES,
    gpu_work,
    jobs,
    launched_jobs,
    launching_call,
    open_job,
)
from tests.kineto_text import call, host, kernel, step


def pairs(events, *, include_memory=True):
    """GPU operations with their calls, in file order of the calls, then as they start."""
    found = [
        (events.index(launch), operation["ts"], number, launch, operation)
        for number, operation in enumerate(gpu_work(events))
        if include_memory or NAMES[operation["name"]] != "MEMORY"
        if (launch := launching_call(events, operation)) is not None
    ]
    return [pair[3:] for pair in sorted(found, key=lambda pair: pair[:3])]


def by_call(events, *, include_memory=True):
    """Calls in file order, each with its operations as they start, and the first of any type."""
    first = {}
    for launch, operation in pairs(events):
        first.setdefault(id(launch), operation)
    calls = {}
    for launch, operation in pairs(events, include_memory=include_memory):
        calls.setdefault(id(launch), (launch, [], first[id(launch)]))[1].append(operation)
    return list(calls.values())


def end(event):
    return event["ts"] + event["dur"]


def delay(launch, operation):
    return max(0, operation["ts"] - end(launch))


def free_stream(events, launch, first):
    """µs for which the stream had been free, and the call had returned, when the work started."""
    stream = [first["args"]["device"], first["args"]["stream"]]
    earlier = [
        other
        for other in gpu_work(events)
        if [other["args"]["device"], other["args"]["stream"]] == stream
        and (other["ts"], events.index(other)) < (first["ts"], events.index(first))
        and other is not first
    ]
    busy_until = max([end(launch), *map(end, earlier)])
    return max(0, first["ts"] - busy_until)


@given(ranks=st.one_of(jobs, launched_jobs), include_memory=st.booleans())
def test_launches_against_brute_force(tmp_path_factory, ranks, include_memory):
    job = open_job(tmp_path_factory.mktemp("job"), ranks)
    result = launch_stats(job, include_memory_events=include_memory)
    assert list(result.launches) == list(range(len(ranks)))
    for rank, events in enumerate(ranks):
        expected = [
            (
                operation["args"]["correlation"],
                1000 * launch["dur"],
                1000 * operation["dur"],
                -1 if number else 1000 * delay(launch, first),
                operation["ts"] < end(launch),
                launch["name"],
            )
            for launch, operations, first in by_call(events, include_memory=include_memory)
            for number, operation in enumerate(operations)
        ]
        table = result.launches[rank].fillna({"launch_delay_ns": -1})
        ours = list(table.iloc[:, :6].itertuples(index=False, name=None))
        calls = [(row[0], row[5]) for row in ours]
        assert calls == [(row[0], row[5]) for row in expected]
        assert Counter(ours) == Counter(expected)


@given(
    ranks=st.one_of(jobs, launched_jobs),
    runtime=st.integers(0, 8),
    wait=st.integers(0, 30),
)
def test_summary_against_brute_force(tmp_path_factory, ranks, runtime, wait):
    job = open_job(tmp_path_factory.mktemp("job"), ranks)
    result = launch_stats(job, runtime_cutoff=runtime, launch_delay_cutoff=wait)
    totals = Counter()
    for row, events in zip(result.ranks.to_dict("records"), ranks, strict=True):
        found = pairs(events)
        launched = by_call(events)
        calls = [launch for launch, _, _ in launched]
        delays = [delay(launch, first) for launch, _, first in launched]
        free = [free_stream(events, launch, first) for launch, _, first in launched]
        short = [
            launch["dur"]
            for launch, operations, _ in launched
            if sum(each["dur"] for each in operations) < launch["dur"] <= runtime
        ]
        assert row["calls"] == len(calls)
        assert row["operations"] == len(found)
        assert row["without_launch"] == len(gpu_work(events)) - len(found)
        assert row["short_kernels"] == len(short)
        assert row["runtime_outliers"] == sum(launch["dur"] > runtime for launch in calls)
        assert row["launch_delay_outliers"] == sum(each > wait for each in delays)
        assert row["free_stream_outliers"] == sum(each > wait for each in free)
        assert row["started_before_return"] == sum(
            first["ts"] < end(launch) for launch, _, first in launched
        )
        median = row["median_launch_delay_ns"]
        assert median == 1000 * statistics.median(delays) if delays else math.isnan(median)
        totals.update(("short_kernels", each) for each in short)
        totals.update(
            ("runtime_outliers", launch["dur"]) for launch in calls if launch["dur"] > runtime
        )
        totals.update(("launch_delay_outliers", each) for each in delays if each > wait)
    for bin_ in result.distributions.to_dict("records"):
        inside = [
            count
            for (distribution, us), count in totals.items()
            if distribution == bin_["distribution"]
            and bin_["start_ns"] <= 1000 * us < bin_["end_ns"]
        ]
        assert bin_["count"] == sum(inside)
    assert result.distributions["count"].sum() == sum(totals.values())


@given(launched_jobs)
def test_apis_against_brute_force(tmp_path_factory, ranks):
    result = launch_stats(open_job(tmp_path_factory.mktemp("job"), ranks))
    apis = {(row["rank"], row["launch_api"]): row for row in result.apis.to_dict("records")}
    launched = Counter()
    for row in result.launched.to_dict("records"):
        launched[row["rank"], row["launch_api"], row["kernel_type"]] = (
            row["operations"],
            row["gpu_duration_ns"],
        )
    for rank, events in enumerate(ranks):
        found = pairs(events)
        launched_by_call = by_call(events)
        for name in {launch["name"] for launch, _ in found}:
            own = [pair for pair in found if pair[0]["name"] == name]
            of_name = [each for each in launched_by_call if each[0]["name"] == name]
            calls = [launch for launch, _, _ in of_name]
            row = apis.pop((rank, name))
            assert row["calls"] == len(calls)
            assert row["operations"] == len(own)
            assert row["mean_cpu_duration_ns"] == pytest.approx(
                1000 * statistics.fmean(each["dur"] for each in calls)
            )
            assert row["max_cpu_duration_ns"] == 1000 * max(each["dur"] for each in calls)
            assert row["median_launch_delay_ns"] == 1000 * statistics.median(
                delay(launch, first) for launch, _, first in of_name
            )
            for kernel_type in {NAMES[operation["name"]] for _, operation in own}:
                of_type = [o["dur"] for _, o in own if NAMES[o["name"]] == kernel_type]
                expected = (len(of_type), 1000 * sum(of_type))
                assert launched.pop((rank, name, kernel_type)) == expected
    assert not apis
    assert not launched


def rows(job, **arguments):
    """``correlation``, call, operation and delay (µs) of the only rank."""
    table = launch_stats(job, **arguments).launches[0]
    times = table[["cpu_duration_ns", "gpu_duration_ns", "launch_delay_ns"]] // 1000
    return list(zip(table["correlation"], *(times[name] for name in times), strict=True))


@pytest.mark.parametrize(
    "name",
    [
        *("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx"),
        *("cudaLaunchCooperativeKernel", "cudaGraphLaunch", "cudaMemcpy", "hipLaunchKernel"),
        *("hipExtModuleLaunchKernel", "runFunction - job_prep_and_submit_for_execution"),
    ],
)
def test_every_launching_call_counts(tmp_path, name):
    """Spec B12: HTA knows four names."""
    job = open_job(tmp_path, [[call(0, 3, 5, name=name), kernel(10, 2, correlation=5, stream=0)]])
    assert rows(job) == [(5, 3, 2, 7)]


def test_a_graph_is_launched_once(tmp_path):
    """Its later operations wait for the earlier ones, and one call launches all of them."""
    graph = call(0, 4, 5, name="cudaGraphLaunch")
    kernels = [kernel(250 - 10 * n, 1, correlation=5) for n in range(25)]
    job = open_job(tmp_path, [[*kernels, graph]])
    result = launch_stats(job, launch_delay_cutoff=5)
    table = result.launches[0]
    assert table["gpu_duration_ns"].tolist() == [1000] * 25
    assert table["launch_delay_ns"].tolist() == [6000] + [pd.NA] * 24
    worst = result.worst.iloc[0]
    assert (worst["operations"], worst["launch_delay_ns"], worst["gpu_duration_ns"]) == (
        *(25, 6000, 25_000),
    )
    (row,) = result.ranks.to_dict("records")
    assert (row["calls"], row["operations"], row["short_kernels"]) == (1, 25, 0)
    assert (row["launch_delay_outliers"], row["median_launch_delay_ns"]) == (1, 6000)
    assert result.apis["median_launch_delay_ns"].tolist() == [6000]
    assert result.distributions["count"].sum() == 1


def test_a_graph_shorter_than_its_call_counts_once(tmp_path):
    graph = call(0, 9, 5, name="cudaGraphLaunch")
    job = open_job(tmp_path, [[graph, *(kernel(10 + n, 1, correlation=5) for n in range(3))]])
    result = launch_stats(job)
    assert result.ranks["short_kernels"].tolist() == [1]
    assert result.distributions["count"].sum() == 1


def test_a_copy_at_the_start_of_a_graph_is_no_delay_of_its_kernels(tmp_path):
    copy = kernel(6, 90, name="Memcpy HtoD", cat="gpu_memcpy", correlation=5)
    events = [call(0, 4, 5, name="cudaGraphLaunch"), copy, kernel(96, 3, correlation=5)]
    result = launch_stats(open_job(tmp_path, [events]), include_memory_events=False)
    assert result.launches[0]["launch_delay_ns"].tolist() == [2000]
    assert result.launches[0]["gpu_duration_ns"].tolist() == [3000]


def test_a_delay_behind_earlier_work_is_no_symptom(tmp_path):
    """The second operation waits for the first, the third for nothing that its stream shows."""
    events = [
        *(call(0, 5, 1), kernel(6, 994, correlation=1)),
        *(call(10, 5, 2), kernel(1050, 10, correlation=2)),
        *(call(20, 5, 3), kernel(900, 10, correlation=3, stream=20)),
    ]
    behind = launch_stats(open_job(tmp_path, [events[:4]]))
    assert behind.ranks["launch_delay_outliers"].tolist() == [1]
    assert behind.ranks["free_stream_outliers"].tolist() == [0]
    assert behind.finding.endswith(
        "The work of 1 call (50 %) started more than 100 µs after the call, behind earlier work of "
        "its stream."
    )
    both = launch_stats(open_job(tmp_path, [events]))
    assert both.ranks["free_stream_outliers"].tolist() == [1]
    assert both.finding.endswith(
        "The work of 2 calls (66.7 %) started more than 100 µs after the call, 1 of them although "
        "the stream was free, the others behind earlier work."
    )
    free = launch_stats(open_job(tmp_path, [events[4:]]))
    assert free.finding.endswith(
        "The work of 1 call (100 %) started more than 100 µs after the call, although its stream "
        "was free."
    )


def test_a_second_call_with_the_same_correlation_adds_no_row(tmp_path):
    """Spec B15."""
    inner = call(1, 1, 5, name="cuLaunchKernel", cat="cuda_driver")
    job = open_job(tmp_path, [[inner, call(0, 3, 5), kernel(10, 2, correlation=5)]])
    assert rows(job) == [(5, 3, 2, 7)]


def test_memory_events_go_by_what_they_are(tmp_path):
    copy = kernel(30, 2, name="Memcpy HtoD", cat="gpu_memcpy", correlation=6)
    events = [call(0, 1, 5), kernel(10, 2, correlation=5), call(20, 1, 6, name="x"), copy]
    job = open_job(tmp_path, [events])
    assert [row[0] for row in rows(job)] == [5, 6]
    assert [row[0] for row in rows(job, include_memory_events=False)] == [5]


def test_work_that_starts_before_its_call_returns_has_no_delay(tmp_path):
    job = open_job(tmp_path, [[call(0, 9, 5), kernel(4, 2, correlation=5)]])
    result = launch_stats(job)
    assert rows(job) == [(5, 9, 2, 0)]
    assert result.launches[0]["started_before_return"].tolist() == [True]
    assert result.ranks["started_before_return"].tolist() == [1]


def test_operators_are_the_innermost_around_the_call(tmp_path):
    events = [
        *(host(0, 50, "aten::linear"), host(5, 20, "aten::addmm")),
        host(6, 18, "a function of Python", cat="python_function"),
        *(call(8, 6, 1), call(9, 4, 1, name="cuLaunchKernel", cat="cuda_driver")),
        kernel(20, 1, correlation=1),
        *(call(30, 1, 2), kernel(40, 1, correlation=2)),
        *(call(60, 1, 3), kernel(70, 1, correlation=3)),
        *(call(30, 1, 4, tid=7), kernel(71, 1, correlation=4)),
    ]
    table = launch_stats(open_job(tmp_path, [events])).launches[0]
    assert dict(zip(table["correlation"], table["operator"], strict=True)) == {
        1: "aten::addmm",
        2: "aten::linear",
        3: "",
        4: "",
    }


def test_the_worst(tmp_path):
    first = [
        call(0, 9, 1),
        kernel(10, 1, correlation=1),
        call(20, 1, 2),
        kernel(90, 1, correlation=2),
    ]
    second = [host(0, 9, "op"), call(1, 5, 3), kernel(30, 1, correlation=3, name="gemm")]
    job = open_job(tmp_path, [first, second])
    by_delay = launch_stats(job).worst
    assert by_delay["launch_delay_ns"].tolist() == [69_000, 24_000, 1_000]
    assert by_delay.iloc[1].to_dict() == {
        "rank": 1,
        "operator": "op",
        "launch_api": "cudaLaunchKernel",
        "kernel": "gemm",
        "operations": 1,
        "cpu_duration_ns": 5000,
        "gpu_duration_ns": 1000,
        "launch_delay_ns": 24_000,
        "started_before_return": False,
        "correlation": 3,
    }
    by_duration = launch_stats(job, worst_by="cpu_duration", num_worst=2).worst
    assert by_duration["cpu_duration_ns"].tolist() == [9000, 5000]


@pytest.mark.parametrize("worst_by", ["launch_delay", "cpu_duration"])
def test_few_of_the_worst_are_the_first_of_all(tmp_path, worst_by):
    """Among calls as bad as each other, the first in the file are listed."""
    events = [
        event
        for number in range(12)
        for event in (
            call(100 * number, 1 + number % 3, number + 1),
            kernel(100 * number + 10 + number % 4, 1, correlation=number + 1),
        )
    ]
    job = open_job(tmp_path, [events])
    every = launch_stats(job, worst_by=worst_by, num_worst=50).worst
    times = every[f"{worst_by}_ns"]
    assert len(every) == 12
    assert times.is_monotonic_decreasing
    assert every.groupby(times)["correlation"].is_monotonic_increasing.all()
    for number in range(14):
        few = launch_stats(job, worst_by=worst_by, num_worst=number).worst
        assert few["correlation"].tolist() == every["correlation"].tolist()[:number]


def test_the_step_filter_goes_by_the_launch(tmp_path):
    events = [step(1, 0, 50), step(2, 50, 50)]
    events += [call(40, 1, 1), kernel(60, 1, correlation=1)]
    events += [call(70, 1, 2), kernel(80, 1, correlation=2)]
    assert [row[0] for row in rows(open_job(tmp_path, [events]))] == [1]


def test_operations_without_a_launch_are_said(tmp_path):
    """Spec B14."""
    job = open_job(tmp_path, [[kernel(0, 1), kernel(5, 1, correlation=9)]])
    result = launch_stats(job)
    assert result.ranks["without_launch"].tolist() == [2]
    recorded, left_out = result.notices
    assert recorded.startswith("2 of 2 GPU operations have no launch in the trace (")
    assert left_out == (
        "GPU operations without a launch in the trace are left out of the launch statistics"
    )
    assert result.finding == "No launches of GPU work were recorded on the selected ranks."
    assert result.launches[0].empty
    assert result.worst.empty


def test_ranks_without_gpu_work(tmp_path):
    result = launch_stats(open_job(tmp_path, [[host(0, 1, "op")]]))
    assert list(result.launches[0].columns)[:4] == [
        *("correlation", "cpu_duration_ns", "gpu_duration_ns", "launch_delay_ns")
    ]
    tables = (result.launches[0], result.apis, result.launched, result.distributions, result.worst)
    assert all(table.empty for table in tables)


def test_arguments(tmp_path):
    job = open_job(tmp_path, [[kernel(0, 1)]])
    with pytest.raises(UnknownRankError):
        launch_stats(job, [3])
    with pytest.raises(ParameterError, match=r"runtime_cutoff must be .*, got -1"):
        launch_stats(job, runtime_cutoff=-1)
    with pytest.raises(ParameterError, match=r"launch_delay_cutoff must be .*, got nan"):
        launch_stats(job, launch_delay_cutoff=math.nan)
    with pytest.raises(ParameterError, match=r"worst_by must be one of .*, got 'luck'"):
        launch_stats(job, worst_by="luck")
    with pytest.raises(ParameterError, match="num_worst must be 0 or more, got -1"):
        launch_stats(job, num_worst=-1)


def test_findings(tmp_path):
    first = [call(0, 9, 1), kernel(10, 1, correlation=1), call(20, 60, 2)]
    first += [kernel(290, 70, correlation=2)]
    job = open_job(tmp_path, [first, [call(0, 9, 1), kernel(10, 10, correlation=1)]])
    assert launch_stats(job, [0]).finding == (
        "On rank 0, 2 calls launched 2 operations. 1 call took more than 50 µs; 1 of the others "
        "(100 %) took longer than the work launched. The work of 1 call (50 %) started more than "
        "100 µs after the call, although its stream was free."
    )
    assert launch_stats(job).finding.startswith("On 2 ranks, 3 calls launched 3 operations. 1 call")
    assert launch_stats(job, [1]).finding == (
        "On rank 1, 1 call launched 1 operation. None took longer than the work launched, and "
        "none took more than 50 µs. No work started more than 100 µs after its call."
    )
