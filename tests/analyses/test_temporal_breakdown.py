"""Temporal breakdown against brute force."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.errors import UnknownRankError
from tests.analyses.generated_jobs import (
    devices_of,
    gpu_events,
    gpu_work,
    jobs,
    launching_call,
    microseconds,
    open_job,
    span,
)
from tests.kineto_text import call, host, kernel, step


@given(jobs)
def test_against_brute_force(tmp_path_factory, ranks):
    job = open_job(tmp_path_factory.mktemp("job"), ranks)
    expected = []
    for number, events in enumerate(ranks):
        for device in devices_of(events) or [-1]:
            work = gpu_work(events, device)
            compute, busy = microseconds(work, "COMPUTATION"), microseconds(work)
            copies = microseconds(work, "MEMORY") - compute
            talking = microseconds(work, "COMMUNICATION") - compute - copies
            expected.append(
                {
                    "rank": number,
                    "device": device,
                    "kernel_time_ns": 1000 * span(work),
                    "idle_time_ns": 1000 * (span(work) - len(busy)),
                    "compute_time_ns": 1000 * len(compute),
                    "graph_time_ns": 0,
                    "non_compute_time_ns": 1000 * (len(busy) - len(compute)),
                    "copy_time_ns": 1000 * len(copies),
                    "communication_time_ns": 1000 * len(talking),
                    "other_time_ns": 1000 * len(busy - compute - copies - talking),
                    "operations": len(work),
                    **dict.fromkeys(("steps_ns", "steps_idle_ns", "steps_compute_ns"), 0),
                }
            )
    assert temporal_breakdown(job).ranks.to_dict("records") == expected


def test_synchronisation_and_host_events_with_a_stream_are_no_gpu_work(tmp_path):
    triton = host(0, 90, "triton_kernel") | {"args": {"stream": 7, "device": 0}}
    sync = kernel(50, 40, name="Stream Wait Event", cat="cuda_sync")
    job = open_job(tmp_path, [[triton, sync, kernel(10, 5)]])
    assert temporal_breakdown(job).ranks["kernel_time_ns"].tolist() == [5000]


def test_some_ranks(tmp_path):
    job = open_job(tmp_path, [[kernel(0, number + 1)] for number in range(3)])
    result = temporal_breakdown(job, [2, 0])
    assert result.ranks["rank"].tolist() == [2, 0]
    with pytest.raises(UnknownRankError, match="ranks are 0-2"):
        temporal_breakdown(job, [5])


@given(
    events=gpu_events(),
    begin=st.integers(0, 20),
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=3),
)
def test_steps_against_brute_force(tmp_path_factory, events, begin, lengths):
    starts = [begin + sum(lengths[:number]) for number in range(len(lengths))]
    steps = [step(*each) for each in zip(range(3), starts, lengths, strict=False)]
    job = open_job(tmp_path_factory.mktemp("job"), [[*events, *steps]])
    last = starts[-1] if len(starts) > 1 else math.inf
    work = [
        each for each in gpu_work(events) if (launching_call(events, each) or each)["ts"] < last
    ]
    table = temporal_breakdown(job).ranks
    assert table["device"].tolist() == (devices_of(work) or [-1])
    if not work:
        assert not table[["steps_ns", "steps_idle_ns", "steps_compute_ns"]].any(axis=None)
        return
    end = max(each["ts"] + each["dur"] for each in [*work, *steps[: max(len(steps) - 1, 1)]])
    window = set(range(begin, end))
    for row in table.to_dict("records"):
        every = gpu_work(events, row["device"])
        busy, compute = microseconds(every) & window, microseconds(every, "COMPUTATION") & window
        assert row["steps_ns"] == 1000 * len(window)
        assert row["steps_idle_ns"] == 1000 * (len(window) - len(busy))
        assert row["steps_compute_ns"] == 1000 * len(compute)


def test_longer_steps_are_said(tmp_path):
    """The first kernel starts late in its step, and the CPU goes on after the last one."""
    events = [step(3, 0, 100), kernel(60, 20), kernel(80, 4, name="ncclDevKernel_AllReduce")]
    job = open_job(tmp_path, [[*events, kernel(86, 4)], [*events, kernel(86, 4)]])
    assert temporal_breakdown(job, [0]).finding == (
        "The GPU of rank 0 is idle 6.67 % of the GPU span (2 µs of 30 µs), computing 80 %, "
        "communicating (not hidden) 13.3 %. Over the analysed time, which lasts longer, the GPU is "
        "idle 72 % (72 µs of 100 µs) and computing 24 %."
    )
    assert temporal_breakdown(job).finding.endswith(
        ", which lasts longer, the GPUs are idle 72 % (144 µs of 200 µs) and computing 24 %."
    )


def test_steps_that_are_hardly_longer_are_not_said(tmp_path):
    job = open_job(tmp_path, [[step(3, 0, 1000), kernel(19, 981)]])
    assert temporal_breakdown(job).ranks["steps_ns"].tolist() == [1_000_000]
    assert "steps" not in temporal_breakdown(job).finding


def test_steps_of_only_some_ranks_are_not_compared(tmp_path):
    job = open_job(tmp_path, [[step(3, 0, 100), kernel(60, 20)], [kernel(60, 20)]])
    assert temporal_breakdown(job).ranks["steps_ns"].tolist() == [100_000, 0]
    assert "steps" not in temporal_breakdown(job).finding


def test_work_of_the_step_left_out_is_busy_time(tmp_path):
    """The GPU is not idle in a step because it runs work of the next one."""
    events = [step(1, 0, 50), step(2, 50, 50), kernel(10, 5), kernel(20, 10, correlation=7)]
    job = open_job(tmp_path, [[*events, call(60, 1, 7)]])
    (row,) = temporal_breakdown(job).ranks.to_dict("records")
    assert row["operations"] == 1
    assert (row["steps_ns"], row["steps_idle_ns"]) == (50_000, 35_000)


def test_findings(tmp_path):
    job = open_job(tmp_path, [[kernel(0, 10), kernel(30, 10)], [kernel(0, 35), kernel(39, 1)], []])
    (tmp_path / "alike").mkdir()
    alike = open_job(tmp_path / "alike", [[kernel(0, 10), kernel(30, 10)]] * 2)
    assert temporal_breakdown(job).finding == (
        "The 2 GPUs are idle 30 % of their GPU spans (24 µs of 80 µs), computing 70 %"
        "; the idle share ranges from 10 % (rank 1) to 50 % (rank 0)."
    )
    assert temporal_breakdown(job, [1]).finding == (
        "The GPU of rank 1 is idle 10 % of the GPU span (4 µs of 40 µs), computing 90 %."
    )
    assert "ranges" not in temporal_breakdown(alike).finding
    assert temporal_breakdown(job, [2]).finding == "No GPU work was recorded on the selected ranks."
    assert "rank 2: the trace has no GPU work" in temporal_breakdown(job).notices
