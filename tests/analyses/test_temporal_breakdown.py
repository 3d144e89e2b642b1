"""Temporal breakdown against brute force."""

from __future__ import annotations

import pytest
from hypothesis import given

from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.errors import UnknownRankError
from tests.analyses.generated_jobs import (
    devices_of,
    gpu_work,
    jobs,
    microseconds,
    open_job,
    span,
)
from tests.kineto_text import host, kernel


@given(jobs)
def test_against_brute_force(tmp_path_factory, ranks):
    job = open_job(tmp_path_factory.mktemp("job"), ranks)
    expected = []
    for number, events in enumerate(ranks):
        for device in devices_of(events) or [-1]:
            work = gpu_work(events, device)
            compute, busy = microseconds(work, "COMPUTATION"), microseconds(work)
            expected.append(
                {
                    "rank": number,
                    "device": device,
                    "kernel_time_ns": 1000 * span(work),
                    "idle_time_ns": 1000 * (span(work) - len(busy)),
                    "compute_time_ns": 1000 * len(compute),
                    "non_compute_time_ns": 1000 * (len(busy) - len(compute)),
                    "operations": len(work),
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


def test_findings(tmp_path):
    job = open_job(tmp_path, [[kernel(0, 10), kernel(30, 10)], [kernel(0, 35), kernel(39, 1)], []])
    assert temporal_breakdown(job).finding == (
        "The 2 GPUs are idle 30 % of the time (24 µs of 80 µs) and computing 70 %; "
        "the idle share ranges from 10 % (rank 1) to 50 % (rank 0)."
    )
    assert temporal_breakdown(job, [1]).finding == (
        "The GPU of rank 1 is idle 10 % of the time (4 µs of 40 µs) and computing 90 %."
    )
    assert temporal_breakdown(job, [2]).finding == "No GPU work was recorded on the selected ranks."
    assert "rank 2: the trace has no GPU work" in temporal_breakdown(job).notices
