"""Numbers on real traces: equal to the independent exact values, to the nanosecond."""

from __future__ import annotations

import re

import pytest

from hta_widgets.analyses.kernel_breakdown import kernel_breakdown
from hta_widgets.analyses.overlap import overlap
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.trace.opening.open import open_trace
from tests.golden import brute_force
from tests.golden.reference import JOBS, exact, job_of, trace_files
from tests.spans import length

MULTIMEM = (
    "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>"
    "(c10::BFloat16*, unsigned long, unsigned int**, unsigned long, unsigned long)"
)
TYPED_DIFFERENTLY = {
    "b200_eager": {MULTIMEM: ("COMMUNICATION", "COMPUTATION")},
}
"""Per job, each kernel that our rules type otherwise than the exact block, with both types.

- ``multimem_all_reduce_kernel``: the all-reduce of PyTorch's symmetric memory (spec B6). HTA knows
  only names that begin with nccl, and takes it for computation.
"""

WORK_WITHOUT_LAUNCH = {"compare_test": 614}
"""GPU operations that HTA drops since their launch is not in the trace (spec B25). The exact block
was computed without them."""


def ns(microseconds: float) -> int:
    return round(microseconds * 1000)


@pytest.fixture(scope="module")
def job(case):
    """The job, with the kernels of the list above typed as in the exact block."""
    other = TYPED_DIFFERENTLY.get(case[0])
    if other is None:
        return job_of(case[0])
    rules = {theirs: [f"^{re.escape(name)}$"] for name, (_, theirs) in other.items()}
    return open_trace(trace_files(case[0]), kernel_rules=rules, progress=False)


def times(job, rank):
    (row,) = temporal_breakdown(job, [rank]).ranks.to_dict("records")
    (communication,) = overlap(job, [rank]).ranks.to_dict("records")
    return {
        "n": row["operations"],
        "span": row["kernel_time_ns"],
        "idle": row["idle_time_ns"],
        "compute": row["compute_time_ns"],
        "non_compute": row["non_compute_time_ns"],
        "comm": communication["communication_time_ns"],
        "overlap": communication["overlap_time_ns"],
    }


def test_times_equal_the_exact_block(case, job):
    name, rank = case
    if name in WORK_WITHOUT_LAUNCH:
        return
    expected = exact(name, rank)["temporal_and_overlap_gpu_categories_only"]
    zeros = dict.fromkeys(("n", "span", "idle", "compute", "non_compute", "comm", "overlap"), 0)
    wanted = {key: ns((expected or zeros)[key]) for key in zeros} | {"n": (expected or zeros)["n"]}
    assert times(job, rank) == wanted


def test_times_equal_brute_force_over_the_json(case, job):
    """Also where the exact block lacks work: there this is the reference."""
    name, rank = case
    operations = brute_force.gpu_operations(trace_files(name)[rank])
    busy = brute_force.covered(operations)
    span = max((o["end"] for o in operations), default=0) - min(
        (o["start"] for o in operations), default=0
    )
    communication = [o for o in operations if "nccl" in o["name"]]
    computation = [o for o in operations if o["cat"] == "kernel" and o not in communication]
    ours = times(job, rank)
    assert ours["n"] == len(operations)
    assert ours["span"] == span
    assert ours["idle"] == span - length(busy)
    assert ours["compute"] == length(brute_force.covered(computation))
    assert ours["comm"] == length(brute_force.covered(communication))


def test_work_without_launch_is_added_to_what_hta_keeps(case, job):
    name, rank = case
    if name not in WORK_WITHOUT_LAUNCH:
        return
    kept = exact(name, rank)["temporal_and_overlap_gpu_categories_only"]["n"]
    work = job.gpu_work(rank)
    assert int((work.launch < 0).sum()) == WORK_WITHOUT_LAUNCH[name]
    assert len(work) == kept + WORK_WITHOUT_LAUNCH[name]
    assert any(notice.startswith("614 of 13,129 GPU operations") for notice in job.notices)


def test_kernel_statistics(case, job):
    name, rank = case
    ours = {
        (row["name"], row["kernel_type"]): row
        for row in kernel_breakdown(job, [rank]).every_kernel.to_dict("records")
    }
    for listed in exact(name, rank)["true_kernel_stats[name,type,count,sum,max,min,std,mean]"]:
        kernel, kernel_type, count, total, longest, shortest, deviation, mean = listed
        row = ours[kernel, kernel_type]
        if name in WORK_WITHOUT_LAUNCH:
            assert row["count"] >= count
            continue
        assert row["count"] == count
        assert row["sum_ns"] == ns(total)
        assert row["max_ns"] == ns(longest)
        assert row["min_ns"] == ns(shortest)
        assert row["stddev_ns"] == pytest.approx(1000 * deviation, rel=1e-9, abs=1e-6)
        assert row["mean_ns"] == pytest.approx(1000 * mean, rel=1e-12)


def test_kernels_typed_differently_are_those_of_the_list():
    found = {}
    for name in JOBS:
        job = job_of(name)
        for rank in job.ranks:
            every = kernel_breakdown(job, [rank]).every_kernel
            ours = dict(zip(every["name"], every["kernel_type"], strict=True))
            for kernel, theirs, *_ in exact(name, rank)[
                "true_kernel_stats[name,type,count,sum,max,min,std,mean]"
            ]:
                if ours[kernel] != theirs:
                    found.setdefault(name, {})[kernel] = (ours[kernel], theirs)
    assert found == TYPED_DIFFERENTLY
