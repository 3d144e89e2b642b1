"""Idle time against brute force, and its causes one by one."""

from __future__ import annotations

import math
import statistics
from itertools import accumulate

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.idle_time import IDLE_CATEGORIES, IDLE_SPLIT, gaps, idle_time
from hta_widgets.errors import ParameterError, UnknownRankError
from tests.analyses.generated_jobs import (
    gpu_work,
    jobs,
    launched_jobs,
    launching_call,
    open_job,
    span,
)
from tests.kineto_text import call, host, kernel, step


def intervals(events, operations, delay):
    """Length (µs) of each interval by cause, and how many have no launch."""
    rows = []
    for operation in operations:
        launch = launching_call(events, operation)
        rows.append(
            (
                operation["ts"],
                math.inf if launch is None else launch["ts"],
                operation["ts"] + operation["dur"],
            )
        )
    rows.sort()
    found = {cause: [] for cause in IDLE_CATEGORIES}
    unknown = dict.fromkeys(IDLE_CATEGORIES, 0)
    reached = rows[0][2]
    for start, launch, end in rows[1:]:
        if start >= reached:
            short = "kernel_wait" if start - reached < delay else "other"
            cause = "host_wait" if reached < launch < math.inf else short
            found[cause].append(start - reached)
            unknown[cause] += launch == math.inf
        reached = max(reached, end)
    return found, unknown


def expected_rows(key, events, operations, delay):
    found, unknown = intervals(events, operations, delay)
    total = sum(map(sum, found.values()))
    for cause in IDLE_CATEGORIES:
        lengths = sorted(found[cause])
        quartiles = (
            statistics.quantiles(lengths, n=4, method="inclusive")
            if len(lengths) > 1
            else lengths * 3 or [math.nan] * 3
        )
        yield {
            **key,
            "idle_category": cause,
            "idle_time_ns": 1000 * sum(lengths),
            "idle_percent": 100 * sum(lengths) / total if total else math.nan,
            "count": len(lengths),
            "mean_ns": 1000 * statistics.fmean(lengths) if lengths else math.nan,
            "std_ns": 1000 * statistics.stdev(lengths) if len(lengths) > 1 else math.nan,
            "min_ns": 1000 * lengths[0] if lengths else math.nan,
            "q25_ns": 1000 * quartiles[0],
            "median_ns": 1000 * quartiles[1],
            "q75_ns": 1000 * quartiles[2],
            "max_ns": 1000 * lengths[-1] if lengths else math.nan,
            "unknown_launches": unknown[cause],
            "span_ns": 1000 * span(operations),
        }


def groups(events, *, by_stream):
    """Operations by device, or by device and stream: those that come first in the file first."""
    found = {}
    for operation in gpu_work(events):
        arguments = operation["args"]
        key = {"device": arguments["device"]}
        key |= {"stream": arguments["stream"]} if by_stream else {}
        found.setdefault(tuple(key.items()), []).append(operation)
    for key in sorted(found, key=lambda each: each[0]):
        yield dict(key), found[key]


@pytest.mark.parametrize("by_stream", [True, False])
@given(ranks=st.one_of(jobs, launched_jobs), delay=st.sampled_from([0, 1, 5, 30]))
def test_against_brute_force(tmp_path_factory, ranks, delay, by_stream):
    job = open_job(tmp_path_factory.mktemp("job"), ranks)
    result = idle_time(job, consecutive_kernel_delay=delay)
    table = result.streams if by_stream else result.devices
    rows = [
        row
        for rank, events in enumerate(ranks)
        for key, operations in groups(events, by_stream=by_stream)
        for row in expected_rows({"rank": rank} | key, events, operations, delay)
    ]
    expected = pd.DataFrame(rows, columns=table.columns)
    ours = table.assign(idle_category=table["idle_category"].astype(str))
    pd.testing.assert_frame_equal(ours, expected, check_dtype=False, rtol=1e-9)


def test_deviations_are_exact_for_short_intervals_and_for_long_ones(tmp_path):
    shorter, longer = [1, 2, 5, 3], [10**9 + extra for extra in (7, 1, 4)]
    starts = accumulate([0, *(each + 1 for each in (*shorter, *longer))])
    job = open_job(tmp_path, [[kernel(start, 1) for start in starts]])
    deviations_ns = idle_time(job).streams["std_ns"].tolist()
    expected = [1000 * statistics.stdev(lengths) for lengths in (shorter, longer)]
    assert deviations_ns[1:] == pytest.approx(expected, rel=1e-12)


def causes(job, **arguments):
    """Idle time of each stream (µs) by cause, without causes that do not occur."""
    table = idle_time(job, **arguments).streams
    table = table[table["count"] > 0]
    return {
        (row["stream"], row["idle_category"]): row["idle_time_ns"] / 1000
        for row in table.to_dict("records")
    }


def test_causes(tmp_path):
    events = [
        *(call(0, 1, 1), kernel(2, 8, correlation=1)),
        *(call(12, 1, 2), kernel(15, 5, correlation=2)),
        *(call(1, 1, 3), kernel(40, 10, correlation=3)),
        *(call(2, 1, 4), kernel(100, 1, correlation=4)),
    ]
    job = open_job(tmp_path, [events])
    assert causes(job) == {(7, "host_wait"): 5, (7, "kernel_wait"): 20, (7, "other"): 50}
    assert causes(job, consecutive_kernel_delay=20) == {(7, "host_wait"): 5, (7, "other"): 70}
    assert causes(job, consecutive_kernel_delay=20.001)[7, "kernel_wait"] == 20


def test_a_launch_at_the_very_end_of_the_work_before_is_in_time(tmp_path):
    events = [kernel(0, 10), call(10, 1, 1), kernel(15, 1, correlation=1)]
    assert causes(open_job(tmp_path, [events])) == {(7, "kernel_wait"): 5}


def test_overlapping_work_leaves_no_gap(tmp_path):
    """Spec B21: HTA looks at the operation before only, and adds -6 µs here."""
    events = [kernel(0, 10), kernel(2, 2), kernel(11, 1)]
    assert causes(open_job(tmp_path, [events])) == {(7, "kernel_wait"): 1}


def test_work_without_a_launch_in_the_trace_is_never_host_wait(tmp_path):
    """Spec B14: HTA may take event number 0 for its launch."""
    events = [
        host(90, 1, "event number 0"),
        kernel(0, 10, correlation=1),
        kernel(20, 10, correlation=2),
        kernel(100, 1),
    ]
    job = open_job(tmp_path, [events, []])
    assert causes(job) == {(7, "kernel_wait"): 10, (7, "other"): 70}
    assert idle_time(job).notices[-1] == (
        "rank 0: no launch in the trace for the operation that ends 2 of 2 idle intervals on "
        "streams: their cause is unknown (HTA's categories call them kernel_wait or other by their "
        "length)"
    )


def test_of_two_calls_with_one_correlation_the_outer_one_counts(tmp_path):
    """Spec B15."""
    inner = call(11, 1, 1, name="cuLaunchKernel", cat="cuda_driver")
    events = [kernel(0, 10), inner, call(9, 4, 1), kernel(15, 1, correlation=1)]
    assert causes(open_job(tmp_path, [events])) == {(7, "kernel_wait"): 5}


def test_only_the_first_operation_of_a_late_graph_waits_for_the_host(tmp_path):
    graph = call(20, 1, 1, name="cudaGraphLaunch")
    operations = [kernel(ts, 5, correlation=1) for ts in (30, 36, 80)]
    job = open_job(tmp_path, [[kernel(0, 10), graph, *operations]])
    assert causes(job) == {(7, "host_wait"): 20, (7, "kernel_wait"): 1, (7, "other"): 39}


def test_streams_of_two_devices_are_two_streams(tmp_path):
    """Spec B17: merged, two GPUs that are each half idle look busy."""
    events = [kernel(ts, 10, device=ts // 10 % 2) for ts in range(0, 80, 10)]
    result = idle_time(open_job(tmp_path, [events]))
    for table in (result.streams, result.devices):
        idle = table.groupby("device")["idle_time_ns"].sum()
        assert idle.to_dict() == {0: 30_000, 1: 30_000}


def test_a_device_is_idle_when_none_of_its_streams_is_busy(tmp_path):
    events = [
        *(kernel(0, 10), kernel(5, 10, stream=20), kernel(40, 5)),
        *(call(50, 1, 1), kernel(60, 5, stream=20, correlation=1)),
    ]
    devices = idle_time(open_job(tmp_path, [events])).devices
    assert devices["idle_time_ns"].tolist() == [15_000, 25_000, 0]
    assert devices["span_ns"].tolist() == [65_000] * 3


def test_some_streams(tmp_path):
    job = open_job(tmp_path, [[kernel(0, 1), kernel(5, 1), kernel(0, 1, stream=0)]])
    assert idle_time(job, streams=[0]).streams["stream"].tolist() == [0, 0, 0]
    nothing = idle_time(job, streams=[3])
    assert nothing.streams.empty
    assert nothing.finding == "No selected rank has GPU work on stream 3."
    assert idle_time(job, streams=[5, 3]).finding.endswith("GPU work on streams 3, 5.")
    assert len(nothing.devices) == 3


def test_ranks_without_gpu_work_have_no_rows(tmp_path):
    """Spec C4: HTA raises for all ranks."""
    job = open_job(tmp_path, [[host(0, 1, "op")], [kernel(0, 1), kernel(2, 1)]])
    assert set(idle_time(job).streams["rank"]) == {1}
    nothing = idle_time(job, [0])
    assert nothing.streams.empty
    assert nothing.devices.empty
    assert nothing.finding == "No GPU work was recorded on the selected ranks."


def test_arguments(tmp_path):
    job = open_job(tmp_path, [[kernel(0, 1)]])
    with pytest.raises(UnknownRankError):
        idle_time(job, [3])
    for delay in (-1, math.nan, math.inf):
        with pytest.raises(ParameterError, match="consecutive_kernel_delay must be"):
            idle_time(job, consecutive_kernel_delay=delay)


def test_the_delay_does_not_touch_the_events(tmp_path, monkeypatch):
    job = open_job(tmp_path, [[kernel(0, 1), kernel(5, 1)]])
    idle_time(job)
    monkeypatch.setattr(gaps, "_gaps", lambda *_: pytest.fail("gaps are measured once"))
    assert causes(job, consecutive_kernel_delay=2) == {(7, "other"): 4}


def test_findings(tmp_path):
    late = [kernel(0, 10), call(12, 1, 1), kernel(20, 10, correlation=1), kernel(35, 5)]
    job = open_job(tmp_path, [late, [kernel(0, 10), kernel(50, 10)], [kernel(0, 2)]])
    assert idle_time(job, [0]).finding == (
        "The GPU of rank 0 is idle 37.5 % of the GPU span (15 µs of 40 µs): 53.3 % in the "
        "launch call and its latency (CPU-bound), 33.3 % of unknown cause (launch not recorded), "
        "13.3 % before the launch call began (CPU-bound)."
    )
    assert idle_time(job, [0, 1]).finding.startswith(
        "The 2 GPUs are idle 55 % of their GPU spans (55 µs of 100 µs)"
    )
    assert idle_time(job, [2]).finding == ""


def test_little_idle_time_is_not_worth_a_sentence(tmp_path):
    job = open_job(tmp_path, [[kernel(0, 98), kernel(100, 1)], [kernel(0, 96), kernel(100, 1)]])
    assert idle_time(job, [0]).finding == ""
    assert idle_time(job, [1]).finding.startswith(
        "The GPU of rank 1 is idle 3.96 % of the GPU span"
    )


@pytest.mark.parametrize("long_us", [10, 10_000_000])
def test_deviations_of_short_gaps_beside_long_ones(tmp_path, long_us):
    gaps = [1.001, 1.003, 1.002, *[long_us + place / 1000 for place in range(5)]]
    starts = [sum(gaps[:place]) + place for place in range(len(gaps) + 1)]
    table = idle_time(open_job(tmp_path, [[kernel(start, 1) for start in starts]])).streams
    by_cause = table.set_index("idle_category")["std_ns"]
    apart = {
        "kernel_wait": [gap for gap in gaps if gap < 30],
        "other": [gap for gap in gaps if gap >= 30],
    }
    for cause, lengths in apart.items():
        expected = 1000 * statistics.stdev(lengths) if lengths else math.nan
        assert by_cause[cause] == pytest.approx(expected, rel=1e-6, nan_ok=True)


def parts(job, table="stream_split", **arguments):
    """Idle time (µs) by part, over all streams or devices."""
    rows = getattr(idle_time(job, **arguments), table)
    found = {
        part: group["idle_time_ns"].sum() / 1000
        for part, group in rows.groupby("split", observed=True)
    }
    return {part: time for part, time in found.items() if time}


def test_an_interval_is_split_where_its_launch_call_begins_and_ends(tmp_path):
    events = [kernel(0, 10), call(40, 20, 1), kernel(100, 5, correlation=1)]
    expected = {"host": 30, "launch_call": 20, "dependency": 40}
    assert parts(open_job(tmp_path, [events])) == expected
    assert parts(open_job(tmp_path, [events]), "device_split") == expected


def test_a_long_interval_whose_call_returned_at_once_is_not_the_hosts(tmp_path):
    """Issue 17: 493 ms idle, of which the launch call took 45 µs, was all called host wait."""
    events = [kernel(0, 10), call(10.5, 45, 1), kernel(493_010, 5, correlation=1)]
    job = open_job(tmp_path, [events])
    assert causes(job) == {(7, "host_wait"): 493_000}
    assert parts(job) == {"host": 0.5, "launch_call": 45, "dependency": 493_000 - 45.5}
    assert "100 % after the launch, before the next work started." in idle_time(job).finding


def test_a_call_that_began_before_the_gpu_ran_dry(tmp_path):
    events = [call(5, 8, 1), kernel(0, 10), kernel(18, 1, correlation=1)]
    job = open_job(tmp_path, [events])
    assert parts(job) == {"launch_call": 3, "between_kernels": 5}
    assert parts(job, consecutive_kernel_delay=8) == {"launch_call": 3, "dependency": 5}


def test_an_unknown_launch_is_an_unknown_cause(tmp_path):
    """Issue 17: 92.9 % of the idle time of a trace was "launched in time and held back"."""
    job = open_job(tmp_path, [[kernel(0, 10), kernel(500, 1), kernel(510, 1, correlation=4)]])
    assert parts(job) == {"launch_not_recorded": 499}
    assert "100 % of unknown cause (launch not recorded)." in idle_time(job).finding


def test_inside_a_graph_nobody_is_late(tmp_path):
    graph = call(20, 1, 1, name="cudaGraphLaunch")
    operations = [kernel(ts, 5, correlation=1) for ts in (30, 36, 80)]
    job = open_job(tmp_path, [[kernel(0, 10), graph, *operations]])
    assert parts(job) == {"host": 10, "launch_call": 10, "inside_graph": 40}


def expected_parts(events, operations, delay):
    """Idle time (µs) by part, one interval after the other."""
    found = dict.fromkeys(IDLE_SPLIT, 0)
    rows = []
    for operation in operations:
        launch = launching_call(events, operation)
        start = math.inf if launch is None else launch["ts"]
        end = operation["ts"] + operation["dur"]
        rows.append((operation["ts"], start, end, len(rows), launch))
    rows.sort(key=lambda row: row[:3])
    reached, last = rows[0][2], rows[0][4]
    for start, _, end, _, launch in rows[1:]:
        if start > reached:
            for part, time in parts_of_interval(reached, start, last, launch, delay).items():
                found[part] += time
        if end >= reached:
            reached, last = end, launch
    return found


def parts_of_interval(begin, end, before, launch, delay):
    if launch is None:
        return {"launch_not_recorded": end - begin}
    if launch is before and launch["name"] == "cudaGraphLaunch":
        return {"inside_graph": end - begin}
    late = launch["ts"] > begin
    reach = launch["ts"] + max(launch["dur"], 15 if late else 0)
    host = min(end, max(begin, launch["ts"]))
    called = max(host, min(end, reach))
    held_back = "between_kernels" if not late and end - begin < delay else "dependency"
    return {"host": host - begin, "launch_call": called - host, held_back: end - called}


@given(launched_jobs, st.sampled_from([0, 3, 30]))
def test_parts_against_brute_force(tmp_path_factory, ranks, delay):
    job = open_job(tmp_path_factory.mktemp("idle"), ranks)
    result = idle_time(job, consecutive_kernel_delay=delay)
    for table, by_stream in ((result.stream_split, True), (result.device_split, False)):
        rows = iter(table["idle_time_ns"].to_numpy().reshape(-1, len(IDLE_SPLIT)).tolist())
        for events in ranks:
            for _, operations in groups(events, by_stream=by_stream):
                expected = expected_parts(events, operations, delay)
                assert next(rows) == [1000 * time for time in expected.values()]
        assert next(rows, None) is None
    for split, whole in (("stream_split", "streams"), ("device_split", "devices")):
        keys = ["rank", "device", *(["stream"] if whole == "streams" else [])]
        sums = [
            getattr(result, name).groupby(keys)["idle_time_ns"].sum() for name in (split, whole)
        ]
        pd.testing.assert_series_equal(*sums)


def test_longer_steps_are_said(tmp_path):
    """The first kernel starts late in its step: the GPU is idle before it, too."""
    events = [step(1, 0, 100), kernel(60, 20), kernel(82, 18)]
    job = open_job(tmp_path, [events])
    assert idle_time(job).finding == (
        "The GPU of rank 0 is idle 5 % of the GPU span (2 µs of 40 µs): 100 % of unknown cause "
        "(launch not recorded). Over the analysed time, which lasts longer, the GPU is idle 62 % "
        "(62 µs of 100 µs) and computing 38 %."
    )


def test_longer_steps_are_said_where_little_is_idle_between_operations(tmp_path):
    job = open_job(tmp_path, [[step(1, 0, 100), kernel(60, 20), kernel(80, 20)]])
    assert idle_time(job).finding == (
        "The GPU of rank 0 is idle 0 % of the GPU span (0 ns of 40 µs). Over the analysed time, "
        "which lasts longer, the GPU is idle 60 % (60 µs of 100 µs) and computing 40 %."
    )
