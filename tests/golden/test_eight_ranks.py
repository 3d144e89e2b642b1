"""A whole job of eight ranks: every analysis against brute force over the JSON of each rank.

The ranks are known from ``distributedInfo`` alone, their clocks from timestamps since the epoch.
Embeddings are exchanged by NCCL's send and receive kernels, without fields about the collective.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest

from hta_widgets.analyses.compare import compare
from hta_widgets.analyses.duration_tails import duration_tails
from hta_widgets.analyses.idle_time import IDLE_CATEGORIES, idle_time
from hta_widgets.analyses.kernel_breakdown import kernel_breakdown
from hta_widgets.analyses.kernel_sequences import kernel_sequences
from hta_widgets.analyses.launch_overlap import launch_overlap
from hta_widgets.analyses.launch_stats import launch_stats
from hta_widgets.analyses.memory_bandwidth import memory_bandwidth
from hta_widgets.analyses.overlap import overlap
from hta_widgets.analyses.queue_length import queue_length
from hta_widgets.analyses.rank_overlap import rank_overlap
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from tests.golden import brute_force, raw_calls, raw_operations
from tests.golden.reference import opened
from tests.kineto_text import read_exactly
from tests.spans import length

RANKS = range(8)
WITHOUT_LAUNCH = {1: 64, 3: 64}
"""Kernels per rank that were launched before the recording began."""

DURATION_CATEGORIES = {
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "gpu_memset": "memset",
    "cuda_runtime": "runtime",
    "cuda_driver": "driver",
}


@pytest.fixture(scope="module")
def folder(kineto_jobs):
    return kineto_jobs["dlrm_8rank"]


@pytest.fixture(scope="module")
def job(folder):
    return opened(folder)


@pytest.fixture(scope="module", params=RANKS)
def rank(request):
    return request.param


@pytest.fixture
def path(folder, rank):
    return trace_file(folder, rank)


@pytest.fixture
def work(path):
    return brute_force.gpu_operations(path)


def trace_file(folder, rank):
    (path,) = folder.glob(f"worker{rank}_*.json.gz")
    return path


def kernel_type(operation):
    if operation["cat"] != "kernel":
        return "MEMORY"
    return "COMMUNICATION" if "nccl" in operation["name"] else "COMPUTATION"


def of_type(operations, wanted):
    return [each for each in operations if kernel_type(each) == wanted]


def covered_ns(operations):
    return length(brute_force.covered(operations))


def both_ns(one, other):
    """Time in which work of both lists runs."""
    return covered_ns(one) + covered_ns(other) - covered_ns([*one, *other])


def duration_ns(operation):
    return operation["end"] - operation["start"]


def kernels_of(operations):
    return [each for each in operations if each["cat"] == "kernel"]


def row_of(table, rank):
    (row,) = table[table["rank"] == rank].to_dict("records")
    return row


def test_each_rank_is_that_of_its_own_file(job, folder):
    assert job.ranks == tuple(RANKS)
    for rank in RANKS:
        path = trace_file(folder, rank)
        assert job.rank(rank).trace.source == str(path)
        assert read_exactly(path)["distributedInfo"] == {
            "backend": "nccl",
            "rank": rank,
            "world_size": 8,
        }


def test_work_without_a_launch(job, rank, work):
    without = [each for each in work if each["call"] is None]
    assert len(without) == WITHOUT_LAUNCH.get(rank, 0)
    assert (job.gpu_work(rank).launch < 0).sum() == len(without)


def test_times(job, rank, work):
    span_ns = max(each["end"] for each in work) - min(each["start"] for each in work)
    compute, communication = (of_type(work, each) for each in ("COMPUTATION", "COMMUNICATION"))
    times = row_of(temporal_breakdown(job).ranks, rank)
    assert times["operations"] == len(work)
    assert times["kernel_time_ns"] == span_ns
    assert times["idle_time_ns"] == span_ns - covered_ns(work)
    assert times["compute_time_ns"] == covered_ns(compute)
    assert times["non_compute_time_ns"] == covered_ns(work) - covered_ns(compute)
    overlapped = row_of(overlap(job).ranks, rank)
    assert overlapped["communication_time_ns"] == covered_ns(communication)
    assert overlapped["overlap_time_ns"] == both_ns(communication, compute)


def test_time_of_each_kernel(job, rank, work):
    durations = defaultdict(list)
    for each in work:
        durations[each["name"], kernel_type(each)].append(duration_ns(each))
    table = kernel_breakdown(job, [rank]).every_kernel
    assert len(table) == len(durations)
    for row in table.to_dict("records"):
        own = durations[row["name"], row["kernel_type"]]
        assert [row[name] for name in ("count", "sum_ns", "max_ns", "min_ns")] == [
            *(len(own), sum(own), max(own), min(own))
        ]
        assert row["mean_ns"] == pytest.approx(statistics.fmean(own))
        spread = statistics.stdev(own) if len(own) > 1 else 0
        assert row["stddev_ns"] == pytest.approx(spread, abs=1e-6)


def test_time_by_combination_of_types(job, folder):
    expected = Counter()
    for rank in RANKS:
        work = brute_force.gpu_operations(trace_file(folder, rank))
        edges = sorted({each[edge] for each in work for edge in ("start", "end")})
        for start, end in pairwise(edges):
            running = {
                kernel_type(each) for each in work if each["start"] <= start and end <= each["end"]
            }
            expected[frozenset(running)] += end - start
    table = kernel_breakdown(job).types
    found = {
        frozenset(name.split(" overlapping ")): time_ns
        for name, time_ns in zip(table["kernel_type"], table["sum_ns"], strict=True)
    }
    del expected[frozenset()]
    assert found == expected


def test_idle_time_of_each_stream(job, rank, work):
    found = {
        stream: dict(zip(IDLE_CATEGORIES, rows["idle_time_ns"].tolist(), strict=True))
        for stream, rows in idle_time(job, [rank]).streams.groupby("stream", sort=False)
    }
    assert found == brute_force.idle_by_stream(work, 30_000)


def test_each_launch(job, rank, work):
    expected = Counter(
        (
            each["correlation"],
            duration_ns(each["call"]),
            duration_ns(each),
            max(0, each["start"] - each["call"]["end"]),
        )
        for each in work
        if each["call"]
    )
    table = launch_stats(job).launches[rank].iloc[:, :4]
    assert Counter(table.itertuples(index=False, name=None)) == expected


def test_queue_lengths(job, rank, path):
    changes = queue_length(job).changes[rank]
    found = {
        key: list(zip(rows["time_ns"] + job.origin_ns, rows["queue_length"], strict=True))
        for key, rows in changes.groupby(["device", "stream"])
    }
    assert found == raw_operations.queue_lengths(brute_force.gpu_operations(path))


def test_bandwidths(job, rank, path):
    changes = memory_bandwidth(job).changes[rank]
    expected = raw_operations.bandwidths(brute_force.gpu_operations(path))
    assert set(changes["name"]) == set(expected)
    for kind, rows in changes.groupby("name"):
        times, values = zip(*expected[kind], strict=True)
        assert (rows["time_ns"] + job.origin_ns).tolist() == list(times)
        np.testing.assert_allclose(rows["bandwidth_gb_per_s"], values, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("operator_name", "min_pattern_len"), [("aten::", 1), ("## forward ##", 3), ("Optimizer.", 1)]
)
def test_kernel_sequences(job, rank, path, operator_name, min_pattern_len):
    query = {"operator_name": operator_name, "min_pattern_len": min_pattern_len}
    patterns = kernel_sequences(job, rank, **query).patterns
    columns = ["pattern", "count", "gpu_time_ns", "cpu_time_ns"]
    expected = raw_calls.kernel_sequences(path, **query)
    assert patterns[columns].to_numpy(dtype=object).tolist() == [
        [pattern, count, int(1000 * gpu), int(1000 * cpu)] for pattern, count, gpu, cpu in expected
    ]
    assert expected


def test_the_step_launches_all_work_that_has_a_launch(job, rank, work):
    """Also that of the backward pass, which another thread launches."""
    (step,) = kernel_sequences(job, rank, operator_name="ProfilerStep").patterns["pattern"]
    launched = sorted((each for each in work if each["call"]), key=lambda each: each["start"])
    assert step.split("|") == ["ProfilerStep#10", *(each["name"] for each in launched)]


def test_duration_tails(job, rank, path):
    durations = defaultdict(list)
    for event in read_exactly(path)["traceEvents"]:
        if event.get("cat") in DURATION_CATEGORIES:
            durations[DURATION_CATEGORIES[event["cat"]]].append(int(1000 * Decimal(event["dur"])))
    result = duration_tails(job)
    categories, tails = (
        table[table["rank"] == rank].to_dict("records")
        for table in (result.categories, result.tails)
    )
    assert {row["category"]: row["total_ns"] for row in categories} == {
        name: sum(own) for name, own in durations.items()
    }
    for row in tails:
        own = sorted(durations[row["category"]], reverse=True)
        longest = own[: int(len(own) * row["percent"] // 100)]
        assert row["k"] == len(longest)
        mean_ns = statistics.fmean(longest) if longest else math.nan
        assert row["mean_ns"] == pytest.approx(mean_ns, nan_ok=True)


def test_launches_hidden_behind_kernels(job, rank, work):
    kernels = kernels_of(work)
    calls = {id(each["call"]): each["call"] for each in kernels if each["call"]}
    last_end_ns = {
        key: max(each["end"] for each in kernels if each["call"] is call)
        for key, call in calls.items()
    }
    ordered = sorted(calls.values(), key=lambda call: call["start"])
    overlapping = sum(
        any(last_end_ns[id(earlier)] > call["start"] for earlier in ordered[:place])
        for place, call in enumerate(ordered)
    )
    threads = [[c for c in ordered if c["tid"] == tid] for tid in {c["tid"] for c in ordered}]
    row = row_of(launch_overlap(job).ranks, rank)
    assert (row["launches"], row["overlapping"]) == (len(calls), overlapping)
    assert (row["kernels"], row["without_launch"]) == (len(kernels), WITHOUT_LAUNCH.get(rank, 0))
    assert row["call_time_ns"] == sum(map(covered_ns, threads))
    assert row["hidden_ns"] == sum(both_ns(calls, kernels) for calls in threads)


def test_parts_of_the_time_of_a_rank(job, rank, work):
    kernels = kernels_of(work)
    compute, communication = (of_type(kernels, each) for each in ("COMPUTATION", "COMMUNICATION"))
    lane = row_of(rank_overlap(job).lanes, rank)
    span_ns = max(each["end"] for each in kernels) - min(each["start"] for each in kernels)
    assert lane["span_ns"] == span_ns
    assert lane["overlap_ns"] == both_ns(compute, communication)
    assert lane["compute_ns"] == covered_ns(compute) - lane["overlap_ns"]
    assert lane["communicate_ns"] == covered_ns(communication) - lane["overlap_ns"]
    assert lane["empty_ns"] == span_ns - covered_ns(kernels)


def test_comparison_with_a_job_of_two_ranks(job, folder, kineto_jobs):
    other = opened(kineto_jobs["dlrm_2rank"])
    kernels = compare(other, job, per="job").kernels
    expected = defaultdict(lambda: [0, 0])
    for rank in RANKS:
        for each in brute_force.gpu_operations(trace_file(folder, rank)):
            total = expected[each["name"]]
            total[0] += 1
            total[1] += duration_ns(each)
    own = kernels[kernels["in"] != "first"]
    found = zip(own["name_second"], own["count_second"], own["total_second_ns"], strict=True)
    assert {name: [count, total_ns] for name, count, total_ns in found} == expected
    assert own["in"].value_counts().to_dict() == {"both": 45, "second": 36}
