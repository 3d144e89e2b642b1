"""Communication-computation overlap against brute force."""

from __future__ import annotations

import math

from hypothesis import given

from hta_widgets.analyses.overlap import overlap
from tests.analyses.generated_jobs import devices_of, gpu_work, jobs, microseconds, open_job
from tests.kineto_text import kernel


@given(jobs)
def test_against_brute_force(tmp_path_factory, ranks):
    table = overlap(open_job(tmp_path_factory.mktemp("job"), ranks)).ranks
    rows = iter(table.to_dict("records"))
    for number, events in enumerate(ranks):
        for device in devices_of(events) or [-1]:
            row = next(rows)
            work = gpu_work(events, device)
            communication = microseconds(work, "COMMUNICATION")
            computation = microseconds(work, "COMPUTATION")
            both = communication & computation
            assert (row["rank"], row["device"]) == (number, device)
            assert row["communication_time_ns"] == 1000 * len(communication)
            assert row["computation_time_ns"] == 1000 * len(computation)
            assert row["overlap_time_ns"] == 1000 * len(both)
            assert row["exposed_communication_ns"] == 1000 * len(communication - computation)
            assert row["beside_graph_ns"] == row["cuda_graph_time_ns"] == 0
            if communication:
                assert row["overlap_percent"] == 100 * len(both) / len(communication)
            else:
                assert math.isnan(row["overlap_percent"])
    assert next(rows, None) is None


def test_findings(tmp_path):
    nccl = "ncclDevKernel_AllReduce"
    first = [kernel(0, 10, name=nccl, stream=20), kernel(0, 4)]
    second = [kernel(0, 10, name=nccl, stream=20)]
    job = open_job(tmp_path, [first, second, [kernel(0, 5)], []])
    assert overlap(job).finding == (
        "Across 2 GPUs, 80 % of the communication time is not hidden (16 µs of 20 µs), "
        "6 µs to 10 µs on each."
    )
    assert overlap(job, [0]).finding == (
        "On rank 0, 60 % of the communication time is not hidden (6 µs of 10 µs)."
    )
    assert overlap(job, [2]).finding.startswith("No communication kernels were recognised")
    assert overlap(job, [3]).finding == "No kernels were recorded on the selected ranks."


def test_no_rank_has_the_most_where_all_are_alike(tmp_path):
    events = [kernel(0, 10, name="ncclDevKernel_AllReduce", stream=20), kernel(0, 4)]
    assert overlap(open_job(tmp_path, [events, events])).finding == (
        "Across 2 GPUs, 60 % of the communication time is not hidden (12 µs of 20 µs)."
    )
